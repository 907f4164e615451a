import type { Registry } from 'prom-client'
import { type Action, defineAction } from '../api/action.ts'
import { errorMessage } from '../api/error-message.ts'
import { groupResource } from '../api/group-resource.ts'
import type { Model } from '../api/model.ts'
import { ControllerBuilder } from '../controller/builder.ts'
import { Controller, type ControllerOptions } from '../controller/controller.ts'
import { PluginMetricSet } from '../metrics/plugin-metrics.ts'
import type { PluginAction } from '../plugin/actions.ts'
import { type ConsoleModule, type PluginPages, readPages } from '../plugin/pages.ts'
import type { PluginContext } from '../plugin/plugin.ts'
import { RouteBuilder, type RouteGroup, routesOf } from '../plugin/routes.ts'
import type { PluginRunnables } from './plugin-runnables.ts'

interface PluginRegistrationsOptions {
  readonly plugin: string
  /** The plugin's own. */
  readonly models: readonly Model[]
  /** Of every controller. */
  readonly controllerOptions: Omit<ControllerOptions, 'name'>
  readonly runnables: PluginRunnables
  /** Default: one of its own. */
  readonly registry: Registry | undefined
}

type Registering = Pick<
  PluginContext,
  'controller' | 'runnable' | 'schedule' | 'metrics' | 'action' | 'routes' | 'pages' | 'console'
>

/**
 * Collects what a plugin registers during its `setup`. Its functions do not use `this`, so that `setup` can destructure
 * them.
 */
export class PluginRegistrations implements Registering {
  readonly controllers: Controller[] = []
  readonly actions: PluginAction[] = []
  readonly routeGroups: RouteGroup[] = []
  readonly pagesOfPlugin: PluginPages[] = []
  readonly consoleModules: ConsoleModule[] = []
  /** Names of classes passed as endpoints that have no `ApiVersion`. */
  readonly unmarkedClasses: string[] = []
  readonly metrics: PluginMetricSet
  readonly #options: PluginRegistrationsOptions
  #isOpen = true

  constructor(options: PluginRegistrationsOptions) {
    this.#options = options
    this.metrics = new PluginMetricSet(options.plugin, options.registry, () => this.#checkOpen('metrics'))
  }

  /** Further registrations throw a TypeError. */
  close(): void {
    this.#isOpen = false
  }

  readonly controller: Registering['controller'] = (model, build) => {
    this.#checkOpen('controllers')
    if (typeof model?.plural !== 'string') throw this.#invalid('controller needs a model made by defineModel')
    if (typeof build !== 'function')
      throw this.#invalid(`controller of ${model.kind} needs a function such as c => c.reconcile(...)`)
    const builder = new ControllerBuilder(model)
    this.#checkSynchronous(`controllers of ${model.kind}`, build(builder))
    const definition = builder.build()
    const { plugin, controllerOptions } = this.#options
    const name = unusedName(`${plugin}/${groupResource(model)}`, this.controllers)
    this.controllers.push(new Controller(definition, { ...controllerOptions, name }))
  }

  readonly runnable: Registering['runnable'] = (name, run, options) => {
    this.#checkOpen('runnables')
    this.#options.runnables.add(name, run, options)
  }

  readonly schedule: Registering['schedule'] = (name, expression, run) => {
    this.#checkOpen('schedules')
    this.#options.runnables.schedule(name, expression, run)
  }

  readonly action: Registering['action'] = (
    subject: Action | Model,
    nameOrRun: string | PluginAction['run'],
    served?: { readonly run: PluginAction['run'] },
  ) => {
    this.#checkOpen('actions')
    const registered = readAction(subject, nameOrRun, served)
    if (registered === undefined)
      throw this.#invalid(
        'action needs an action made by defineAction and a function, or a model, a name and { input, output, run }',
      )
    const { name, model } = registered.action
    if (!this.#options.models.some(own => own.apiVersion === model.apiVersion && own.plural === model.plural))
      throw this.#invalid(`action ${name}: the kind ${model.kind} is not among the models of the plugin`)
    this.actions.push(registered)
  }

  readonly routes: Registering['routes'] = (
    groupVersion: string | (new () => object),
    build?: (routes: RouteBuilder) => void,
  ) => {
    this.#checkOpen('routes')
    if (typeof groupVersion === 'function') {
      this.#addEndpoint(groupVersion)
      return
    }
    if (typeof groupVersion !== 'string')
      throw this.#invalid('routes needs a class, not an instance, or <group>/<version> and a function')
    if (typeof build !== 'function')
      throw this.#invalid(`routes of ${groupVersion} need a function such as r => r.get('/path', handler)`)
    const builder = new RouteBuilder()
    this.#checkSynchronous(`routes of ${groupVersion}`, build(builder))
    this.routeGroups.push(builder.build(groupVersion))
  }

  readonly pages: Registering['pages'] = (path, options) => {
    this.#checkOpen('pages')
    try {
      this.pagesOfPlugin.push(readPages(path, options))
    } catch (error) {
      throw this.#invalid(errorMessage(error))
    }
  }

  readonly console: Registering['console'] = (model, module) => {
    this.#checkOpen('modules of the console')
    if (!this.#options.models.includes(model))
      throw this.#invalid('console needs one of the models of the plugin')
    if (typeof module !== 'string' || !/^(\/[\w.-]+)+\.m?js$/.test(module))
      throw this.#invalid(
        `console of ${model.kind} needs the path of a JavaScript module, such as /reports/console.js`,
      )
    if (!this.pagesOfPlugin.some(({ path }) => module.startsWith(`${path}/`)))
      throw this.#invalid(
        `console of ${model.kind}: ${module} is not among the pages of the plugin; call pages before`,
      )
    this.consoleModules.push({ model, module })
  }

  #addEndpoint(endpoint: new () => object): void {
    const group = routesOf(endpoint)
    if (group !== undefined) {
      this.routeGroups.push(group)
      return
    }
    this.unmarkedClasses.push(endpoint.name)
    const { log } = this.#options.controllerOptions
    log?.warn({ endpoint: endpoint.name }, 'class without ApiVersion is not exposed')
  }

  /** What a function adds after an `await` would be lost. */
  #checkSynchronous(built: string, result: unknown): void {
    if (!(result instanceof Promise)) return
    result.catch(() => {})
    throw this.#invalid(`${built} need a function that is not async; await before, in setup`)
  }

  #checkOpen(registered: string): void {
    if (!this.#isOpen) throw this.#invalid(`${registered} can only be registered during setup`)
  }

  #invalid(problem: string): TypeError {
    return new TypeError(`plugin ${this.#options.plugin}: ${problem}`)
  }
}

/** Returns undefined if the arguments are not those of `PluginContext.action`. @throws ModelError */
function readAction(
  subject: Action | Model,
  nameOrRun: string | PluginAction['run'],
  served: { readonly run?: PluginAction['run'] } = {},
): PluginAction | undefined {
  if (typeof subject !== 'object' || subject === null) return undefined
  if (typeof nameOrRun !== 'string')
    return 'model' in subject && typeof nameOrRun === 'function'
      ? { action: subject, run: nameOrRun }
      : undefined
  if (!('plural' in subject) || typeof served !== 'object' || served === null) return undefined
  const { run, ...declaration } = served
  return typeof run === 'function'
    ? { action: defineAction(subject, nameOrRun, declaration), run }
    : undefined
}

function unusedName(name: string, controllers: readonly Controller[]): string {
  let candidate = name
  for (let count = 2; controllers.some(controller => controller.name === candidate); count++) {
    candidate = `${name}-${count}`
  }
  return candidate
}
