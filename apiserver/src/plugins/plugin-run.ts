import type { Logger } from '@setpoint/controller-runtime'
import type { HostedPlugin, RunnableFailure } from '@setpoint/controller-runtime/internal'
import { loadActionRules } from '../http/index.ts'
import { secrets } from '../log/index.ts'
import { shorten } from '../model/index.ts'
import { declarationProblems } from './declaration-problems.ts'
import type { ReportedProblem } from './index-report.ts'
import type { LoadedPlugin } from './load-plugin.ts'
import { PermittedControllers } from './permitted-controllers.ts'
import type { PluginActor } from './plugin-actor.ts'
import type { PluginEnvironment } from './plugin-environment.ts'
import { PluginPermissions } from './plugin-permissions.ts'
import { pluginReportDefaults } from './plugin-report.ts'
import { setUp } from './set-up.ts'
import { applyShippedObjects } from './shipped-objects.ts'
import { unservedResources } from './unserved-resources.ts'

interface PluginRunParts {
  readonly loaded: LoadedPlugin
  readonly environment: PluginEnvironment
  readonly actor: PluginActor
  readonly log: Logger
  /** Called after `problems` may have changed. */
  readonly changed: () => void
}

/** One instance of a plugin's code whose `setup` has run: its controllers, runnables, routes and shipped objects. */
export class PluginRun {
  readonly hosted: HostedPlugin
  readonly #parts: PluginRunParts
  readonly #permissions: PluginPermissions
  /** Undefined if controllers run in another process. */
  readonly #controllers: PermittedControllers | undefined
  readonly #stopped = new AbortController()
  readonly #declarationProblems: readonly ReportedProblem[]
  #shippedProblems: readonly ReportedProblem[] = []
  #unservedKinds: readonly ReportedProblem[] = []

  /** Runs `setup`. @throws SettingsError, or PluginStartError with the place in the plugin */
  static async setUp(parts: PluginRunParts): Promise<PluginRun> {
    const { loaded, environment, actor, changed } = parts
    const { transport, log, manager, settings, metricsRegistry, routes } = environment
    const hosted = await setUp(loaded, settings, {
      transport: transport.for(actor),
      hostTransport: transport,
      log,
      registry: metricsRegistry,
      onFailures: changed,
      builtFor: manager,
    })
    await Promise.all([loadActionRules(hosted), routes.pages.read(hosted)]).catch(async error => {
      await hosted.stop()
      throw error
    })
    return new PluginRun(hosted, parts)
  }

  private constructor(hosted: HostedPlugin, parts: PluginRunParts) {
    this.hosted = hosted
    this.#parts = parts
    const { environment, actor, log, changed } = parts
    const { manager, models } = environment
    this.#permissions = new PluginPermissions(actor, environment)
    const { controllers } = hosted
    this.#controllers =
      manager && new PermittedControllers({ controllers, manager, models, actor, log, changed })
    this.#declarationProblems = parts.loaded.plugin.models.flatMap(declarationProblems)
    for (const problem of this.#declarationProblems) log.warn(problem, 'a declaration may be wrong')
  }

  /** Aborted when it is to stop. */
  get signal(): AbortSignal {
    return this.#stopped.signal
  }

  /** The groups of its routes and actions, as `<group>/<version>`. */
  get routeGroups(): string[] {
    const { routes, actions } = this.hosted
    const ofActions = actions.flatMap(({ action: { model } }) => [model, ...model.versions])
    return [
      ...new Set([
        ...routes.map(({ groupVersion }) => groupVersion),
        ...ofActions.map(({ apiVersion }) => apiVersion),
      ]),
    ]
  }

  /** What needs attention although it runs. */
  get problems(): ReportedProblem[] {
    const { unmarkedClasses, failures } = this.hosted
    return [
      ...unmarkedClasses.map(name => ({
        source: `class ${name}`,
        message: 'it is not marked with ApiVersion and is not exposed',
      })),
      ...this.#permissions.problems(this.#parts.loaded.plugin.permissions ?? []),
      ...this.#declarationProblems,
      ...this.#unservedKinds,
      ...(this.#controllers?.problems ?? []),
      ...failures.map(shownFailure),
      ...this.#shippedProblems,
    ]
  }

  /**
   * Starts the controllers and runnables, and applies the shipped objects. Resolves when these are applied or it stops.
   */
  async begin(): Promise<void> {
    const { loaded, environment, actor, log, changed } = this.#parts
    const { models, definitions, writes, manager, reservedDomain } = environment
    const { dir, packageVersion: version, resourcesDir, plugin } = loaded
    this.#permissions.ask(plugin.permissions ?? [], this.signal, changed)
    void this.#followKinds()
    this.#controllers?.start(this.signal)
    for (const runnable of this.hosted.runnables) manager?.add(runnable)
    await applyShippedObjects({
      plugin: plugin.name,
      writes: writes.for(actor),
      version,
      dir,
      resourcesDir,
      models,
      definitions,
      reservedDomain,
      log,
      signal: this.signal,
      applied: problems => {
        this.#shippedProblems = problems
        changed()
      },
    })
  }

  /** Aborts `signal`. */
  abort(): void {
    this.#stopped.abort()
  }

  /** Takes no new requests and stops the controllers and runnables. Resolves when these have ended. */
  async withdraw(): Promise<void> {
    const { manager, routes } = this.#parts.environment
    this.abort()
    routes.remove(this.hosted)
    await Promise.all(this.#managed.map(each => manager?.remove(each)))
  }

  /** Resolves when the requests of its routes have their responses, and at the latest after `drainMs`. */
  drained(): Promise<void> {
    const { routes, drainMs } = this.#parts.environment
    return routes.drained(this.hosted, drainMs)
  }

  /** Stops everything, and aborts the requests of its routes. Resolves when controllers and runnables have ended. */
  async end(): Promise<void> {
    await Promise.all([this.hosted.stop(), this.withdraw()])
  }

  /** Keeps the problems of controllers and permissions that are for kinds which this server does not serve. */
  async #followKinds(): Promise<void> {
    const { loaded, environment, log, changed } = this.#parts
    for await (const kinds of environment.kinds.follow(this.signal)) {
      const found = this.hosted.controllers.flatMap(({ name, models }) =>
        models
          .filter(
            ({ group, version, plural }) => environment.models.find(group, version, plural) === undefined,
          )
          .map(({ apiVersion, plural, kind }) => ({
            source: `controller ${name}`,
            message: `it reads ${kind}, which is not served at ${apiVersion}/${plural}, and reconciles nothing until then`,
          })),
      )
      const routes = environment.routes.describe().filter(({ action }) => action === undefined)
      const routeGroups = new Set(routes.map(({ groupVersion }) => groupVersion.split('/')[0] ?? ''))
      const pointless = unservedResources(loaded.plugin.permissions ?? [], kinds, routeGroups)
      if (found.length + pointless.length + this.#unservedKinds.length === 0) continue
      this.#unservedKinds = [...found, ...pointless]
      for (const problem of found) log.warn(problem, 'a controller waits for a kind')
      for (const problem of pointless) log.warn(problem, 'a permission is for no kind')
      changed()
    }
  }

  get #managed() {
    return [...this.hosted.controllers, ...this.hosted.runnables]
  }
}

/** The error comes from the plugin: it may be long, or hold a secret. */
function shownFailure({ source, message }: RunnableFailure): ReportedProblem {
  return { source, message: shorten(secrets.redact(message), pluginReportDefaults.failureCharacters) }
}
