import type { Logger, Manager, PluginPermission } from '@setpoint/controller-runtime'
import type { Model } from '@setpoint/controller-runtime/api'
import type { Registry as MetricsRegistry } from 'prom-client'
import type { LogFollower } from '../cache/index.ts'
import type { CustomRoutes, FreshKinds } from '../http/index.ts'
import type { ModelRegistry } from '../model/index.ts'
import type { Registry } from '../registry/index.ts'
import type { Storage } from '../storage/index.ts'
import type { WatchHub } from '../watch/index.ts'
import type { ActorWrites } from './actor-writes.ts'
import type { LoopbackTransport } from './loopback-transport.ts'
import type { PluginActor } from './plugin-actor.ts'
import type { PluginSpecs } from './plugin-specs.ts'
import type { PluginStatuses } from './plugin-status.ts'
import type { ServedKinds } from './served-kinds.ts'
import type { PluginSettings } from './set-up.ts'

/** The parts of the server that plugins use. */
export interface PluginEnvironment {
  readonly storage: Storage
  readonly models: ModelRegistry
  /** The kinds that come and go with definitions. */
  readonly definitions: FreshKinds
  /** Yields whenever the served kinds have changed. */
  readonly kinds: Pick<ServedKinds, 'follow'>
  readonly registry: Registry
  readonly writes: ActorWrites
  readonly follower: LogFollower
  readonly hub: WatchHub
  readonly routes: CustomRoutes
  /** Keeps the roles of plugins. */
  readonly roles: {
    keep(plugin: string, models: readonly Model[]): void
    request(user: string, rules: readonly PluginPermission[], isGranted: boolean): void
    lacking(user: string, permissions: readonly PluginPermission[]): readonly PluginPermission[]
  }
  /** True if plugins get the permissions that they ask for. */
  readonly grantsPermissions: boolean
  /** Returns the plugin as the sender of its requests. */
  readonly actorOf: (plugin: string) => PluginActor
  /** The transport of the server itself. */
  readonly transport: LoopbackTransport
  /** For the metrics of plugins. */
  readonly metricsRegistry: MetricsRegistry
  /** Runs the controllers and runnables; absent if they run in another process. */
  readonly manager: Manager | undefined
  readonly statuses: PluginStatuses
  readonly specs: Pick<PluginSpecs, 'get' | 'current' | 'routesOf'>
  readonly settings: PluginSettings
  readonly reservedDomain: string
  /** Milliseconds that the requests of replaced code have to finish. */
  readonly drainMs: number
  readonly log: Logger
}
