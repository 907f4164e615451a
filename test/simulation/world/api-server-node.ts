import { setMaxListeners } from 'node:events'
import {
  Collector,
  createManager,
  type Logger,
  type Manager,
  type Model,
  type Plugin,
} from '@setpoint/controller-runtime'
import { EventKeeper, orphanRecordModel, setupPlugin } from '@setpoint/controller-runtime/internal'
import { ConsistencyCheck } from '../../../apiserver/src/cache/index.ts'
import { ApiServer, Health } from '../../../apiserver/src/http/index.ts'
import { Metrics } from '../../../apiserver/src/metrics/index.ts'
import { ServedModel } from '../../../apiserver/src/model/index.ts'
import { AdmitReads, PluginActor, ServedKinds, serverActor } from '../../../apiserver/src/plugins/index.ts'
import {
  assembleRooms,
  keepRoles,
  type ServerRooms,
  startBuiltInKinds,
  startKind,
} from '../../../apiserver/src/rooms.ts'
import { type Access, NamedOrigins } from '../../../apiserver/src/security/index.ts'
import {
  compactRegularly,
  FormatChecked,
  Fullness,
  SpaceWatch,
  type Storage,
} from '../../../apiserver/src/storage/index.ts'
import { WatchConnections } from '../../../apiserver/src/watch/index.ts'
import type { WorldSocket } from './socket.ts'

export const nodeDefaults = Object.freeze({
  reservedDomain: 'setpoint.dev',
  version: '0.0.0-simulation',
  /** Milliseconds that loading the modules of plugins takes, while the server responds. */
  loadMs: 20,
  /** Fewer renewals than by default, which would be most of the work of a quiet world. */
  election: { lease: 'controllers', retryPeriodMs: 4_000 },
})

/** What a server of the world serves and runs. */
export interface ServedContent {
  readonly models: readonly Model[]
  readonly plugins: readonly Plugin[]
  /** Whether the server with the lease also runs the collector and the controllers of plugins. */
  readonly runsControllers: boolean
}

/** A server of the program's role `all` or `api`, over a given store and without a port. */
export class ApiServerNode {
  readonly rooms: ServerRooms
  readonly #front: ApiServer
  readonly #manager: Manager | undefined
  readonly #health: Health
  readonly #stopping = new AbortController()
  #hasStarted = false

  constructor(parts: {
    storage: Storage
    content: ServedContent
    identity: string
    access: Access
    log: Logger
  }) {
    const { content, identity, access, log } = parts
    const storage = new FormatChecked(parts.storage, nodeDefaults.version)
    const { reservedDomain } = nodeDefaults
    const rooms = assembleRooms({
      storage,
      reservedDomain,
      basePath: '',
      log,
      isStarting: () => !this.#hasStarted,
    })
    this.rooms = rooms
    setMaxListeners(0, this.#stopping.signal)
    if (content.runsControllers) this.#manager = this.#controllers(identity, log)
    this.#health = new Health({
      storage,
      follower: rooms.follower,
      plugins: () => [],
      manager: this.#manager,
    })
    this.#front = frontOf(rooms, { access, health: this.#health, log, isStarting: () => !this.#hasStarted })
    // Node takes it from the real clock.
    this.#front.server.prependListener('request', (_, response) => {
      response.sendDate = false
    })
    rooms.follower.start()
    const { signal } = this.#stopping
    const space = new SpaceWatch({ storage, fullness: new Fullness(log), log })
    void compactRegularly({ storage, space, log, signal })
    void space.run(signal)
    void new ConsistencyCheck({ storage, follower: rooms.follower, log }).run(signal)
    void this.#start(content, log)
  }

  get hasStarted(): boolean {
    return this.#hasStarted
  }

  accept(socket: WorldSocket): void {
    this.#front.server.emit('connection', socket)
  }

  /** As the program's role `all` has them. */
  #controllers(identity: string, log: Logger): Manager {
    const { models, transport } = this.rooms
    const manager = createManager({ transport, log, leaderElection: { ...nodeDefaults.election, identity } })
    const { reservedDomain } = nodeDefaults
    manager.add(new Collector({ kinds: new ServedKinds(models, () => !this.#hasStarted), reservedDomain }))
    manager.add(new EventKeeper())
    return manager
  }

  async #start({ models, plugins }: Pick<ServedContent, 'models' | 'plugins'>, log: Logger): Promise<void> {
    const { rooms } = this
    const starting = { log, signal: this.#stopping.signal }
    const roles = keepRoles(rooms, starting)
    const served = servedModels(rooms, { models, plugins })
    for (const each of rooms.builtIn.all) rooms.models.add(each)
    const startPlugins = async () => {
      await new Promise(resolve => setTimeout(resolve, nodeDefaults.loadMs))
      for (const each of served) rooms.models.add(each)
      for (const plugin of plugins)
        await setupPlugin(plugin, {
          transport: rooms.transport.for(actorOf(rooms, plugin)),
          hostTransport: rooms.transport,
          log,
          manager: this.#manager,
        })
      await Promise.all(served.map(each => startKind(rooms, each, starting)))
    }
    await Promise.all([startBuiltInKinds(rooms, starting).then(() => roles.start()), startPlugins()])
    this.#hasStarted = true
    this.#health.started()
    this.#manager?.start()
  }

  /** Frees what would outlive the process: Node's checks of its HTTP server. To be called once the node is dead. */
  release(): void {
    this.#front.server.close()
  }
}

function servedModels(
  rooms: ServerRooms,
  { models, plugins }: Pick<ServedContent, 'models' | 'plugins'>,
): ServedModel[] {
  const { follower } = rooms
  const readsOf = (actor: PluginActor | typeof serverActor) => ({
    listerOf: () => new AdmitReads({ models: rooms.models, follower, actor }),
  })
  return [
    ...models.map(model => new ServedModel(model, undefined, readsOf(serverActor))),
    ...plugins.flatMap(plugin =>
      plugin.models.map(model => new ServedModel(model, plugin.name, readsOf(actorOf(rooms, plugin)))),
    ),
    ServedModel.builtIn(orphanRecordModel(nodeDefaults.reservedDomain)),
  ]
}

function actorOf({ authorizer, callers }: ServerRooms, { name }: Plugin): PluginActor {
  return new PluginActor(name, { authorizer, callers, isOpen: true })
}

function frontOf(
  rooms: ServerRooms,
  given: { access: Access; health: Health; log: Logger; isStarting: () => boolean },
): ApiServer {
  const { models, api, hub, routes, queues, follower, authorizer } = rooms
  return new ApiServer({
    ...{ models, api, routes, hub, authorizer, queues },
    ...given,
    watchConnections: new WatchConnections(),
    origins: new NamedOrigins([], { isSecure: false }),
    metrics: new Metrics({ models, follower, hub }),
    basePath: '',
  })
}
