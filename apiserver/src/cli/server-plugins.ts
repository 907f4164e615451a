import type { Logger, Manager } from '@setpoint/controller-runtime'
import { orphanRecordModel } from '@setpoint/controller-runtime/internal'
import type { Metrics } from '../metrics/index.ts'
import { ServedModel } from '../model/index.ts'
import {
  type CodeLoader,
  PluginActor,
  type PluginEnvironment,
  PluginRunner,
  type PluginSource,
  PluginSpecs,
  PluginStatuses,
  Plugins,
  pluginModel,
  ServedKinds,
} from '../plugins/index.ts'
import { keepRoles, type ServerRooms, startBuiltInKinds, startKind } from '../rooms.ts'
import type { ServerOptions } from './options.ts'
import { stopDefaults } from './stop-server.ts'

/** The server's own kinds, which are registered and being started. */
interface OwnKinds {
  /** The kind `Plugin`. */
  readonly plugin: ServedModel
  readonly roles: ReturnType<typeof keepRoles>
  /** Resolves when all are served. Rejects only when the server stops. */
  readonly ready: Promise<void>
}

/** Registers and starts the server's own kinds and the default roles. Waits for the store in the background. */
export function startOwnKinds(
  rooms: ServerRooms,
  reservedDomain: string,
  starting: { readonly log: Logger; readonly signal: AbortSignal },
): OwnKinds {
  const plugin = ServedModel.builtIn(pluginModel(reservedDomain))
  const others = [plugin, ServedModel.builtIn(orphanRecordModel(reservedDomain))]
  for (const served of [...rooms.builtIn.all, ...others]) rooms.models.add(served)
  const roles = keepRoles(rooms, starting)
  const started = Promise.all([
    startBuiltInKinds(rooms, starting).then(() => roles.start()),
    ...others.map(served => startKind(rooms, served, starting)),
  ])
  return { plugin, roles, ready: started.then(() => {}) }
}

interface ServerPluginsParts {
  readonly options: Pick<
    ServerOptions,
    'reservedDomain' | 'pluginSettings' | 'grantPlugins' | 'authentication'
  >
  readonly rooms: ServerRooms
  readonly own: OwnKinds
  readonly metrics: Metrics
  readonly manager: Manager | undefined
  /** Default: a loader of the source's files. */
  readonly loaderOf?: (source: PluginSource) => CodeLoader
  readonly log: Logger
  /** Aborted when the server stops. */
  readonly signal: AbortSignal
}

/** Assembles the plugins of a server, not started yet, and follows their specs once the kind `Plugin` is served. */
export function assemblePlugins(parts: ServerPluginsParts): {
  readonly plugins: Plugins
  readonly specs: PluginSpecs
} {
  const { options, rooms, own, metrics, manager, loaderOf, log, signal } = parts
  const { reservedDomain, pluginSettings } = options
  const {
    storage,
    models,
    definitions,
    registry,
    writes,
    follower,
    hub,
    callers,
    routes,
    transport,
    authorizer,
  } = rooms
  const statuses = new PluginStatuses({ served: own.plugin, writes, metrics, log, signal, ready: own.ready })
  const specs = new PluginSpecs({ transport, reservedDomain, log })
  // Rejects only when the server stops.
  own.ready.then(() => specs.start()).catch(() => {})
  const environment: PluginEnvironment = {
    storage,
    models,
    definitions,
    kinds: new ServedKinds(models, () => plugins.isStarting),
    registry,
    writes,
    follower,
    hub,
    routes,
    roles: own.roles,
    grantsPermissions: options.grantPlugins,
    transport,
    actorOf: plugin =>
      new PluginActor(plugin, { authorizer, callers, isOpen: options.authentication === undefined }),
    metricsRegistry: metrics.registry,
    manager,
    statuses,
    specs,
    settings: { ...pluginSettings, names: (): string[] => plugins.names },
    reservedDomain,
    drainMs: stopDefaults.reconcilesMs,
    log,
  }
  const plugins: Plugins = new Plugins({
    create: (loader, loaded) => new PluginRunner(loader, loaded, environment),
    loaderOf,
    specs,
    statuses,
    settings: pluginSettings,
    log,
  })
  return { plugins, specs }
}
