import {
  Collector,
  createManager,
  DiscoveredKinds,
  Lease,
  type Logger,
  type Manager,
  type Transport,
} from '@setpoint/controller-runtime'
import { EventKeeper } from '@setpoint/controller-runtime/internal'
import { Registry } from 'prom-client'
import { ControllersHealth, HealthEndpoint } from '../http/index.ts'
import type { LogLosses } from '../log/index.ts'
import { describeLog, describeProcess, describeProgram } from '../metrics/index.ts'
import {
  ControllersRunner,
  installedSources,
  PluginSpecs,
  Plugins,
  type ReloadOutcome,
} from '../plugins/index.ts'
import { programCommit, programVersion } from '../program-version.ts'
import { WatchedFiles, warnIfReadableByAll } from '../security/index.ts'
import { CertificateValidity } from './certificate-validity.ts'
import { electionOf } from './election.ts'
import type { ControllersOptions } from './options.ts'
import { lastingTransport } from './server-transport.ts'
import { withinTime } from './within-time.ts'

export const controllersDefaults = Object.freeze({
  /**
   * Milliseconds that the line on standard output is delayed for plugins that are still starting. Plugins that are
   * ready already run.
   */
  announceMs: 10_000,
  /** Milliseconds that the start waits for the server's answer about its kinds. */
  checkMs: 5_000,
})

/** The plugins' controllers and the collector in a process of their own, against a remote server. */
interface RunningControllers {
  /** Finishes the current reconciles, or aborts them with `force`, releases the lease and stops. */
  stop(options?: { readonly force?: boolean }): Promise<void>
  /** Reloads the plugin of a source, by its label, see `Plugins.reload`. */
  reloadPlugin(label: string): Promise<ReloadOutcome>
}

/**
 * Loads the plugins and runs their controllers, without models, routes or YAML. The server need not be reachable yet;
 * its `Plugin` objects say which plugins are enabled. Of several such processes the holder of the lease works; the
 * others stand by with filled caches. A plugin that cannot be loaded is reported and left out.
 * @throws the error of `listen` for the health endpoint; Error if the server does not serve the kind `Lease`
 */
export async function startControllers(
  options: ControllersOptions,
  log: Logger,
  losses: () => LogLosses,
): Promise<RunningControllers> {
  const { server, serverToken } = options
  if (serverToken !== undefined) warnIfReadableByAll(serverToken.path, log)
  const files = new WatchedFiles(log)
  const validity = new CertificateValidity(log)
  const transport = lastingTransport(options, { files, validity, log })
  await requireLeases(transport, server)
  const { reservedDomain } = options
  const registry = new Registry()
  describeProcess(registry)
  describeLog(registry, losses)
  // Before the plugins are loaded, so that a process with a slow plugin is alive and not ready.
  let running: Manager | undefined
  const health = new ControllersHealth(() => running)
  const version = programVersion()
  const commit = programCommit()
  describeProgram(registry, {
    version,
    commit,
    role: options.role,
    store: '',
    files,
    certificates: validity,
    health,
  })
  const endpoint = await serveHealth(options, { health, registry }, log)
  const manager = createManager({ transport, registry, log, leaderElection: electionOf(options) })
  if (options.collector) {
    manager.add(
      new Collector({
        kinds: new DiscoveredKinds({ transport, log }),
        reservedDomain,
        metrics: manager.metrics,
      }),
    )
    manager.add(new EventKeeper())
  }
  manager.start()
  const specs = new PluginSpecs({ transport, reservedDomain, log })
  specs.start()
  const settings = { ...options.pluginSettings, names: (): string[] => plugins.names }
  const environment = { transport, manager, specs, settings, reservedDomain, log }
  const plugins: Plugins = new Plugins({
    create: (loader, loaded) => new ControllersRunner(loader, loaded, environment),
    specs,
    settings,
    log,
  })
  const started = plugins
    .start(options.plugins ?? (await installedSources()))
    .then(({ starting }) => starting)
    .then(() => {
      running = manager
    })
  await withinTime(started, controllersDefaults.announceMs)
  return {
    async stop(how) {
      health.drain()
      await manager.stop(how)
      await plugins.stop()
      await specs.stop()
      await endpoint?.close()
      files.close()
      validity.close()
      transport.close()
    },
    reloadPlugin: label => plugins.reload(label),
  }
}

/**
 * Checks that a reachable server serves the kind of leader election. An unreachable one is tried again by the election.
 * @throws Error that names the flag of the server
 */
async function requireLeases(transport: Transport, server: string): Promise<void> {
  const { group, version } = Lease
  const path = `/apis/${group}/${version}`
  const signal = AbortSignal.timeout(controllersDefaults.checkMs)
  const response = await transport.request({ method: 'GET', path, signal }).catch(() => undefined)
  if (response?.status !== 404) return
  throw new Error(
    `${server} does not serve ${path}, which leader election needs: start it without --kubernetes-kinds=false`,
  )
}

async function serveHealth(
  { healthListen }: ControllersOptions,
  parts: ConstructorParameters<typeof HealthEndpoint>[0],
  log: Logger,
): Promise<HealthEndpoint | undefined> {
  if (healthListen === undefined) return undefined
  const endpoint = new HealthEndpoint(parts)
  const url = await endpoint.listen(healthListen).catch((error: Error) => {
    throw new Error(`--health-listen: ${error.message}`, { cause: error })
  })
  log.info({ url }, 'serving health and metrics')
  return endpoint
}
