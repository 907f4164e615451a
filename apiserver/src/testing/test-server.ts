import { setMaxListeners } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Collector, createManager, type Plugin } from '@setpoint/controller-runtime'
import { isReservedGroup } from '@setpoint/controller-runtime/api'
import { type HostedPlugin, orphanRecordModel, setupPlugin } from '@setpoint/controller-runtime/internal'
import type {
  EtcdOfTest,
  OpenedTestServer,
  OpenTestServerOptions,
  PluginSettingsOfTest,
} from '@setpoint/controller-runtime/testing'
import { ApiServer, Health, loadActionRules } from '../http/index.ts'
import type { Logger } from '../log/index.ts'
import { Metrics } from '../metrics/index.ts'
import { loadRules, ServedModel } from '../model/index.ts'
import {
  type Actor,
  AdmitReads,
  PluginActor,
  readSettings,
  ServedKinds,
  serverActor,
} from '../plugins/index.ts'
import { assembleRooms, type ServerRooms, startBuiltInKinds, startKind } from '../rooms.ts'
import { LocalAccess, LocalOrigins } from '../security/index.ts'
import { openEmbeddedStorage } from '../storage/embedded/index.ts'
import type { Storage } from '../storage/index.ts'
import { WatchConnections } from '../watch/index.ts'

export const testServerDefaults = Object.freeze({
  /** By default the program's default. */
  reservedDomain: 'setpoint.dev',
  /** Bytes of disk allocated ahead of need. A test writes little, and allocating megabytes would dominate its start. */
  spaceAheadBytes: 256 * 1024,
})

/**
 * Opens a server in this process over a store of its own, without plugin folders, YAML and objects of the kind
 * `Plugin`. Kinds are served, with the actions of plugins, when it resolves. No controller runs, and no port is open
 * before `listen`.
 *
 * @throws Error if a kind's group is reserved or two declarations of a kind differ; errors of the store
 */
export async function openTestServer(options: OpenTestServerOptions): Promise<OpenedTestServer> {
  const { log } = options
  const store = await openStore(options.etcd, log)
  const { reservedDomain } = testServerDefaults
  const rooms = assembleRooms({ storage: store.storage, reservedDomain, basePath: '', log })
  const stopping = new AbortController()
  // Each kind that starts listens.
  setMaxListeners(0, stopping.signal)
  // Deleting an owner deletes its dependents, as in the program.
  const manager = createManager({ transport: rooms.transport, log })
  if (options.collector) manager.add(new Collector({ kinds: new ServedKinds(rooms.models, () => false) }))
  const hosted: HostedPlugin[] = []
  let front: Promise<Front> | undefined
  const close = async () => {
    await front?.then(each => each.close())
    await Promise.all(hosted.map(each => each.stop()))
    await manager.stop()
    rooms.hub.close()
    stopping.abort()
    await rooms.follower.stop()
    await store.close()
  }
  try {
    rooms.follower.start()
    await loadRules([...options.models, ...options.plugins.flatMap(({ models }) => models)])
    const served = registerModels(rooms, options)
    for (const plugin of options.plugins) hosted.push(await host(rooms, plugin, options))
    const starting = { log, signal: stopping.signal }
    await Promise.all([
      startBuiltInKinds(rooms, starting),
      ...served.map(each => startKind(rooms, each, starting)),
    ])
    manager.start()
  } catch (error) {
    await close()
    throw error
  }
  let closed: Promise<void> | undefined
  return {
    transport: rooms.transport,
    settingsOf: plugin => settingsOf(plugin, options.settings),
    async listen() {
      if (closed !== undefined) throw new Error('the test server is closed')
      // Imported on demand: the modules for HTTP take longer to load than the server takes to start.
      front ??= openFront(rooms, log)
      return (await front).url
    },
    close() {
      closed ??= close()
      return closed
    },
  }
}

