import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'
import { findTools } from './test/support/tools.ts'

const missing = await findTools()
if (process.env.CI && missing.length > 0) throw new Error(missing.map(({ reason }) => reason).join('\n'))
process.once('exit', () => {
  for (const { reason, files } of missing) process.stdout.write(`Not run: ${files.join(', ')}\n  ${reason}\n`)
})

export default defineConfig({
  test: {
    include: [
      'controller-runtime/src/**/*.test.ts',
      'apiserver/src/**/*.test.ts',
      'plugins/*/src/**/*.test.ts',
      'test/**/*.test.ts',
    ],
    exclude: ['**/node_modules/**', ...missing.flatMap(({ files }) => files)],
    // For tests that hang. A machine ten times slower must pass too.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    expect: { poll: { timeout: 60_000, interval: 10 } },
    pool: 'forks',
    // At least two files at once: the longest tests mostly wait for servers, leases and time-outs.
    maxWorkers: Math.max(2, availableParallelism() - 1),
  },
})
