import { availableParallelism } from 'node:os'
import { configDefaults, defineConfig, type Plugin } from 'vitest/config'
import { notRun } from './test/support/tools.ts'

/** Only in the long run: faults and attacks, hundreds of processes, programs that are built or installed first. */
const long = [
  'apiserver/src/http/authorization.fuzz.test.ts',
  'apiserver/src/query/{query.stores,query-work}.test.ts',
  'apiserver/src/storage/embedded/processes.test.ts',
  'apiserver/src/storage/etcd/etcd-{cluster,full,login,members,watch}.test.ts',
  'controller-runtime/src/manager/restart-storm.test.ts',
  'controller-runtime/src/testing/conformance/reconciler-conformance.test.ts',
  'plugins/*/src/conformance.test.ts',
  'plugins/{certificates/src/revocation,webhooks/src/webhooks}.test.ts',
  'test/alerts.test.ts',
  'test/attack.test.ts',
  'test/availability.test.ts',
  'test/cert-manager.test.ts',
  'test/chart{,-run}.test.ts',
  'test/collector.test.ts',
  'test/console-{access,form,load}.test.ts',
  'test/controllers{,-token}.test.ts',
  'test/create-plugin.test.ts',
  'test/definitions-{building,deletion-race,footprint,kubernetes,large,operations,servers,under-load}.test.ts',
  'test/dev.test.ts',
  'test/docs{,-blocks,-site}.test.ts',
  'test/etcd-certificates.test.ts',
  'test/fairness.test.ts',
  'test/faults.test.ts',
  'test/following.test.ts',
  'test/hostile-requests.test.ts',
  'test/index-life.test.ts',
  'test/kubectl-{built-in,definitions,get,namespaces,older,openapi}.test.ts',
  'test/kubernetes-{go,python}.test.ts',
  'test/leader-election.test.ts',
  'test/machine.test.ts',
  'test/openapi-typescript.test.ts',
  'test/operator.test.ts',
  'test/packages.test.ts',
  'test/plugin-packages.test.ts',
  'test/plugin-runnables.test.ts',
  'test/production.test.ts',
  'test/published-definitions.test.ts',
  'test/runbooks{,-lost,-stores}.test.ts',
  'test/sdk-restarts.test.ts',
  'test/service-account-token.test.ts',
  'test/several-servers.test.ts',
  'test/shutdown.test.ts',
  'test/soak.test.ts',
  'test/stored-versions.test.ts',
  'test/webhooks.test.ts',
  'test/{backup-restore,check,encryption,purge,store-format}.test.ts',
]
const longSimulation = ['test/simulation/long-simulation.test.ts']
/** These replace modules, set flags of V8 or limit the memory of their process. */
const alone = [
  'apiserver/src/storage/**/*.test.ts',
  'apiserver/src/http/{body-sender,middleware/objects}.test.ts',
  'controller-runtime/src/workqueue/work-queue.test.ts',
]

const except = (...patterns: string[]) => [...configDefaults.exclude, ...patterns]

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
    maxWorkers: 2 * availableParallelism(),
    // Files share a process, so that it loads Koa, Ajv and the SDK once. Vitest starts the projects in this order.
    isolate: false,
    projects: [
      // It takes longer than any other file.
      { extends: true, test: { name: 'long-simulation', include: longSimulation } },
      { extends: true, plugins: [namesFilesThatDidNotRun], test: { name: 'long', include: long } },
      {
        extends: true,
        test: {
          name: 'programs',
          include: ['test/**/*.test.ts', 'plugins/*/src/**/*.test.ts'],
          exclude: except(...long, ...longSimulation),
        },
      },
      {
        extends: true,
        test: { name: 'alone', include: alone, exclude: except(...long), isolate: true },
      },
      {
        extends: true,
        test: {
          name: 'units',
          include: ['controller-runtime/src/**/*.test.ts', 'apiserver/src/**/*.test.ts'],
          exclude: except(...long, ...alone),
        },
      },
    ],
  },
})
