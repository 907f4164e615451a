import { setMaxListeners } from 'node:events'
import type { Registry } from 'prom-client'
import type { Model } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'
import type { Client } from '../client/client.ts'
import { createClient } from '../client/create-client.ts'
import type { Transport } from '../client/transport.ts'
import { type Clock, sleep, systemClock } from '../clock.ts'
import { ControllerBuilder } from '../controller/builder.ts'
import { Controller } from '../controller/controller.ts'
import { EventRecorder } from '../events/event-recorder.ts'
import { deepFreeze } from '../freeze.ts'
import { type Logger, silentLogger } from '../logger.ts'
import { PluginMetricSet } from '../metrics/plugin-metrics.ts'
import type { Plugin, PluginContext } from '../plugin/plugin.ts'
import { RouteBuilder, type RouteGroup, routesOf } from '../plugin/routes.ts'
import { type RandomSource, systemRandom } from '../random.ts'
import type { Runnable } from '../runnable.ts'
import { GuardedTransport } from './guarded-transport.ts'
import type { Manager } from './manager.ts'
import { PluginRunnables } from './plugin-runnables.ts'
import { type RunnableFailure, RunnableFailures } from './runnable-failures.ts'

/** Times of a plugin's setup, in ms. */
export const pluginHostDefaults = Object.freeze({
  /** How long `setup` may take. It only registers things, so a longer one is likely stuck. */
  setupTimeoutMs: 30_000,
})

/** Options of `setupPlugin`. */
export interface PluginHostOptions {
  /** The transport of the plugin's client. */
  readonly transport: Transport
  /** The transport for events and for the records of schedules. Default: `transport`. */
  readonly hostTransport?: Transport
  /** Default: silent. */
  readonly log?: Logger
  /** Runs the plugin's controllers and runnables once `setup` has succeeded. Without it they do not run. */
  readonly manager?: Manager
  /**
   * Provides leadership guard and metrics of controllers and runnables that are added to a manager later. The guard does not
   * apply to routes. Default: `manager`.
   */
  readonly builtFor?: Pick<Manager, 'leadershipGuard' | 'metrics'>
  /** Registry for the metrics that the plugin declares. Default: that of the manager. */
  readonly registry?: Registry
  /** Sent with every request of the plugin's client, besides the plugin header. Lower-case names. */
  readonly reservedHeaders?: Readonly<Record<string, string>>
  /** The plugin's settings, checked and complete. Default: none. */
  readonly settings?: Readonly<Record<string, unknown>>
  readonly clock?: Clock
  /** Default: the system's randomness. */
  readonly randomSource?: RandomSource
  /** Called after a change of `failures`. */
  readonly onFailures?: () => void
  /** Default `pluginHostDefaults.setupTimeoutMs`. */
  readonly setupTimeoutMs?: number
}

/** A plugin whose `setup` has run. */
export interface HostedPlugin {
  readonly plugin: Plugin
  /** Acts as the plugin; passed to its route handlers. */
  readonly client: Client
  readonly log: Logger
  /** Aborted when the plugin stops. */
  readonly signal: AbortSignal
  readonly controllers: readonly Controller[]
  /** The runnables and schedules. */
  readonly runnables: readonly Runnable[]
  /** The runnables and schedules that fail in this process at present. */
  readonly failures: readonly RunnableFailure[]
  readonly routes: readonly RouteGroup[]
  /** Names of classes passed as endpoints that have no `ApiVersion`. */
  readonly unmarkedClasses: readonly string[]
  /** Aborts the plugin's signal, removes its metrics, and drains and removes its controllers and runnables. */
  stop(): Promise<void>
}

/**
 * Runs a plugin's `setup` and collects its registrations, for `--role all` and `--role controllers` alike. If it fails,
 * nothing has been started.
 * @throws the error of `setup`; TypeError for an invalid registration; Error after `setupTimeoutMs`.
 */
