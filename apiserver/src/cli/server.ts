import type { AddressInfo } from 'node:net'
import { createManager, type Logger, type Manager } from '@setpoint/controller-runtime'
import { HistoryReplay, LogFollower, ReadGate } from '../cache/index.ts'
import { App, CustomRoutes, Health, ResourceApi } from '../http/index.ts'
import { Metrics } from '../metrics/index.ts'
import { ModelRegistry } from '../model/model-registry.ts'
import { ServedModel } from '../model/served-model.ts'
import { claimIndexes } from '../plugins/index-claim.ts'
import { discoverPlugins, type LoadedPlugin, loadPlugin, PluginLoadError } from '../plugins/load-plugin.ts'
import { LoopbackTransport } from '../plugins/loopback-transport.ts'
import { pluginModel } from '../plugins/plugin-kind.ts'
import { type PluginEnvironment, PluginRunner } from '../plugins/plugin-runner.ts'
import { PluginStatuses } from '../plugins/plugin-status.ts'
import { Registry } from '../registry/index.ts'
import { openEmbeddedStorage } from '../storage/embedded/index.ts'
import { openEtcdStorage } from '../storage/etcd/index.ts'
import { compactRegularly, type Storage } from '../storage/index.ts'
import { WatchHub } from '../watch/index.ts'
import { formatAddress, type ListenAddress, type ServerOptions, type StoreOptions } from './flags.ts'

export const serverDefaults = Object.freeze({
  /** Milliseconds that the listening line waits for plugins to start; the port answers (503) meanwhile. */
  announceMs: 10_000,
  /** Milliseconds after SIGTERM for reconciles, requests and sockets together to end (Kubernetes kills after 30 s). */
  drainMs: 25_000,
  /** Of these, milliseconds that are left for requests and sockets however long reconciles take. */
  closingMs: 5_000,
  /** Milliseconds between two looks for idle connections while draining. */
  closeIdleMs: 100,
})

/** A running server. */
export interface RunningServer {
  /** `http://host:port<base path>`, with the real port. */
  readonly url: string
  /** Drains and stops: no new work, requests and reconciles finish, watches are closed, the store is released. */
  stop(): Promise<void>
}

/**
 * Puts the rooms together and starts them: the store, the log, the API, then the plugins. Resolves when it serves.
 * @throws StoreLockedError, StoreFolderError, RangeError, or the error of `listen`.
 */
export async function startServer(options: ServerOptions, log: Logger): Promise<RunningServer> {
  const storage = await openStorage(options.store, log)
  const stopping = new AbortController()
  const follower = new LogFollower({ storage, log })
  const gate = new ReadGate(storage, follower)
  const models = new ModelRegistry()
  const registry = new Registry({ storage, reservedDomain: options.reservedDomain })
  const hub = new WatchHub({ gate, replay: new HistoryReplay(storage), follower, log })
  const api = new ResourceApi({ models, registry, follower, gate, basePath: options.basePath })
  const routes = new CustomRoutes(models, options.reservedDomain)
  const runners: PluginRunner[] = []
  const health = new Health({ storage, follower, plugins: () => runners })
  let loaded = false
  const isStarting = () => !loaded || runners.some(runner => !runner.isRegistered)
  const metrics = new Metrics({ models, follower, hub })
  const app = new App({
    models,
    api,
    routes,
    hub,
    health,
    metrics,
    log,
    isStarting,
    basePath: options.basePath,
  })
  let url: string
  try {
    url = await listen(app, options)
  } catch (error) {
    await storage.close()
    throw error
  }
  follower.start()
  // The embedded store bounds its history by itself.
  const compaction =
    options.store.kind === 'etcd' ? compactRegularly(storage, log, stopping.signal) : Promise.resolve()

  const transport = new LoopbackTransport({ api, hub, log })
  const manager = options.role === 'all' ? createManager({ transport, log }) : undefined
  const pluginKind = new ServedModel(pluginModel(options.reservedDomain))
  models.add(pluginKind)
  const ownKind = startOwnKind(pluginKind, { storage, registry, follower, log }, stopping.signal)
  const statuses = new PluginStatuses({
    served: pluginKind,
    registry,
    metrics,
    log,
    signal: stopping.signal,
    ready: ownKind,
  })
  const environment: PluginEnvironment = {
    storage,
    models,
    registry,
    follower,
    routes,
    transport,
    manager,
    statuses,
    reservedDomain: options.reservedDomain,
    log,
  }
  // At once, though the store may be away: the kinds of plugins answer 503 until they are ready, not 404.
  const started = Promise.all([
    ownKind.then(() => health.started()),
    loadPlugins(options.plugins, environment).then(plugins => {
      runners.push(...plugins.map(plugin => new PluginRunner(plugin, environment)))
      loaded = true
      return startPlugins(runners, statuses)
    }),
  ])
  manager?.start()
  await withinTime(started, serverDefaults.announceMs)

  let stopped: Promise<void> | undefined
  return {
    url,
    stop() {
      stopped ??= stopServer({
        app,
        health,
        hub,
        manager,
        runners,
        follower,
        storage,
        compaction,
        stopping,
        log,
      })
      return stopped
    },
  }
}