async function openStore(
  etcd: EtcdOfTest | undefined,
  log: Logger,
): Promise<{ storage: Storage; close(): Promise<void> }> {
  if (etcd !== undefined) {
    const { openEtcdStorage } = await import('../storage/etcd/index.ts')
    const storage = await openEtcdStorage({ endpoints: etcd.endpoints, prefix: etcd.prefix, log })
    return { storage, close: () => storage.close() }
  }
  const dataDir = await mkdtemp(join(tmpdir(), 'setpoint-test-'))
  const { spaceAheadBytes } = testServerDefaults
  const storage = await openEmbeddedStorage({ dataDir, durable: false, spaceAheadBytes, log })
  return {
    storage,
    async close() {
      await storage.close()
      await rm(dataDir, { recursive: true, force: true })
    },
  }
}

/** Checks groups as the program does for plugins. Models given without a plugin may use any group. */
function registerModels(rooms: ServerRooms, options: OpenTestServerOptions): ServedModel[] {
  const { models, follower, builtIn } = rooms
  const readsOf = (actor: Actor) => ({ listerOf: () => new AdmitReads({ models, follower, actor }) })
  const served: ServedModel[] = []
  for (const plugin of options.plugins) {
    const actor = actorOf(rooms, plugin)
    for (const model of plugin.models) {
      if (isReservedGroup(model.group, testServerDefaults.reservedDomain)) {
        throw new Error(
          `plugin ${plugin.name}: the group ${JSON.stringify(model.group)} of ${model.kind} is reserved`,
        )
      }
      served.push(new ServedModel(model, plugin.name, readsOf(actor)))
    }
  }
  for (const model of options.models) {
    // A plugin's model may be given a second time.
    if (served.some(known => known.model === model)) continue
    served.push(new ServedModel(model, undefined, readsOf(serverActor)))
  }
  // The kind of the collector; a test may give it too.
  const own = ServedModel.builtIn(orphanRecordModel(testServerDefaults.reservedDomain))
  if (!served.some(({ resource }) => resource === own.resource)) served.push(own)
  for (const each of [...builtIn.all, ...served]) models.add(each)
  return served
}

function settingsOf(plugin: Plugin, config: PluginSettingsOfTest): Readonly<Record<string, unknown>> {
  const remedyOf = (key: string) => `give settings: { ${JSON.stringify(plugin.name)}: { ${key} } }`
  return readSettings(plugin, { env: {}, config, remedyOf }, [])
}

function actorOf({ authorizer, callers }: ServerRooms, { name }: Plugin): PluginActor {
  return new PluginActor(name, { authorizer, callers, isOpen: true })
}

/** Serves the routes and actions of a plugin. @throws the error of its `setup`; RouteConflictError */
async function host(
  rooms: ServerRooms,
  plugin: Plugin,
  { settings, log }: OpenTestServerOptions,
): Promise<HostedPlugin> {
  const { transport, routes } = rooms
  const hosted = await setupPlugin(plugin, {
    transport: transport.for(actorOf(rooms, plugin)),
    hostTransport: transport,
    log,
    settings: settingsOf(plugin, settings),
  })
  await Promise.all([loadActionRules(hosted), routes.pages.read(hosted)])
  routes.add(hosted)
  return hosted
}

/** The HTTP and WebSocket listener. */
interface Front {
  readonly url: string
  close(): Promise<void>
}

async function openFront(rooms: ServerRooms, log: Logger): Promise<Front> {
  const { models, api, hub, routes, queues, storage, follower, authorizer } = rooms
  const health = new Health({ storage, follower, plugins: () => [] })
  health.started()
  const metrics = new Metrics({ models, follower, hub })
  const app = new ApiServer({
    models,
    api,
    routes,
    hub,
    watchConnections: new WatchConnections(),
    origins: new LocalOrigins(),
    access: new LocalAccess(),
    authorizer,
    queues,
    health,
    metrics,
    log,
    isStarting: () => false,
    basePath: '',
  })
  await new Promise<void>((resolve, reject) => {
    app.server.once('error', reject)
    app.server.listen(0, '127.0.0.1', resolve)
  })
  const { port } = app.server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    async close() {
      const ended = new Promise<void>(resolve => app.server.close(() => resolve()))
      hub.close()
      app.server.closeAllConnections()
      app.close()
      await ended
    },
  }
}
