import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['src/**/*.test.*'],
    // Each case of the reconciler suite takes a few seconds, and more on a busy machine.
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
})
