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
    // A test that hangs is found so, no slow one: others may have the processors.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    expect: { poll: { timeout: 60_000 } },
    pool: 'forks',
    // Two files at once also on two processors: the longest ones mostly wait, for servers, leases and time-outs.
    maxWorkers: Math.max(2, availableParallelism() - 1),
  },
})
