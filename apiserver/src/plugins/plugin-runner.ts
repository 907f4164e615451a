import { aborted, type Logger } from '@setpoint/controller-runtime'
import type { Model } from '@setpoint/controller-runtime/api'
import type { LoadedPlugin } from './load-plugin.ts'
import type { PluginActor } from './plugin-actor.ts'
import type { PluginEnvironment } from './plugin-environment.ts'
import type { PluginPhase } from './plugin-kind.ts'
import { PluginKinds } from './plugin-kinds.ts'
import { PluginReport } from './plugin-report.ts'
import { PluginRun } from './plugin-run.ts'
import type { CodeLoader } from './plugin-source.ts'
import type { PluginSpec } from './plugin-specs.ts'
import type { PluginLifecycle, ReloadOutcome } from './plugins.ts'
import { PluginStartError, redactedMessageOf } from './set-up.ts'

const disabled = 'spec.enabled is false'

/**
 * One plugin in this server.
 *
 *     Starting ── set up, indexes built ──▶ Started ── YAML applied, controllers run
 *      ▲  │                                  │   ▲
 *      │  └───── any fault of the plugin ──▶ Failed  a reload with code that starts
 *      │                                     │
 *      └──── spec.enabled: true ──── Disabled ◀── spec.enabled: false, from every phase
 *
 * The kinds of a failed or disabled plugin respond with 503, except to deletions, and so do the routes that a server
 * has mounted before; the server goes on. One transition runs at a time, but disabling aborts a start.
 */
export class PluginRunner implements PluginLifecycle {
  readonly name: string
  readonly #loader: CodeLoader
  readonly #environment: PluginEnvironment
  readonly #log: Logger
  readonly #report: PluginReport
  readonly #actor: PluginActor
  readonly #kinds: PluginKinds
  #loaded: LoadedPlugin
  #run: PluginRun | undefined
  /** Replaced code that still has requests. */
  readonly #retiring = new Set<PluginRun>()
  /** The spec that is in effect. */
  #applied: PluginSpec | undefined
  #transitions: Promise<unknown> = Promise.resolve()
  /** True once it has started, failed or been found disabled. */
  #hasSettled = false
  #stopped = false

  constructor(loader: CodeLoader, loaded: LoadedPlugin, environment: PluginEnvironment) {
    const { name } = loaded.plugin
    this.name = name
    this.#loader = loader
    this.#loaded = loaded
    this.#environment = environment
    this.#log = environment.log.child({ plugin: name })
    this.#actor = environment.actorOf(name)
    const changed = () => this.#republish()
    this.#kinds = new PluginKinds({ plugin: name, environment, log: this.#log, changed })
    this.#report = new PluginReport(name, loader.source.label, environment.statuses)
    this.#describe()
  }

