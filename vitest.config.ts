import { availableParallelism } from 'node:os'
import { configDefaults, defineConfig } from 'vitest/config'
import { findTools } from './test/support/tools.ts'

const missing = await findTools()
if (process.env.CI && missing.length > 0) throw new Error(missing.map(({ reason }) => reason).join('\n'))
process.once('exit', () => {
  for (const { reason, files } of missing) process.stdout.write(`Not run: ${files.join(', ')}\n  ${reason}\n`)
})

const exclude = [...configDefaults.exclude, ...missing.flatMap(({ files }) => files)]
// These start etcd, replace modules or limit the memory of their process.
const alone = ['apiserver/src/storage/**/*.test.ts', 'apiserver/src/http/**/*.test.ts']

export default defineConfig({
  test: {
    // For tests that hang. A machine ten times slower must pass too.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    expect: { poll: { timeout: 60_000, interval: 50 } },
    pool: 'forks',
    // More files than processors: the longest tests mostly wait for servers, leases and time-outs.
    maxWorkers: availableParallelism() + 1,
    projects: [
      {
        // Vitest starts isolated files first. They take longest.
        extends: true,
        test: {
          name: 'processes',
          include: ['plugins/*/src/**/*.test.ts', 'test/**/*.test.ts', ...alone],
          exclude,
        },
      },
      {
        extends: true,
        test: {
          name: 'units',
          include: ['controller-runtime/src/**/*.test.ts', 'apiserver/src/**/*.test.ts'],
          exclude: [...exclude, ...alone],
          // Files share a process, so that it loads Koa, Ajv and the SDK once.
          isolate: false,
        },
      },
    ],
  },
})
