import { isDeepStrictEqual } from 'node:util'
import type { Logger, Manager, PluginPermission } from '@setpoint/controller-runtime'
import { isReservedGroup, type Model, ModelError } from '@setpoint/controller-runtime/api'
import type { HostedPlugin, RunnableFailure } from '@setpoint/controller-runtime/internal'
import type { Registry as MetricsRegistry } from 'prom-client'
import type { LogFollower } from '../cache/index.ts'
import type { CustomRoutes } from '../http/index.ts'
import { secrets } from '../log/index.ts'
import type { ModelRegistry } from '../model/index.ts'
import { ServedModel, shorten } from '../model/index.ts'
import type { Registry } from '../registry/index.ts'
import type { Storage } from '../storage/index.ts'
import type { WatchHub } from '../watch/index.ts'
import type { ActorWrites } from './actor-writes.ts'
import type { ReportedProblem } from './index-report.ts'
import { KindRunner } from './kind-runner.ts'
import type { LoadedPlugin } from './load-plugin.ts'
import type { LoopbackTransport } from './loopback-transport.ts'
import type { PluginActor } from './plugin-actor.ts'
import type { PluginPhase } from './plugin-kind.ts'
import { PluginReport, pluginReportDefaults } from './plugin-report.ts'
import type { PluginLoader } from './plugin-source.ts'
import type { PluginSpec, PluginSpecs } from './plugin-specs.ts'
import type { PluginStatuses } from './plugin-status.ts'
import type { PluginLifecycle, ReloadOutcome } from './plugins.ts'
import { messageOf, type PluginSettings, PluginStartError, setUp } from './set-up.ts'
import { applyShippedObjects } from './shipped-objects.ts'

/** The parts of the server that plugins use. */
export interface PluginEnvironment {
  readonly storage: Storage
  readonly models: ModelRegistry
  readonly registry: Registry
  readonly writes: ActorWrites
  readonly follower: LogFollower
  readonly hub: WatchHub
  readonly routes: CustomRoutes
  /** Keeps the roles of plugins. */
  readonly roles: {
    keep(plugin: string, models: readonly Model[]): void
    request(user: string, rules: readonly PluginPermission[], isGranted: boolean): void
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
  readonly log: Logger
}

const disabled = 'spec.enabled is false'

/** The work of a plugin that is set up. */
interface Run {
  readonly hosted: HostedPlugin
  readonly stopped: AbortController
}

/**
 * One plugin in this server.
 *
 *     Starting ── set up, indexes built ──▶ Started ── YAML applied, controllers run
 *      ▲  │                                  │   ▲
 *      │  └───── any fault of the plugin ──▶ Failed  a reload with code that starts
 *      │                                     │
 *      └──── spec.enabled: true ──── Disabled ◀── spec.enabled: false, from every phase
 *
 * The kinds of a failed or disabled plugin respond with 503, except to deletions, and so do the routes that a server has
 * mounted before; the server goes on. One transition runs at a time, but disabling aborts a start.
 */
export class PluginRunner implements PluginLifecycle {
  readonly name: string
  readonly #loader: PluginLoader
  readonly #environment: PluginEnvironment
  readonly #log: Logger
  readonly #report: PluginReport
  readonly #actor: PluginActor
  #loaded: LoadedPlugin
  #kinds: KindRunner[] = []
  #run: Run | undefined
  /** The spec that is in effect. */
  #applied: PluginSpec | undefined
  #setupProblems: readonly ReportedProblem[] = []
  #shippedProblems: readonly ReportedProblem[] = []
  #transitions: Promise<unknown> = Promise.resolve()
  #stopped = false

  constructor(loader: PluginLoader, loaded: LoadedPlugin, environment: PluginEnvironment) {
    const { name } = loaded.plugin
    this.name = name
    this.#loader = loader
    this.#loaded = loaded
    this.#environment = environment
    this.#log = environment.log.child({ plugin: name })
    this.#actor = environment.actorOf(name)
    this.#report = new PluginReport(name, loader.source.label, environment.statuses)
    this.#describe()
  }

