import type { Action, NoInput } from '../api/action.ts'
import { isRecord } from '../api/is-record.ts'
import { type KeysOf, unknownKeys } from '../api/known-keys.ts'
import type { Model } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'
import type { Schema } from '../api/schema.ts'
import type { Client } from '../client/client.ts'
import type { Clock } from '../clock.ts'
import type { ControllerBuilder } from '../controller/builder.ts'
import type { EventRecorder } from '../events/event-recorder.ts'
import { refuseBuiltInKinds } from '../kinds/served-by-every-server.ts'
import type { Logger } from '../logger.ts'
import type { PluginMetrics } from '../metrics/plugin-metrics.ts'
import type { RandomSource } from '../random.ts'
import type { ActionRun, ServedAction } from './actions.ts'
import type { PagesOptions } from './pages.ts'
import { checkPermissions, type PluginPermission } from './permissions.ts'
import type { RouteBuilder } from './routes.ts'
import type { PluginRun, PluginRunnableOptions } from './runnables.ts'
import { checkSettingsSchema, type SettingsOf, type SettingsSchema } from './settings.ts'

/** The declaration of a plugin. */
export interface PluginDeclaration<S extends SettingsSchema = SettingsSchema> {
  /** Unique on a server; also the name of the plugin's `Plugin` object. */
  readonly name: string
  readonly models?: readonly Model[]
  /** What operators set: from the configuration file, the environment or files. Checked before the plugin starts. */
  readonly settings?: S
  /** What the plugin needs besides its own kinds. It has no effect until the operator grants it. */
  readonly permissions?: readonly PluginPermission[]
  /**
   * Whether a server waits for the plugin before it is ready. `awaited`, the default: until the plugin has started or
   * failed. `deferred`: it does not wait, and the plugin's kinds respond with 503 until the plugin has started.
   */
  readonly readiness?: 'awaited' | 'deferred'
  /**
   * Called once before the plugin starts, where controllers run and where routes are served. It registers controllers,
   * routes, runnables and metrics and returns; all other work belongs in what it registers.
   */
  setup?(plugin: PluginContext<SettingsOf<S>>): void | Promise<void>
}

const pluginKeys: KeysOf<PluginDeclaration> = {
  name: true,
  models: true,
  settings: true,
  permissions: true,
  readiness: true,
  setup: true,
}

/** A plugin made by `definePlugin`, the default export of its module. */
export interface Plugin extends PluginDeclaration {
  readonly models: readonly Model[]
}

/** Passed to `setup`. */
export interface PluginContext<Settings = Readonly<Record<string, unknown>>> {
  /** Acts as the plugin. */
  readonly client: Client
  /** The plugin's settings with their defaults, frozen. */
  readonly settings: Settings
  readonly log: Logger
  /** The system's clock in production, a fake one in tests. */
  readonly clock: Clock
  /** Cryptographically secure in production, seeded by name in the conformance suite. */
  readonly random: RandomSource
  /** Records events about objects, with the plugin as reporter. */
  readonly events: Pick<EventRecorder, 'record'>
  /** Aborted when the plugin stops. */
  readonly signal: AbortSignal
  /** Registers a controller for a model; `build` configures it. */
  controller<T extends ApiObject>(model: Model<T>, build: (controller: ControllerBuilder<T>) => void): void
  /**
   * Runs a function besides the controllers, from their start to their stop. It runs until its signal is aborted or its
   * work is done; if it throws, it is restarted with back-off. Names are unique among runnables and schedules.
   */
  runnable(name: string, run: PluginRun, options?: PluginRunnableOptions): void
  /**
   * Runs a function on the leader, at every multiple of an interval (`30s`, `5m`, `2h`) or at the times of a cron
   * expression of five fields, in UTC. Runs never overlap; missed ones are made up for by one run.
   */
  schedule(name: string, expression: string, run: PluginRun): void
  /** Metrics of the plugin, in `/metrics` of this process until the plugin stops. */
  readonly metrics: PluginMetrics
  /**
   * Serves an action of one of the plugin's kinds, `POST <object>/<name>`. Callers need the permission `create` for
   * `<plural>/<name>`.
   */
  action<T extends ApiObject, I extends Schema, O extends Schema | undefined>(
    action: Action<T, I, O>,
    run: ActionRun<T, I, O>,
  ): void
  action<
    T extends ApiObject,
    const I extends Schema = NoInput,
    const O extends Schema | undefined = undefined,
  >(model: Model<T>, name: string, action: ServedAction<T, I, O>): void
  /** Serves routes under `/apis/<group>/<version>`. `groupVersion` is `<group>/<version>`. */
  routes(groupVersion: string, build: (routes: RouteBuilder) => void): void
  /**
   * Serves the methods of a class decorated with `ApiVersion`. Without the decorator the class is ignored with a
   * warning.
   */
  routes(endpoint: new () => object): void
  /**
   * Serves the files of a folder below a path of the server, such as `/reports`, to everyone, also without credentials.
   * What a page shows comes from the API, with the rights of the person in front of it.
   */
  pages(path: string, options: PagesOptions): void
  /**
   * Adds tabs and cells to the console for one of the plugin's kinds.
   * @param module path of a JavaScript module among the plugin's pages, such as `/reports/console.js`
   */
  console(model: Model, module: string): void
}

const marker = Symbol.for('setpoint.dev/plugin')

/**
 * Defines a plugin, to be exported by default.
 * @throws TypeError for an unknown key, an invalid name, settings or readiness, or a model that was not made by
 * `defineModel`
 *   or is a kind that every server has, such as `Secret`.
 */
export function definePlugin<const S extends SettingsSchema>(declaration: PluginDeclaration<S>): Plugin {
  if (!isRecord(declaration)) throw new TypeError('definePlugin must be given an object')
  const { name, models = [], settings, permissions, readiness, setup } = declaration
  if (typeof name !== 'string' || !/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(name)) {
    throw new TypeError(
      `plugin name ${JSON.stringify(name)} must be at most 63 lowercase letters, digits and '-', starting and ending with a letter or digit`,
    )
  }
  const problems = unknownKeys(declaration, pluginKeys, 'definePlugin')
  if (problems.length > 0) throw new TypeError(`plugin ${name}: ${problems.join('; ')}`)
  if (!Array.isArray(models)) throw new TypeError(`plugin ${name}: models must be an array`)
  for (const model of models) {
    if (typeof model?.apiVersion !== 'string')
      throw new TypeError(`plugin ${name}: models must be made by defineModel`)
  }
  refuseBuiltInKinds(models, `plugin ${name}`)
  if (readiness !== undefined && readiness !== 'awaited' && readiness !== 'deferred')
    throw new TypeError(
      `plugin ${name}: readiness must be "awaited" or "deferred", is ${JSON.stringify(readiness)}`,
    )
  if (setup !== undefined && typeof setup !== 'function')
    throw new TypeError(`plugin ${name}: setup must be a function`)
  if (settings !== undefined) checkSettingsSchema(name, settings)
  if (permissions !== undefined) checkPermissions(name, permissions)
  const plugin: Plugin = {
    name,
    models: Object.freeze([...models]),
    permissions: permissions && Object.freeze([...permissions]),
    settings,
    readiness,
    setup,
  }
  Object.defineProperty(plugin, marker, { value: true })
  return Object.freeze(plugin)
}

/** Returns true if the value was made by `definePlugin`, in any copy of the SDK. */
export function isPlugin(value: unknown): value is Plugin {
  return typeof value === 'object' && value !== null && marker in value
}
