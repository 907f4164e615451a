import { setMaxListeners } from 'node:events'
import type { Registry } from 'prom-client'
import type { Client } from '../client/client.ts'
import { createClient } from '../client/create-client.ts'
import { logWarnings } from '../client/log-warnings.ts'
import type { Transport } from '../client/transport.ts'
import { type Clock, sleep, systemClock } from '../clock.ts'
import type { Controller } from '../controller/controller.ts'
import { EventRecorder } from '../events/event-recorder.ts'
import { deepFreeze } from '../freeze.ts'
import { type Logger, silentLogger } from '../logger.ts'
import type { PluginAction } from '../plugin/actions.ts'
import type { ConsoleModule, PluginPages } from '../plugin/pages.ts'
import type { Plugin, PluginContext } from '../plugin/plugin.ts'
import type { RouteGroup } from '../plugin/routes.ts'
import { type RandomSource, systemRandom } from '../random.ts'
import type { Runnable } from '../runnable.ts'
import { GuardedTransport } from './guarded-transport.ts'
import type { Manager } from './manager.ts'
import { PluginRegistrations } from './plugin-registrations.ts'
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
   * Provides leadership guard and metrics of controllers and runnables that are added to a manager later. The guard
   * does not apply to routes. Default: `manager`.
   */
  readonly builtFor?: Pick<Manager, 'leadershipGuard' | 'metrics'>
  /** Registry for the metrics that the plugin declares. Default: that of the manager. */
  readonly registry?: Registry
  /** The plugin's settings, checked and complete. Default: none. */
  readonly settings?: Readonly<Record<string, unknown>>
  readonly clock?: Clock
  /** Default: the system's randomness. */
  readonly randomSource?: RandomSource
  /** Called after a change of `failures`. */
  readonly onFailures?: () => void
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
  readonly actions: readonly PluginAction[]
  readonly routes: readonly RouteGroup[]
  readonly pages: readonly PluginPages[]
  readonly consoleModules: readonly ConsoleModule[]
  /** Names of classes passed as endpoints that have no `ApiVersion`. */
  readonly unmarkedClasses: readonly string[]
  /** Aborts the plugin's signal, removes its metrics, and drains and removes its controllers and runnables. */
  stop(): Promise<void>
}

/**
 * Runs a plugin's `setup` and collects its registrations, for `--role all` and `--role controllers` alike. If it fails,
 * nothing has been started.
 * @throws the error of `setup`; TypeError for an invalid registration; Error after `pluginHostDefaults.setupTimeoutMs`.
 */
export async function setupPlugin(plugin: Plugin, options: PluginHostOptions): Promise<HostedPlugin> {
  const { transport, hostTransport = transport, manager } = options
  const { clock = systemClock, randomSource = systemRandom } = options
  const log = (options.log ?? silentLogger).child({ plugin: plugin.name })
  const { leadershipGuard, metrics } = options.builtFor ?? manager ?? {}
  const onWarning = logWarnings(log)
  const clientOver = (inner: Transport) => createClient(inner, { plugin: plugin.name, onWarning })
  const guarded = (inner: Transport) =>
    leadershipGuard === undefined ? inner : new GuardedTransport(inner, leadershipGuard)
  const client = clientOver(transport)
  const leaderClient = clientOver(guarded(transport))
  const events = new EventRecorder({ client: clientOver(hostTransport), reporter: plugin.name, log, clock })
  const stopping = new AbortController()
  // Anything in a plugin may listen to it.
  setMaxListeners(0, stopping.signal)
  const failures = new RunnableFailures(options.onFailures ?? (() => {}))
  const runnables = new PluginRunnables({
    plugin: plugin.name,
    client,
    leaderClient,
    recordClient: clientOver(guarded(hostTransport)),
    log,
    clock,
    randomSource,
    metrics: metrics?.runnables,
    failures,
  })
  const registrations = new PluginRegistrations({
    plugin: plugin.name,
    models: plugin.models,
    controllerOptions: { client: leaderClient, log, clock, randomSource, leadershipGuard, metrics },
    runnables,
    registry: options.registry ?? metrics?.registry,
  })
  const { controllers, controller, runnable, schedule, action, routes, pages } = registrations
  const context: PluginContext = {
    client,
    settings: deepFreeze(options.settings ?? {}),
    log,
    clock,
    random: randomSource,
    events,
    signal: stopping.signal,
    controller,
    runnable,
    schedule,
    metrics: registrations.metrics,
    action,
    routes,
    pages,
    console: registrations.console,
  }
  try {
    await runSetup(plugin, context)
  } catch (error) {
    stopping.abort(error)
    registrations.metrics.close()
    void events.close()
    throw error
  } finally {
    registrations.close()
  }
  const managed = [...controllers, ...runnables.all]
  for (const added of managed) manager?.add(added)

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
    actions: registrations.actions,
    routes: registrations.routeGroups,
    pages: registrations.pagesOfPlugin,
    consoleModules: registrations.consoleModules,
    unmarkedClasses: registrations.unmarkedClasses,
    stop() {
      stopped ??= (async () => {
        stopping.abort(new DOMException(`plugin ${plugin.name} is stopping`, 'AbortError'))
        registrations.metrics.close()
        await Promise.all(managed.map(each => manager?.remove(each)))
        await events.close()
      })()
      return stopped
    },
  }
}

/** Runs `setup`. @throws its error; Error after the timeout */
async function runSetup(plugin: Plugin, context: PluginContext): Promise<void> {
  const { setupTimeoutMs: timeoutMs } = pluginHostDefaults
  const patience = new AbortController()
  try {
    await Promise.race([
      plugin.setup?.(context),
      sleep(context.clock, timeoutMs, patience.signal).then(() => {
        throw new Error(
          `setup of plugin ${plugin.name} did not finish within ${timeoutMs} ms: it should only register things and return; move other work into reconcilers and handlers`,
        )
      }),
    ])
  } finally {
    patience.abort()
  }
}