  /**
   * Registers the plugin's kinds before it returns, and starts the plugin if it is enabled. Resolves when it has started,
   * failed or been found disabled. Never rejects: errors go to the plugin's status.
   */
  start(): Promise<void> {
    this.#publish('Starting', 'its models are being checked and their indexes built')
    const refusal = this.#register()
    return this.#next(async () => {
      if (refusal !== undefined) await this.#fail(refusal)
      const spec = await this.#environment.specs.get(this.name).catch(() => undefined)
      // The server stops.
      if (spec === undefined) return
      this.#applied = spec
      if (!spec.enabled) await this.#disable()
      else if (refusal === undefined) await this.#begin()
      // The object with the groups of its routes is known only now.
      else this.#closeRoutes(failureOf(this.name, messageOf(refusal)))
    })
  }

  /** To be called when the spec of the `Plugin` object has changed. Resolves when it is in effect. */
  follow(): Promise<void> {
    if (this.#applied !== undefined && !this.#environment.specs.current(this.name).enabled)
      this.#run?.stopped.abort()
    return this.#next(async () => {
      const applied = this.#applied
      if (applied === undefined) return
      const wanted = this.#environment.specs.current(this.name)
      this.#applied = wanted
      // True also if it has been enabled again since.
      const interrupted = this.#run?.stopped.signal.aborted === true
      if (interrupted || (!wanted.enabled && applied.enabled)) await this.#disable()
      if (wanted.reload !== applied.reload) await this.#reload()
      if (wanted.enabled && this.#report.phase === 'Disabled') await this.#restart()
    })
  }

  /**
   * Loads the plugin's code again and replaces the running one. Resolves when the new code runs, or the old one runs on
   * because the new one does not load, is not valid or fails in `setup`. Never rejects.
   *
   * A kind whose declaration is the same data keeps its cache and its watches. Functions are never the same, so a kind
   * with index functions is built again: its watches end with 1013, and it responds with 503 meanwhile.
   */
  reload(): Promise<ReloadOutcome> {
    return this.#next(() => this.#reload())
  }

  /** True when its models and routes are registered, or it has failed or is disabled. */
  get isRegistered(): boolean {
    return this.#run !== undefined || this.#report.phase !== 'Starting'
  }

  /** One line for `/readyz?verbose`, which needs no credentials. The reason of a failure is in the Plugin object. */
  get progress(): string {
    if (this.#report.phase === 'Starting')
      return ['starting', ...this.#kinds.flatMap(({ progress }) => progress ?? [])].join('; ')
    return this.#report.phase === 'Started' ? 'ok' : (this.#report.phase?.toLowerCase() ?? 'starting')
  }

  /** Stops for good, with the server: the manager stops the controllers, and watches end with the others. */
  async stop(served?: Promise<void>): Promise<void> {
    this.#stopped = true
    this.#run?.stopped.abort()
    for (const kind of this.#kinds) kind.abort()
    await served
    await this.#run?.hosted.stop()
  }

  #next<T>(transition: () => Promise<T>): Promise<T> {
    const done = this.#transitions.then(transition)
    this.#transitions = done.catch(() => {})
    return done
  }

  /** Sets up the plugin, starts its kinds, and then its controllers. */
  async #begin(): Promise<void> {
    try {
      const hosted = await this.#setUp(this.#loaded)
      this.#noteUnmarked(hosted)
      try {
        this.#environment.routes.add(hosted)
      } catch (error) {
        await hosted.stop()
        throw error
      }
      await this.#work(hosted, undefined)
    } catch (error) {
      await this.#fail(error)
    }
  }

  /** Starts the kinds that are not served. Then starts the controllers, once those of `previous` have ended. */
  async #work(hosted: HostedPlugin, previous: Run | undefined): Promise<void> {
    const run: Run = { hosted, stopped: new AbortController() }
    this.#report.describe({ routes: groupsOf(hosted) })
    this.#run = run
    this.#shippedProblems = []
    const { signal } = run.stopped
    const { manager, models, writes, reservedDomain } = this.#environment
    const starting = this.#kinds.filter(({ served }) => served.phase.name === 'Starting')
    const aborted = new Promise<void>(resolve => {
      signal.addEventListener('abort', () => resolve(), { once: true })
    })
    await Promise.race([Promise.all([this.#end(previous), ...starting.map(kind => kind.start())]), aborted])
    if (signal.aborted) return
    this.#publish('Started')
    const { dir, packageVersion: version, resourcesDir, plugin } = this.#loaded
    this.#log.info({ kinds: plugin.models.map(resourceName) }, 'the plugin has started')
    this.#environment.roles.keep(this.name, plugin.models)
    this.#askForPermissions(plugin.permissions ?? [], signal)
    for (const added of [...hosted.controllers, ...hosted.runnables]) manager?.add(added)
    await applyShippedObjects({
      plugin: this.name,
      writes: writes.for(this.#actor),
      version,
      dir,
      resourcesDir,
      models,
      reservedDomain,
      log: this.#log,
      signal,
      applied: problems => {
        this.#shippedProblems = problems
        this.#publish('Started')
      },
    })
  }

  async #fail(error: unknown): Promise<void> {
    if (this.#stopped) return
    const message = messageOf(error)
    const why = failureOf(this.name, message)
    this.#closeRoutes(why)
    for (const kind of this.#kinds) kind.stop(why)
    await this.#endRun()
    this.#log.error({ err: error }, 'the plugin has failed')
    this.#publish('Failed', message)
  }

  async #disable(): Promise<void> {
    const why = `plugin ${this.name} is disabled`
    this.#report.describe({ routes: [...this.#closeRoutes(why)] })
    for (const kind of this.#kinds) kind.stop(why)
    await this.#endRun()
    this.#log.info({}, 'the plugin is disabled')
    this.#publish('Disabled', disabled)
  }

  /** Closes the groups of the routes that run, or ran when the plugin last started, and returns them. */
  #closeRoutes(why: string): readonly string[] {
    const { routes, specs } = this.#environment
    const groups = this.#run === undefined ? specs.routesOf(this.name) : groupsOf(this.#run.hosted)
    routes.close(this.name, groups, why)
    return groups
  }

  /** Starts a plugin that does not run, from the code that is loaded. */
  async #restart(): Promise<void> {
    this.#environment.routes.open(this.name)
    this.#publish('Starting', 'its models are being checked and their indexes built')
    const refusal = this.#register()
    if (refusal === undefined) await this.#begin()
    else await this.#fail(refusal)
  }

  async #reload(): Promise<ReloadOutcome> {
    const running = this.#run
    let hosted: HostedPlugin | undefined
    try {
      const next = await this.#loader.load()
      const { name } = next.plugin
      if (name !== this.name)
        throw new PluginStartError(`its name has changed to ${JSON.stringify(name)}: restart the server`)
      if (running !== undefined) {
        hosted = await this.#setUp(next)
        this.#replace(next.plugin.models, running.hosted, hosted)
      }
      this.#loaded = next
    } catch (error) {
      await hosted?.stop()
      const message = messageOf(error)
      this.#log.error({ err: error }, 'failed to reload the plugin')
      this.#report.reloaded(running === undefined ? message : `the previous code keeps running: ${message}`)
      this.#publish(this.#report.phase ?? 'Failed', this.#report.message)
      return { reloaded: false, message }
    }
    this.#log.info({ version: this.#loaded.packageVersion }, 'reloaded the code of the plugin')
    this.#describe()
    this.#report.reloaded(undefined)
    if (hosted !== undefined) {
      this.#noteUnmarked(hosted)
      await this.#work(hosted, running).catch(error => this.#fail(error))
    } else if (this.#applied?.enabled === false) this.#publish('Disabled', disabled)
    else await this.#restart()
    return { reloaded: true }
  }

  /** Stops the controllers and routes of a run. */
  async #end(run: Run | undefined): Promise<void> {
    if (run === undefined) return
    const { manager, routes } = this.#environment
    const { hosted, stopped } = run
    stopped.abort()
    routes.remove(hosted)
    const added = [...hosted.controllers, ...hosted.runnables]
    await Promise.all([hosted.stop(), ...added.map(each => manager?.remove(each))])
  }

  async #endRun(): Promise<void> {
    const run = this.#run
    this.#run = undefined
    this.#shippedProblems = []
    await this.#end(run)
  }

  /**
   * Registers the kinds of a plugin that does not run, also those with a refused schema, so that the kinds of a failed plugin
   * respond with 503 and the reason. Returns the first error.
   */
  #register(): Error | undefined {
    const { models } = this.#environment
    for (const { served } of this.#kinds) models.remove(served)
    this.#kinds = []
    let first: Error | undefined
    for (const model of this.#loaded.plugin.models) {
      try {
        this.#kinds.push(this.#addModel(model))
      } catch (error) {
        first ??= error instanceof Error ? error : new Error(String(error))
        if (error instanceof PluginStartError && error.cause instanceof ModelError)
          this.#kinds.push(this.#addModel(withoutRules(model)))
      }
    }
    return first
  }

  /**
   * Registers the kinds and routes of reloaded code in place of the present ones: all or nothing. Served kinds whose
   * declaration is the same stay as they are.
   * @throws PluginStartError, ModelConflictError or RouteConflictError that names the wrong declaration
   */
  #replace(next: readonly Model[], from: HostedPlugin, to: HostedPlugin): void {
    const { models, routes } = this.#environment
    const sameAs = (model: Model) => this.#kinds.find(({ served }) => isServedUnchanged(served, model))
    const kept = new Set(next.map(sameAs))
    const dropped = this.#kinds.filter(kind => !kept.has(kind))
    const added: KindRunner[] = []
    for (const { served } of dropped) models.remove(served)
    routes.remove(from)
    try {
      const kinds = next.map(model => {
        const same = sameAs(model)
        if (same !== undefined) return same
        const kind = this.#addModel(model)
        added.push(kind)
        return kind
      })
      routes.add(to)
      this.#kinds = kinds
    } catch (error) {
      for (const { served } of added) models.remove(served)
      for (const { served } of dropped) models.add(served)
      routes.add(from)
      throw error
    }
    for (const kind of dropped) kind.stop(`plugin ${this.name} is being reloaded`)
  }

  /** @throws PluginStartError or ModelConflictError that names the wrong declaration */
  #addModel(model: Model): KindRunner {
    const { models, reservedDomain, routes, storage, registry, follower, hub } = this.#environment
    if (isReservedGroup(model.group, reservedDomain)) {
      const group = model.group === '' ? 'the empty group' : `the group ${JSON.stringify(model.group)}`
      throw new PluginStartError(
        `the kind ${model.kind} uses ${group}, which is reserved for the service (${reservedDomain}, k8s.io); use a sub-domain of your own`,
      )
    }
    const served = this.#compile(model)
    for (const { apiVersion } of served.versions) {
      const clash = routes.clashWith(apiVersion, model)
      if (clash !== undefined) throw new PluginStartError(clash)
    }
    models.add(served)
    const changed = () => this.#republish()
    const pluginVersion = this.#loaded.packageVersion
    return new KindRunner({
      ...{ served, pluginVersion, storage, registry, follower, hub, log: this.#log, changed },
    })
  }

  /** @throws PluginStartError that names the kind with an unusable schema */
  #compile(model: Model): ServedModel {
    try {
      return new ServedModel(model, this.name)
    } catch (error) {
      if (!(error instanceof ModelError)) throw error
      throw new PluginStartError(`the kind ${model.kind}: ${error.message}`, { cause: error })
    }
  }

  #setUp(loaded: LoadedPlugin): Promise<HostedPlugin> {
    const { transport: hostTransport, log, manager } = this.#environment
    const { settings, metricsRegistry: registry } = this.#environment
    const transport = hostTransport.for(this.#actor)
    const builtFor = manager && { builtFor: manager }
    const onFailures = () => this.#republish()
    return setUp(loaded, settings, {
      transport,
      hostTransport,
      log,
      registry,
      onFailures,
      ...builtFor,
    })
  }

  /** Asks for permissions and reports those that are missing, as long as the plugin runs. */
  #askForPermissions(permissions: readonly PluginPermission[], signal: AbortSignal): void {
    if (permissions.length === 0) return
    const { roles, grantsPermissions } = this.#environment
    roles.request(this.#actor.user.name, permissions, grantsPermissions)
    signal.addEventListener(
      'abort',
      this.#actor.onChange(() => this.#republish()),
      { once: true },
    )
  }

  #permissionProblems(): ReportedProblem[] {
    if (this.#run === undefined) return []
    const missing = this.#actor.missing(this.#loaded.plugin.permissions ?? [])
    if (missing.length === 0) return []
    const { name } = this.#actor.user
    const message = `no role grants ${missing.map(showPermission).join(', ')}; bind the ClusterRole ${name} to the user ${name}, or start the server with --grant-plugins`
    return [{ source: 'permissions', message }]
  }

  #noteUnmarked({ unmarkedClasses }: HostedPlugin): void {
    this.#setupProblems = unmarkedClasses.map(name => ({
      source: `class ${name}`,
      message: 'it is not marked with ApiVersion and is not exposed',
    }))
  }

  #describe(): void {
    const { packageVersion: version, plugin } = this.#loaded
    this.#report.describe({ version, kinds: plugin.models.map(resourceName) })
  }

  /** Publishes what has changed since the plugin has started. */
  #republish(): void {
    if (this.#report.phase === 'Started') this.#publish('Started')
  }

  #publish(phase: PluginPhase, why?: string): void {
    if (this.#stopped) return
    const findings = this.#kinds.flatMap(kind => kind.findings ?? [])
    const failures = this.#run?.hosted.failures ?? []
    this.#report.publish(phase, {
      why,
      findings,
      problems: [
        ...this.#setupProblems,
        ...this.#permissionProblems(),
        ...failures.map(shownFailure),
        ...this.#shippedProblems,
      ],
      stored: this.#kinds.map(({ served, migration, violation }) => ({
        kind: resourceName(served.model),
        migration,
        violation,
      })),
    })
  }
}

function showPermission({ apiGroups, resources, verbs }: PluginPermission): string {
  const groups = apiGroups.map(group => group || 'core').join('|')
  return `${verbs.join('|')} on ${resources.join('|')} of ${groups}`
}

/** The error comes from the plugin: it may be long, or hold a secret. */
function shownFailure({ source, message }: RunnableFailure): ReportedProblem {
  return { source, message: shorten(secrets.redact(message), pluginReportDefaults.failureCharacters) }
}

function failureOf(plugin: string, message: string): string {
  return `plugin ${plugin} has failed: ${message}`
}

function resourceName({ plural, group }: Model): string {
  return `${plural}.${group}`
}

/** Returns the model with schemas that allow everything. */
function withoutRules(model: Model): Model {
  const schema = { spec: {} }
  return { ...model, schema, versions: model.versions.map(version => ({ ...version, schema })) }
}

function groupsOf({ routes }: HostedPlugin): string[] {
  return [...new Set(routes.map(({ groupVersion }) => groupVersion))]
}

/** Returns true if a kind is served by the same declaration. Functions of another instance of a module are different. */
function isServedUnchanged(served: ServedModel, model: Model): boolean {
  return served.phase.name === 'Started' && isDeepStrictEqual(served.model, model)
}
