import { availableParallelism } from 'node:os'
import { configDefaults, defineConfig, type Plugin } from 'vitest/config'
import { notRun } from './test/support/tools.ts'

// These replace modules or limit the memory of their process.
const alone = ['apiserver/src/storage/**/*.test.ts', 'apiserver/src/http/**/*.test.ts']

/** Its last lines name the files that did not run because a program is missing, see `test/support/runner.ts`. */
const namesFilesThatDidNotRun: Plugin = {
  name: 'setpoint:not-run',
  configureVitest: ({ vitest }) =>
    void process.once('exit', () => {
      for (const { file, name } of vitest.state.getFiles().flatMap(({ tasks }) => tasks))
        if (name.startsWith(notRun))
          process.stdout.write(`Not run: ${file.name}\n  ${name.slice(notRun.length)}\n`)
    }),
}

export default defineConfig({
  test: {
    // For tests that hang. A machine ten times slower must pass too.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    expect: { poll: { timeout: 60_000, interval: 50 } },
    pool: 'forks',
    runner: './test/support/runner.ts',
    // More files than processors: the longest tests mostly wait for servers, leases and time-outs.
    maxWorkers: availableParallelism() + 1,
    projects: [
      {
        // Vitest starts isolated files first. They take longest.
        extends: true,
        plugins: [namesFilesThatDidNotRun],
        test: {
          name: 'processes',
          include: ['plugins/*/src/**/*.test.ts', 'test/**/*.test.ts', ...alone],
        },
      },
      {
        extends: true,
        test: {
          name: 'units',
          include: ['controller-runtime/src/**/*.test.ts', 'apiserver/src/**/*.test.ts'],
          exclude: [...configDefaults.exclude, ...alone],
          // Files share a process, so that it loads Koa, Ajv and the SDK once.
          isolate: false,
        },
      },
    ],
  },
})
