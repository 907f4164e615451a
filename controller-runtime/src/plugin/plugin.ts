import type { Model } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'
import type { Client } from '../client/client.ts'
import type { ControllerBuilder } from '../controller/builder.ts'
import type { EventRecorder } from '../events/event-recorder.ts'
import type { Logger } from '../logger.ts'
import type { RouteBuilder } from './routes.ts'

/** What a plugin's author writes. */
export interface PluginDeclaration {
  /** Unique among the plugins of a server; the name of the plugin's `Plugin` object. */
  readonly name: string
  readonly models?: readonly Model[]
  /**
   * Called once, where controllers run and where routes are served, before the plugin starts: it registers
   * controllers and routes and returns. What it does beyond that belongs into reconcilers and handlers.
   */
  setup?(plugin: PluginContext): void | Promise<void>
}

/** A plugin, as `definePlugin` makes it and its module exports it by default. */
export interface Plugin extends PluginDeclaration {
  readonly models: readonly Model[]
}

/** What `setup` gets. */
export interface PluginContext {
  /** Acts as the plugin. */
  readonly client: Client
  readonly log: Logger
  /** Tells people what happens to objects, in the plugin's name. */
  readonly events: Pick<EventRecorder, 'record'>
  /** Aborted when the plugin stops. */
  readonly signal: AbortSignal
  /** Registers a controller for the objects of a model; `build` says what it does. */
  controller<T extends ApiObject>(model: Model<T>, build: (controller: ControllerBuilder<T>) => void): void
  /** Serves routes under `/apis/<group>/<version>`. `groupVersion` is `<group>/<version>`. */
  routes(groupVersion: string, build: (routes: RouteBuilder) => void): void
  /** Serves the methods of a class marked with `ApiVersion`. A class without the mark is not exposed; the log says so. */
  routes(endpoint: new () => object): void
}

const marker = Symbol.for('setpoint.dev/plugin')

/**
 * Makes a plugin. Its module exports the result by default.
 * @throws TypeError when the declaration has no usable name or its models were not made by `defineModel`.
 */
export function definePlugin(declaration: PluginDeclaration): Plugin {
  const { name, models = [], setup } = declaration
  if (typeof name !== 'string' || !/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(name)) {
    throw new TypeError(
      `plugin name ${JSON.stringify(name)} must be at most 63 lowercase letters, digits and '-', starting and ending with a letter or digit`,
    )
  }
  for (const model of models) {
    if (typeof model?.apiVersion !== 'string')
      throw new TypeError(`plugin ${name}: models must be made by defineModel`)
  }
  if (setup !== undefined && typeof setup !== 'function')
    throw new TypeError(`plugin ${name}: setup must be a function`)
  const plugin: Plugin = { name, models: Object.freeze([...models]), ...(setup && { setup }) }
  Object.defineProperty(plugin, marker, { value: true })
  return Object.freeze(plugin)
}

/** Whether `definePlugin` made this, in whichever copy of the SDK. */
export function isPlugin(value: unknown): value is Plugin {
  return typeof value === 'object' && value !== null && marker in value
}
