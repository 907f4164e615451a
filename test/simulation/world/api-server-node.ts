import { setMaxListeners } from 'node:events'
import {
  Collector,
  createManager,
  type Logger,
  type Manager,
  type Transport,
} from '@setpoint/controller-runtime'
import { EventKeeper } from '@setpoint/controller-runtime/internal'
import { ConsistencyCheck } from '../../../apiserver/src/cache/index.ts'
import { assemblePlugins, startOwnKinds } from '../../../apiserver/src/cli/server-plugins.ts'
import { ApiServer, Health } from '../../../apiserver/src/http/index.ts'
import { Metrics } from '../../../apiserver/src/metrics/index.ts'
import { type PluginSource, type Plugins, ServedKinds } from '../../../apiserver/src/plugins/index.ts'
import { assembleRooms, type ServerRooms } from '../../../apiserver/src/rooms.ts'
import { type Access, NamedOrigins } from '../../../apiserver/src/security/index.ts'
import {
  compactRegularly,
  FormatChecked,
  Fullness,
  SpaceWatch,
  type Storage,
} from '../../../apiserver/src/storage/index.ts'
import { WatchConnections } from '../../../apiserver/src/watch/index.ts'
import { recordWrites } from './leader-writes.ts'
import type { WorldSocket } from './socket.ts'
import type { Held } from './world.ts'
import type { WorldPlugin } from './world-plugin.ts'

export const nodeDefaults = Object.freeze({
  reservedDomain: 'setpoint.dev',
  version: '0.0.0-simulation',
  /** Fewer renewals than by default, which would be most of the work of a quiet world. */
  election: { lease: 'controllers', retryPeriodMs: 4_000 },
})

/** What a server of the world serves and runs. */
export interface ServedContent {
  readonly plugins: readonly WorldPlugin[]
  /** Whether the server with the lease also runs the collector. */
  readonly runsControllers: boolean
}

/** A server of the program's role `all` or `api`, over a given store and without a port. */
export class ApiServerNode {
  readonly rooms: ServerRooms
  readonly #front: ApiServer
  readonly #manager: Manager | undefined
  readonly #health: Health
  readonly #stopping = new AbortController()
  readonly #plugins: Plugins
  readonly #metrics: Metrics
  readonly #watchConnections = new WatchConnections()
  /** Of the controllers that run in the server. */
  #ownWatches = 0
  #hasStarted = false

  constructor(parts: {
    storage: Storage
    content: ServedContent
    identity: string
    access: Access
    log: Logger
    /** Told of the writes of the controllers that run here. */
    wrote: (path: string) => void
  }) {
    const { content, identity, access, log } = parts
    const storage = new FormatChecked(parts.storage, nodeDefaults.version)
    const { reservedDomain } = nodeDefaults
    const isStarting = () => this.#plugins.isStarting
    const rooms = assembleRooms({ storage, reservedDomain, basePath: '', log, isStarting })
    this.rooms = rooms
    setMaxListeners(0, this.#stopping.signal)
    if (content.runsControllers) {
      const transport = recordWrites(this.#counting(rooms.transport), parts.wrote)
      this.#manager = this.#controllers({ transport, identity, isStarting, log })
    }
    this.#health = new Health({
      storage,
      follower: rooms.follower,
      plugins: () => this.#plugins.progress,
      manager: this.#manager,
    })
    const { models, follower, hub } = rooms
    this.#metrics = new Metrics({ models, follower, hub })
    this.#front = frontOf(rooms, {
      ...{ access, health: this.#health, metrics: this.#metrics, log, isStarting },
      watchConnections: this.#watchConnections,
    })
    // Node takes it from the real clock.
    this.#front.server.prependListener('request', (_, response) => {
      response.sendDate = false
    })
    follower.start()
    const { signal } = this.#stopping
    const space = new SpaceWatch({ storage, fullness: new Fullness(log), log })
    void compactRegularly({ storage, space, log, signal })
    void space.run(signal)
    void new ConsistencyCheck({ storage, follower, log }).run(signal)
    const own = startOwnKinds(rooms, reservedDomain, { log, signal })
    this.#plugins = assemblePlugins({
      options: {
        reservedDomain,
        pluginSettings: { env: {}, config: {} },
        grantPlugins: true,
        authentication: undefined,
      },
      ...{ rooms, own, metrics: this.#metrics, manager: this.#manager, log, signal },
      loaderOf: source => loaderOf(content.plugins, source),
    }).plugins
    void this.#start(content, own.ready)
  }

  get hasStarted(): boolean {
    return this.#hasStarted
  }

  get held(): Omit<Held, 'server' | 'sockets' | 'events'> {
    const { hub, queues } = this.rooms
    const { mutating, readOnly } = this.#metrics.requests.inFlight
    return {
      watches: hub.size - this.#ownWatches,
      watchConnections: this.#watchConnections.open,
      requests: mutating + readOnly,
      waiting: queues.waiting,
      bodyBytes: queues.bodies.bytes + queues.routeBodies.bytes,
    }
  }

  accept(socket: WorldSocket): void {
    this.#front.server.emit('connection', socket)
  }

  /** As the program's role `all` has them. */
  #controllers(given: {
    transport: Transport
    identity: string
    isStarting: () => boolean
    log: Logger
  }): Manager {
    const { transport, identity, isStarting, log } = given
    const { models } = this.rooms
    const manager = createManager({ transport, log, leaderElection: { ...nodeDefaults.election, identity } })
    const { reservedDomain } = nodeDefaults
    manager.add(new Collector({ kinds: new ServedKinds(models, isStarting), reservedDomain }))
    manager.add(new EventKeeper())
    return manager
  }

  #counting(inner: Transport): Transport {
    return {
      request: request => inner.request(request),
      watch: async (path, options) => {
        const connection = await inner.watch(path, options)
        this.#ownWatches++
        void connection.end.then(() => this.#ownWatches--)
        return connection
      },
    }
  }

  /** As the program does. */
  async #start({ plugins }: ServedContent, ownKinds: Promise<void>): Promise<void> {
    const loading = this.#plugins.start(plugins.map(({ source }) => source))
    await Promise.all([
      Promise.all([ownKinds, loading]).then(() => this.#health.started()),
      ownKinds.then(() => this.#manager?.start()),
      loading.then(({ starting }) => starting),
    ])
    this.#hasStarted = true
  }

  /** Loads the present release of a plugin. Resolves when it serves, or the release before goes on. */
  async reload(plugin: WorldPlugin): Promise<void> {
    plugin.settle(await this.#plugins.reload(plugin.source.label))
  }

  /** Frees what would outlive the process: Node's checks of its HTTP server. To be called once the node is dead. */
  release(): void {
    this.#front.server.close()
  }
}

function loaderOf(plugins: readonly WorldPlugin[], { label }: PluginSource): WorldPlugin {
  const found = plugins.find(({ source }) => source.label === label)
  if (found === undefined) throw new Error(`there is no plugin at ${label}`)
  return found
}

function frontOf(
  rooms: ServerRooms,
  given: {
    access: Access
    health: Health
    metrics: Metrics
    watchConnections: WatchConnections
    log: Logger
    isStarting: () => boolean
  },
): ApiServer {
  const { models, api, hub, routes, queues, authorizer } = rooms
  return new ApiServer({
    ...{ models, api, routes, hub, authorizer, queues },
    ...given,
    origins: new NamedOrigins([], { isSecure: false }),
    basePath: '',
  })
}
