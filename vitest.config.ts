import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: [
      'controller-runtime/src/**/*.test.ts',
      'apiserver/src/**/*.test.ts',
      'plugins/*/src/**/*.test.ts',
      'test/**/*.test.ts',
    ],
    testTimeout: 30_000,
    hookTimeout: 60_000,
    pool: 'forks',
  },
})
