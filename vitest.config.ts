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
    // Against what hangs, and nothing else: a machine that is ten times slower passes too.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    expect: { poll: { timeout: 60_000, interval: 10 } },
    pool: 'forks',
    // Two files at once also on two processors: the longest ones mostly wait, for servers, leases and time-outs.
    maxWorkers: Math.max(2, availableParallelism() - 1),
  },
})
