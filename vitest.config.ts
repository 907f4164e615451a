import { availableParallelism } from 'node:os'
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
    // Two files at once also on two processors: the longest ones mostly wait, for servers, leases and time-outs.
    maxWorkers: Math.max(2, availableParallelism() - 1),
  },
})