export async function setupPlugin(plugin: Plugin, options: PluginHostOptions): Promise<HostedPlugin> {
  const { transport, manager, reservedHeaders: headers, clock, randomSource = systemRandom } = options
  const log = (options.log ?? silentLogger).child({ plugin: plugin.name })
  const { leadershipGuard, metrics } = options.builtFor ?? manager ?? {}
  const identity = { plugin: plugin.name, ...(headers && { headers }) }
  const guarded = (inner: Transport) =>
    leadershipGuard === undefined ? inner : new GuardedTransport(inner, leadershipGuard)
  const client = createClient(transport, identity)
  const controllersClient =
    leadershipGuard === undefined ? client : createClient(guarded(transport), identity)
  const hostTransport = options.hostTransport ?? transport
  const events = new EventRecorder({
    client: createClient(hostTransport, identity),
    reporter: plugin.name,
    log,
    ...(clock && { clock }),
  })
  const stopping = new AbortController()
  // Anything in a plugin may listen to it.
  setMaxListeners(0, stopping.signal)
  const controllers: Controller[] = []
  const routes: RouteGroup[] = []
  const unmarkedClasses: string[] = []
  let open = true
  const checkOpen = (registered: string) => {
    if (!open) throw new TypeError(`plugin ${plugin.name}: ${registered} can only be registered during setup`)
  }
  const pluginMetrics = new PluginMetricSet(plugin.name, options.registry ?? metrics?.registry, () =>
    checkOpen('metrics'),
  )
  const failures = new RunnableFailures(options.onFailures ?? (() => {}))
  const runnables = new PluginRunnables({
    plugin: plugin.name,
    client,
    leaderClient: controllersClient,
    recordClient: createClient(guarded(hostTransport), identity),
    log,
    clock: clock ?? systemClock,
    randomSource,
    metrics: metrics?.runnables,
    failures,
  })

  const addEndpoint = (endpoint: new () => object) => {
    const group = routesOf(endpoint)
    if (group === undefined) {
      unmarkedClasses.push(endpoint.name)
      log.warn({ endpoint: endpoint.name }, 'class without ApiVersion is not exposed')
    } else {
      routes.push(group)
    }
  }

  const context: PluginContext = {
    client,
    settings: deepFreeze(options.settings ?? {}),
    log,
    clock: clock ?? systemClock,
    random: randomSource,
    events,
    signal: stopping.signal,
    controller<T extends ApiObject>(
      model: Model<T>,
      build: (controller: ControllerBuilder<T>) => void,
    ): void {
      checkOpen('controllers')
      if (typeof model?.plural !== 'string')
        throw new TypeError(`plugin ${plugin.name}: controller needs a model made by defineModel`)
      if (typeof build !== 'function') {
        throw new TypeError(
          `plugin ${plugin.name}: controller of ${model.kind} needs a function such as c => c.reconcile(...)`,
        )
      }
      const builder = new ControllerBuilder(model)
      build(builder)
      const definition = builder.build()
      const name = unusedName(`${plugin.name}/${model.plural}.${model.group}`, controllers)
      controllers.push(
        new Controller(definition, {
          client: controllersClient,
          log,
          name,
          randomSource,
          ...(clock && { clock }),
          ...(leadershipGuard && { leadershipGuard }),
          ...(metrics && { metrics }),
        }),
      )
    },
    runnable(name, run, runnableOptions) {
      checkOpen('runnables')
      runnables.add(name, run, runnableOptions)
    },
    schedule(name, expression, run) {
      checkOpen('schedules')
      runnables.schedule(name, expression, run)
    },
    metrics: pluginMetrics,
    routes(groupVersion: string | (new () => object), build?: (routes: RouteBuilder) => void): void {
      checkOpen('routes')
      if (typeof groupVersion === 'function') {
        addEndpoint(groupVersion)
        return
      }
      if (typeof groupVersion !== 'string') {
        throw new TypeError(
          `plugin ${plugin.name}: routes needs a class, not an instance, or <group>/<version> and a function`,
        )
      }
      if (typeof build !== 'function') {
        throw new TypeError(
          `plugin ${plugin.name}: routes of ${groupVersion} need a function such as r => r.get('/path', handler)`,
        )
      }
      const builder = new RouteBuilder()
      build(builder)
      routes.push(builder.build(groupVersion))
    },
  }

  const patience = new AbortController()
  const timeoutMs = options.setupTimeoutMs ?? pluginHostDefaults.setupTimeoutMs
  try {
    await Promise.race([
      plugin.setup?.(context),
      sleep(clock ?? systemClock, timeoutMs, patience.signal).then(() => {
        throw new Error(
          `setup of plugin ${plugin.name} did not finish within ${timeoutMs} ms: it should only register things and return; move other work into reconcilers and handlers`,
        )
      }),
    ])
  } catch (error) {
    stopping.abort(error)
    pluginMetrics.close()
    void events.close()
    throw error
  } finally {
    open = false
    patience.abort()
  }
  for (const added of [...controllers, ...runnables.all]) manager?.add(added)

  let stopped: Promise<void> | undefined
  return {
    plugin,
    client,
    log,
    signal: stopping.signal,
    controllers,
    runnables: runnables.all,
    get failures() {
      return failures.all
    },
    routes,
    unmarkedClasses,
    stop() {
      stopped ??= (async () => {
        stopping.abort(new DOMException(`plugin ${plugin.name} is stopping`, 'AbortError'))
        pluginMetrics.close()
        await Promise.all([...controllers, ...runnables.all].map(each => manager?.remove(each)))
        await events.close()
      })()
      return stopped
    },
  }
}

function unusedName(name: string, controllers: readonly Controller[]): string {
  let candidate = name
  for (let count = 2; controllers.some(controller => controller.name === candidate); count++) {
    candidate = `${name}-${count}`
  }
  return candidate
}