async function openStorage(store: StoreOptions, log: Logger): Promise<Storage> {
  if (store.kind === 'embedded') return openEmbeddedStorage({ dataDir: store.dataDir, log })
  const { ca, cert, key } = store.tls
  return openEtcdStorage({
    endpoints: store.endpoints,
    prefix: store.prefix,
    // Absent altogether where nothing is given: plain http endpoints take none.
    ...((ca ?? cert ?? key) !== undefined && {
      tls: {
        ...(ca !== undefined && { ca: Buffer.from(ca) }),
        ...(cert !== undefined && { cert: Buffer.from(cert) }),
        ...(key !== undefined && { key: Buffer.from(key) }),
      },
    }),
    ...(store.credentials && {
      auth: { user: store.credentials.username, password: store.credentials.password },
    }),
    log,
  })
}

function listen(app: App, { listen: address, basePath }: ServerOptions): Promise<string> {
  const { server } = app
  return new Promise((resolve, reject) => {
    const refused = (error: NodeJS.ErrnoException) =>
      reject(new Error(describeListenError(error, address), { cause: error }))
    server.once('error', refused)
    server.listen(address.port, address.host, () => {
      server.off('error', refused)
      const { address: host, port, family } = server.address() as AddressInfo
      resolve(`http://${family === 'IPv6' ? `[${host}]` : host}:${port}${basePath}`)
    })
  })
}

/** The usual reasons, in words that say what to do. */
function describeListenError({ code, message }: NodeJS.ErrnoException, address: ListenAddress): string {
  const where = `cannot listen on ${formatAddress(address)}`
  if (code === 'EADDRINUSE')
    return `${where}: the port is in use; stop what uses it, or choose another with --listen`
  if (code === 'EACCES') return `${where}: this user may not use the port; choose one from 1024 with --listen`
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND') return `${where}: this machine has no such address`
  return `${where}: ${message}`
}

/** Loads every plugin that can be; the others' faults become their status. */
async function loadPlugins(
  dirs: readonly string[] | undefined,
  { log, statuses }: Pick<PluginEnvironment, 'log' | 'statuses'>,
): Promise<LoadedPlugin[]> {
  const loaded: LoadedPlugin[] = []
  for (const dir of await discoverPlugins(dirs)) {
    try {
      const plugin = await loadPlugin(dir)
      const twin = loaded.find(other => other.plugin.name === plugin.plugin.name)
      if (twin !== undefined)
        throw new PluginLoadError(
          dir,
          `the name ${JSON.stringify(plugin.plugin.name)} is that of the plugin in ${twin.dir}`,
        )
      loaded.push(plugin)
    } catch (error) {
      log.error({ dir, err: error }, 'a plugin cannot be loaded')
      const message = error instanceof Error ? error.message : String(error)
      const lastTransitionTime = new Date().toISOString()
      statuses.publish(objectNameOf(dir), {
        phase: 'Failed',
        message,
        conditions: [{ type: 'Ready', status: 'False', reason: 'LoadError', message, lastTransitionTime }],
      })
    }
  }
  return loaded
}

/** Starts every plugin; each one's fault stays its own. */
async function startPlugins(runners: readonly PluginRunner[], statuses: PluginStatuses): Promise<void> {
  await Promise.all(runners.map(runner => runner.start()))
  await statuses.settled()
}

async function startOwnKind(
  served: ServedModel,
  { storage, registry, follower, log }: Pick<PluginEnvironment, 'storage' | 'registry' | 'follower' | 'log'>,
  signal: AbortSignal,
): Promise<void> {
  await claimIndexes({ storage, records: registry.records, served, log, signal })
  await follower.add(served, signal)
  served.phase = { name: 'Started' }
}

/** A valid object name for a plugin that could not even say its own: its folder's. */
function objectNameOf(dir: string): string {
  const base = dir.split(/[\\/]/).findLast(part => part !== '') ?? ''
  return (
    base
      .toLowerCase()
      .replace(/[^a-z0-9]+/g, '-')
      .replace(/^-+|-+$/g, '')
      .slice(0, 63) || 'unnamed'
  )
}

async function withinTime(work: Promise<unknown>, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<void>(resolve => {
    timer = setTimeout(resolve, ms)
  })
  await Promise.race([work, late])
  clearTimeout(timer)
}

interface Stoppable {
  readonly app: App
  readonly health: Health
  readonly hub: WatchHub
  readonly manager: Manager | undefined
  readonly runners: readonly PluginRunner[]
  readonly follower: LogFollower
  readonly storage: Storage
  readonly compaction: Promise<void>
  readonly stopping: AbortController
  readonly log: Logger
}

async function stopServer({
  app,
  health,
  hub,
  manager,
  runners,
  follower,
  storage,
  compaction,
  stopping,
  log,
}: Stoppable): Promise<void> {
  log.info({}, 'the server is shutting down')
  health.drain()
  const deadline = performance.now() + serverDefaults.drainMs
  const closed = new Promise<void>(resolve => app.server.close(() => resolve()))
  // Connections that fall idle later are closed too, so that none waits for its next request.
  const closeIdle = setInterval(() => app.server.closeIdleConnections(), serverDefaults.closeIdleMs)
  // Controllers finish their current item first: they read and write through the API, which must still be there.
  await withinTime(
    Promise.all([manager?.stop(), ...runners.map(runner => runner.stop())]),
    serverDefaults.drainMs - serverDefaults.closingMs,
  )
  hub.drain()
  await withinTime(closed, deadline - performance.now())
  clearInterval(closeIdle)
  app.close()
  stopping.abort()
  await compaction
  await follower.stop()
  await storage.close()
  log.info({}, 'the server has stopped')
}