  /**
   * Registers the plugin's kinds before it returns, and starts the plugin if it is enabled. Resolves when it has
   * started, failed or been found disabled. Never rejects: errors go to the plugin's status.
   */
  start(): Promise<void> {
    this.#publish('Starting', 'its models are being checked and their indexes built')
    const refusal = this.#kinds.register(this.#loaded)
    return this.#next(async () => {
      if (refusal !== undefined) await this.#fail(refusal)
      const spec = await this.#environment.specs.get(this.name).catch(() => undefined)
      // The server stops.
      if (spec === undefined) return
      this.#applied = spec
      const taken = refusal === undefined ? this.#kinds.leaveTaken() : undefined
      if (!spec.enabled) await this.#disable()
      else if (taken !== undefined) await this.#fail(taken)
      else if (refusal === undefined) await this.#begin()
      // The object with the groups of its routes is known only now.
      else this.#closeRoutes(failureOf(this.name, redactedMessageOf(refusal)))
    })
  }

  /** To be called when the spec of the `Plugin` object has changed. Resolves when it is in effect. */
  follow(): Promise<void> {
    if (this.#applied !== undefined && !this.#environment.specs.current(this.name).enabled) this.#run?.abort()
    return this.#next(async () => {
      const applied = this.#applied
      if (applied === undefined) return
      const wanted = this.#environment.specs.current(this.name)
      this.#applied = wanted
      // True also if it has been enabled again since.
      const interrupted = this.#run?.signal.aborted === true
      if (interrupted || (!wanted.enabled && applied.enabled)) await this.#disable()
      if (wanted.reload !== applied.reload) await this.#reload(wanted.reload)
      if (wanted.enabled && this.#report.phase === 'Disabled') await this.#restart()
    })
  }

  /**
   * Loads the plugin's code again and replaces the running one. Resolves when the new code runs, or the old one runs on
   * because the new one does not load, is not valid or fails in `setup`. Never rejects.
   *
   * A kind whose declaration is the same data keeps its cache and its watches. Functions are never the same, so a kind
   * with index functions is built again, next to the one that is served. When it takes over, watches end with 1013.
   */
  reload(): Promise<ReloadOutcome> {
    return this.#next(() => this.#reload(undefined))
  }

  /** True when its models and routes are registered, or it has failed or is disabled. */
  get isRegistered(): boolean {
    return this.#run !== undefined || this.#report.phase !== 'Starting'
  }

  /** One line for `/readyz?verbose`, which needs no credentials. The reason of a failure is in the Plugin object. */
  get progress(): string {
    if (this.#report.phase === 'Starting')
      return ['starting', ...this.#kinds.all.flatMap(({ progress }) => progress ?? [])].join('; ')
    return this.#report.phase === 'Started' ? 'ok' : (this.#report.phase?.toLowerCase() ?? 'starting')
  }

  get isAwaited(): boolean {
    return !this.#hasSettled && this.#loaded.plugin.readiness !== 'deferred'
  }

  /** Stops for good, with the server: the manager stops the controllers, and watches end with the others. */
  async stop(served?: Promise<unknown>): Promise<void> {
    this.#stopped = true
    this.#run?.abort()
    this.#kinds.abort()
    await served
    await Promise.all([this.#run, ...this.#retiring].map(run => run?.hosted.stop()))
  }

  #next<T>(transition: () => Promise<T>): Promise<T> {
    const done = this.#transitions.then(transition)
    this.#transitions = done.catch(() => {})
    return done
  }

  /** Sets up the plugin, starts its kinds, and then its controllers. */
  async #begin(): Promise<void> {
    try {
      const run = await this.#setUp(this.#loaded)
      try {
        this.#environment.routes.add(run.hosted)
      } catch (error) {
        await run.end()
        throw error
      }
      await this.#work(run, undefined)
    } catch (error) {
      await this.#fail(error)
    }
  }

  /** Starts the kinds that are not served. Then starts the controllers, once those of `previous` have ended. */
  async #work(run: PluginRun, previous: PluginRun | undefined): Promise<void> {
    const { signal } = run
    this.#report.describe({ routes: run.routeGroups })
    this.#run = run
    // The plugin was disabled, or the server stopped, while the kinds of reloaded code were built.
    if (previous?.signal.aborted) run.abort()
    const ready = Promise.all([previous && this.#retire(previous), this.#kinds.start()])
    await Promise.race([aborted(signal), ready])
    if (signal.aborted) return
    this.#publish('Started')
    const { models } = this.#loaded.plugin
    this.#log.info({ kinds: models.map(resourceName) }, 'the plugin has started')
    this.#environment.roles.keep(this.name, models)
    await run.begin()
  }

  async #fail(error: unknown): Promise<void> {
    if (this.#stopped) return
    const message = redactedMessageOf(error)
    const why = failureOf(this.name, message)
    this.#closeRoutes(why)
    this.#kinds.stop(why)
    await this.#endRun()
    this.#log.error({ err: error }, 'the plugin has failed')
    this.#publish('Failed', message)
  }

  async #disable(): Promise<void> {
    const why = `plugin ${this.name} is disabled`
    this.#report.describe({ routes: [...this.#closeRoutes(why)] })
    this.#kinds.stop(why)
    await this.#endRun()
    this.#log.info({}, 'the plugin is disabled')
    this.#publish('Disabled', disabled)
  }

  /** Closes the groups of the routes that run, or ran when the plugin last started, and returns them. */
  #closeRoutes(why: string): readonly string[] {
    const { routes, specs } = this.#environment
    const groups = this.#run === undefined ? specs.routesOf(this.name) : this.#run.routeGroups
    routes.close(this.name, groups, why)
    return groups
  }

  /** Starts a plugin that does not run, from the code that is loaded. */
  async #restart(): Promise<void> {
    this.#environment.routes.open(this.name)
    this.#publish('Starting', 'its models are being checked and their indexes built')
    const refusal = this.#kinds.register(this.#loaded)
    if (refusal === undefined) await this.#begin()
    else await this.#fail(refusal)
  }

  /** @param asked the `spec.reload` that asks for it */
  async #reload(asked: PluginSpec['reload']): Promise<ReloadOutcome> {
    const running = this.#run
    let run: PluginRun | undefined
    try {
      const next = await this.#loader.load()
      const { name } = next.plugin
      if (name !== this.name)
        throw new PluginStartError(`its name has changed to ${JSON.stringify(name)}: restart the server`)
      if (running !== undefined) {
        run = await this.#setUp(next)
        await this.#kinds.replace(next, running.hosted, run.hosted, running.signal)
      }
      this.#loaded = next
    } catch (error) {
      await run?.end()
      const message = redactedMessageOf(error)
      this.#log.error({ err: error }, 'failed to reload the plugin')
      const failure = running === undefined ? message : `the previous code keeps running: ${message}`
      this.#report.reloaded(asked, failure)
      this.#publish(this.#report.phase ?? 'Failed', this.#report.message)
      return { reloaded: false, message }
    }
    this.#log.info({ version: this.#loaded.packageVersion }, 'reloaded the code of the plugin')
    this.#describe()
    this.#report.reloaded(asked, undefined)
    if (run !== undefined) await this.#work(run, running).catch(error => this.#fail(error))
    else if (this.#applied?.enabled === false) this.#publish('Disabled', disabled)
    else await this.#restart()
    return { reloaded: true }
  }

  async #endRun(): Promise<void> {
    const run = this.#run
    this.#run = undefined
    await Promise.all([run, ...this.#retiring].map(each => each?.end()))
  }

  /** Ends replaced code once its requests have finished. Resolves when its controllers and runnables have ended. */
  #retire(run: PluginRun): Promise<void> {
    this.#retiring.add(run)
    run
      .drained()
      .then(() => run.end())
      .catch(error => this.#log.error({ err: error }, 'failed to stop the replaced code'))
      .finally(() => this.#retiring.delete(run))
    return run.withdraw()
  }

  #setUp(loaded: LoadedPlugin): Promise<PluginRun> {
    return PluginRun.setUp({
      loaded,
      environment: this.#environment,
      actor: this.#actor,
      log: this.#log,
      changed: () => this.#republish(),
    })
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
    if (phase !== 'Starting') this.#hasSettled = true
    const kinds = this.#kinds.all
    this.#report.publish(phase, {
      why,
      findings: kinds.flatMap(kind => kind.findings ?? []),
      problems: this.#run?.problems ?? [],
      stored: kinds.map(({ served, migration, violation }) => ({
        kind: resourceName(served.model),
        migration,
        violation,
      })),
    })
  }
}

function failureOf(plugin: string, message: string): string {
  return `plugin ${plugin} has failed: ${message}`
}

function resourceName({ plural, group }: Model): string {
  return `${plural}.${group}`
}
