import { readFile } from 'node:fs/promises'
import {
  Collector,
  createManager,
  DiscoveredKinds,
  EventKeeper,
  type HostedPlugin,
  HttpTransport,
  type Logger,
  type Manager,
  setupPlugin,
} from '@setpoint/controller-runtime'
import { collectDefaultMetrics, Registry } from 'prom-client'
import { HealthEndpoint, type HealthEndpointParts } from '../http/index.ts'
import { discoverPlugins } from '../plugins/load-plugin.ts'
import { loadPlugins } from '../plugins/load-plugins.ts'
import type { ControllersOptions } from './flags.ts'

/** The plugins' controllers and the collector of dependents in a process of their own, against a server elsewhere. */
export interface RunningControllers {
  /** Finishes the current reconciles, or with `force` cuts them off, gives the lease up, and stops. */
  stop(options?: { readonly force?: boolean }): Promise<void>
}

/**
 * Loads the plugins and runs their controllers: no models, routes or YAML. The server need not be there yet.
 * Of several such processes one works, the one that holds the lease; the others stand by with filled caches.
 * A plugin that cannot be loaded is reported and left out.
 * @throws the error of `listen`, where health is to be told and cannot.
 */
export async function startControllers(
  options: ControllersOptions,
  log: Logger,
): Promise<RunningControllers> {
  const { server, serverToken, serverCa } = options
  const token = serverToken && (() => tokenIn(serverToken.path, serverToken.text))
  const transport = new HttpTransport({
    server,
    ...(token && { token }),
    ...(serverCa !== undefined && { tls: { ca: serverCa } }),
  })
  const { lease, reservedDomain } = options
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  // Before the plugins are loaded: a process whose plugin takes its time lives, and is not ready.
  let running: Manager | undefined
  const health = await tellHealth(options, { manager: () => running, registry }, log)
  const manager = createManager({ transport, registry, log, leaderElection: { lease, reservedDomain } })
  manager.add(
    new Collector({
      kinds: new DiscoveredKinds({ transport, log }),
      reservedDomain,
      ...(manager.metrics && { metrics: manager.metrics }),
    }),
  )
  manager.add(new EventKeeper({ reservedDomain }))
  manager.start()
  const hosted: HostedPlugin[] = []
  const settingUp: Promise<void>[] = []
  for await (const outcome of loadPlugins(await discoverPlugins(options.plugins))) {
    const { dir } = outcome
    const failed = (error: unknown) => log.error({ dir, err: error }, 'a plugin cannot be started')
    if ('error' in outcome) failed(outcome.error)
    else {
      const setup = setupPlugin(outcome.plugin, { transport, log, manager, reservedDomain })
      settingUp.push(setup.then(plugin => void hosted.push(plugin)).catch(failed))
    }
  }
  await Promise.all(settingUp)
  running = manager
  return {
    async stop(how) {
      health?.drain()
      await manager.stop(how)
      await Promise.all(hosted.map(plugin => plugin.stop()))
      await health?.close()
    },
  }
}

/** The token that is in the file now: it may be renewed. What was there at the start, while it cannot be read. */
async function tokenIn(path: string, atStart: string): Promise<string> {
  try {
    return (await readFile(path, 'utf8')).trim() || atStart
  } catch {
    return atStart
  }
}

async function tellHealth(
  { healthListen }: ControllersOptions,
  parts: HealthEndpointParts,
  log: Logger,
): Promise<HealthEndpoint | undefined> {
  if (healthListen === undefined) return undefined
  const endpoint = new HealthEndpoint(parts)
  const url = await endpoint.listen(healthListen).catch((error: Error) => {
    throw new Error(`--health-listen: ${error.message}`, { cause: error })
  })
  log.info({ url }, 'health and metrics are told here')
  return endpoint
}
