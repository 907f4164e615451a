import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['src/**/*.test.*'],
    // Each case of the reconciler suite takes a few seconds.
    testTimeout: 120_000,
  },
})
