import { setTimeout as delay } from 'node:timers/promises'
import type { Logger, Manager, Transport } from '@setpoint/controller-runtime'
import { isReservedDomain, type Model, ModelError } from '@setpoint/controller-runtime/api'
import { type HostedPlugin, setupPlugin } from '@setpoint/controller-runtime/internal'
import type { LogFollower, ModelCache } from '../cache/index.ts'
import type { CustomRoutes } from '../http/index.ts'
import type { ModelRegistry } from '../model/index.ts'
import { deepEqual, ServedModel } from '../model/index.ts'
import type { Registry } from '../registry/index.ts'
import type { Storage } from '../storage/index.ts'
import { placeOf } from './error-place.ts'
import { applyExtensions, type ExtensionProblem } from './extensions.ts'
import { claimIndexes } from './index-claim.ts'
import { type IndexFindings, IndexReport, type ReportedProblem } from './index-report.ts'
import type { LoadedPlugin } from './load-plugin.ts'
import type { PluginStatus } from './plugin-kind.ts'
import type { PluginStatuses } from './plugin-status.ts'
import { RegistryWriter } from './registry-writer.ts'
import { StoredViolations } from './stored-violations.ts'
import { type MigrationState, VersionMigration } from './version-migration.ts'

export const runnerDefaults = Object.freeze({
  /** Milliseconds between attempts at YAML documents with transient problems. */
  extensionsRetryMs: 5_000,
  /** Objects between two log lines about the building of indexes. */
  progressObjects: 50_000,
  /** Most problems of shipped files in a status. The log has all of them. */
  shownProblems: 20,
})

/** The parts of the server that plugins use. */
export interface PluginEnvironment {
  readonly storage: Storage
  readonly models: ModelRegistry
  readonly registry: Registry
  readonly follower: LogFollower
  readonly routes: CustomRoutes
  readonly transport: Transport
  /** Runs the controllers; absent if they run in another process. */
  readonly manager: Manager | undefined
  readonly statuses: PluginStatuses
  readonly reservedDomain: string
  readonly log: Logger
}

/** A plugin cannot start because of its declarations. */
class PluginStartError extends Error {
  override readonly name = 'PluginStartError'
}

/**
 * One plugin in this server.
 *
 *     Starting ── models checked, setup run, indexes built ──▶ Started ── YAML applied, controllers run
 *        └────── any fault of the plugin ──▶ Failed: its kinds respond with 503 except to deletions; the server goes on
 */
export class PluginRunner {
  readonly name: string
  readonly #loaded: LoadedPlugin
  readonly #environment: PluginEnvironment
  readonly #log: Logger
  readonly #stopped = new AbortController()
  readonly #models: ServedModel[] = []
  #hosted: HostedPlugin | undefined
  #status: PluginStatus
  #problems: ReportedProblem[] = []
  readonly #findings = new Map<ServedModel, IndexFindings>()
  readonly #migrations = new Map<ServedModel, MigrationState>()
  /** The stored objects of each model that violate its schema. */
  readonly #violations = new Map<ServedModel, ReportedProblem>()
  /** The activity of each model that has not started yet, by resource. */
  readonly #progress = new Map<string, string>()

  constructor(loaded: LoadedPlugin, environment: PluginEnvironment) {
    const { name, models } = loaded.plugin
    this.name = name
    this.#loaded = loaded
    this.#environment = environment
    this.#log = environment.log.child({ plugin: name })
    this.#status = {
      version: loaded.packageVersion,
      kinds: models.map(model => `${model.plural}.${model.group}`),
    }
  }

  /** Starts the plugin. Resolves when it has started or failed. Never rejects: errors go to the plugin's status. */
  async start(): Promise<void> {
    this.#publish('Starting', 'its models are being checked and their indexes built')
    const { signal } = this.#stopped
    try {
      this.#registerModels()
      await this.#setup()
      await Promise.all(this.#models.map(served => this.#startModel(served)))
    } catch (error) {
      if (signal.aborted) return
      const message = error instanceof Error ? error.message : String(error)
      for (const served of this.#models)
        served.phase = { name: 'Failed', message: `plugin ${this.name} has failed: ${message}` }
      this.#environment.routes.remove(this.name)
      await this.#hosted?.stop()
      this.#log.error({ err: error }, 'the plugin has failed')
      this.#publish('Failed', message)
      return
    }
    this.#publish('Started')
    this.#log.info({ kinds: this.#status.kinds }, 'the plugin has started')
    for (const controller of this.#hosted?.controllers ?? []) this.#environment.manager?.add(controller)
    await this.#applyExtensions()
  }

  /** True when its models and routes are registered, or it has failed. */
  get isRegistered(): boolean {
    return this.#hosted !== undefined || this.#status.phase === 'Failed'
  }

  /** One line for `/readyz?verbose`, which needs no credentials. The reason of a failure is in the Plugin object. */
  get progress(): string {
    if (this.#status.phase === 'Starting') {
      const models = [...this.#progress.values()]
      return ['starting', ...models].join('; ')
    }
    return this.#status.phase === 'Failed' ? 'failed' : 'ok'
  }

  async stop(): Promise<void> {
    this.#stopped.abort()
    await this.#hosted?.stop()
  }

  /** @throws PluginStartError, ModelConflictError or ModelError that names the wrong declaration */
  #registerModels(): void {
    const { models, reservedDomain, routes } = this.#environment
    for (const model of this.#loaded.plugin.models) {
      if (isReservedDomain(model.group, reservedDomain)) {
        const group = model.group === '' ? 'the empty group' : `the group ${JSON.stringify(model.group)}`
        throw new PluginStartError(
          `the kind ${model.kind} uses ${group}, which is reserved for the service (${reservedDomain}); use a sub-domain of your own`,
        )
      }
      const served = this.#compile(model)
      for (const { apiVersion } of served.versions) {
        const clash = routes.clashWith(apiVersion, model.plural, model.kind)
        if (clash !== undefined) throw new PluginStartError(clash)
      }
      models.add(served)
      this.#models.push(served)
    }
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

  async #setup(): Promise<void> {
    const { transport, log, routes, manager, reservedDomain } = this.#environment
    const builtFor = manager && { builtFor: manager }
    const { dir, plugin } = this.#loaded
    const hosted = await setupPlugin(plugin, { transport, log, reservedDomain, ...builtFor }).catch(error => {
      const message = error instanceof Error ? error.message : `it has thrown ${String(error)}`
      const place = placeOf(error, dir)
      const where = place === undefined ? '' : ` (${place})`
      throw new PluginStartError(`its setup has failed: ${message}${where}`, { cause: error })
    })
    this.#hosted = hosted
    for (const name of hosted.unmarkedClasses) {
      this.#problems.push({
        source: `class ${name}`,
        message: 'it is not marked with ApiVersion and is not exposed',
      })
    }
    routes.add(hosted)
  }

  /** Puts the model's unique indexes in force and builds its cache. Waits while the store is unavailable. */
  async #startModel(served: ServedModel): Promise<void> {
    const { registry, storage, follower } = this.#environment
    const { signal } = this.#stopped
    const log = this.#log
    await claimIndexes({
      storage,
      records: registry.records,
      served,
      pluginVersion: this.#loaded.packageVersion,
      log,
      signal,
      onProgress: this.#watchProgress(served, 'the values of its unique indexes are being computed'),
    })
    const report = this.#watchProgress(served, 'its indexes are being built')
    let objects = 0
    const cache = await follower.add(served, signal, count => {
      objects += count
      report(objects)
    })
    log.info({ resource: served.resource, objects: cache.store.size }, 'the indexes are built')
    const indexes = new IndexReport({
      cache,
      registry,
      log,
      signal,
      changed: findings => {
        this.#note(served, findings)
        if (this.#status.phase === 'Started') this.#publish('Started')
      },
    })
    await indexes.report()
    this.#progress.delete(served.resource)
    served.phase = { name: 'Started' }
    this.#watchStored(cache)
  }

  /** Migrates the stored objects to the version in force, and looks for those that violate the schema. */
  #watchStored(cache: ModelCache): void {
    const { registry, storage } = this.#environment
    const { served } = cache
    const { signal } = this.#stopped
    const publish = () => {
      if (this.#status.phase === 'Started') this.#publish('Started')
    }
    const migration = new VersionMigration({
      storage,
      records: registry.records,
      served,
      log: this.#log,
      signal,
      changed: state => {
        this.#migrations.set(served, state)
        publish()
      },
    })
    void migration.run()
    const violations = new StoredViolations({
      cache,
      signal,
      changed: problem => {
        if (problem === undefined) this.#violations.delete(served)
        else this.#violations.set(served, problem)
        publish()
      },
    })
    void violations.run()
  }

  /** Reports progress to `/readyz?verbose` and the log. Returns a function that takes the number of objects read. */
  #watchProgress(served: ServedModel, activity: string): (objects: number) => void {
    const { resource } = served
    let logged = 0
    const note = (objects: number) =>
      this.#progress.set(resource, `${resource}: ${activity}, ${objects} objects so far`)
    note(0)
    return objects => {
      note(objects)
      if (objects < logged) logged = 0
      if (objects - logged < runnerDefaults.progressObjects) return
      logged = objects
      this.#log.info({ resource, objects }, activity)
    }
  }

  #note(served: ServedModel, findings: IndexFindings): void {
    const known = this.#findings.get(served)?.problems ?? []
    for (const problem of findings.problems) {
      const old = known.some(
        ({ source, message }) => source === problem.source && message === problem.message,
      )
      if (!old) this.#log.warn({ ...problem }, 'the indexes have a problem')
    }
    this.#findings.set(served, findings)
  }

  async #applyExtensions(): Promise<void> {
    const { resourcesDir } = this.#loaded
    if (resourcesDir === undefined) return
    const known = [...this.#problems]
    const apply = () =>
      this.#applyOnce(resourcesDir, known).catch(error => {
        if (!this.#stopped.signal.aborted)
          this.#log.error({ err: error }, 'failed to apply the shipped objects')
        return true
      })
    // Objects of another plugin's kind may need several attempts. Starting does not wait for those.
    if (!(await apply())) void this.#applyAgain(apply)
  }

  async #applyAgain(apply: () => Promise<boolean>): Promise<void> {
    const { signal } = this.#stopped
    do {
      await delay(runnerDefaults.extensionsRetryMs, undefined, { signal, ref: false }).catch(() => {})
    } while (!signal.aborted && !(await apply()))
  }

  /** Returns true if no transient problem is left. */
  async #applyOnce(resourcesDir: string, known: readonly ReportedProblem[]): Promise<boolean> {
    const { packageVersion, plugin } = this.#loaded
    const { models, registry, reservedDomain } = this.#environment
    const result = await applyExtensions({
      resourcesDir,
      plugin: plugin.name,
      version: packageVersion,
      reservedDomain,
      writer: new RegistryWriter(models, registry),
      signal: this.#stopped.signal,
    })
    this.#log.info(
      { applied: result.applied, unchanged: result.unchanged, problems: result.problems.length },
      'applied the shipped objects',
    )
    for (const problem of result.problems) this.#log.warn({ ...problem }, 'a shipped object has a problem')
    this.#problems = [...known, ...result.problems.map(describeProblem)]
    this.#publish('Started')
    return !result.problems.some(problem => problem.transient)
  }

  #publish(phase: 'Starting' | 'Started' | 'Failed', why?: string): void {
    const ready = { Starting: 'Unknown', Started: 'True', Failed: 'False' } as const
    const findings = [...this.#findings.values()]
    const notInForce = findings.find(({ standing }) => standing.name !== 'in force')?.standing
    const { reason, message: indexes } =
      notInForce === undefined || notInForce.name === 'in force'
        ? { reason: 'InForce', message: 'its unique indexes are in force' }
        : {
            reason: notInForce.name === 'superseded' ? 'Superseded' : 'Recomputing',
            message: `writes of some of its kinds get 503: ${notInForce.why}`,
          }
    const message =
      why ?? (reason === 'InForce' ? 'its kinds are served' : `its kinds are served, but ${indexes}`)
    const shown = this.#problems.slice(0, runnerDefaults.shownProblems)
    if (this.#problems.length > shown.length) {
      shown.push({
        source: 'more',
        message: `${this.#problems.length - shown.length} further problems are in the log`,
      })
    }
    const status: PluginStatus = {
      ...this.#status,
      phase,
      message,
      conditions: [
        this.#condition('Ready', ready[phase], phase, message),
        ...(phase === 'Started'
          ? [
              this.#condition(
                'UniqueIndexesInForce',
                reason === 'InForce' ? 'True' : 'False',
                reason,
                indexes,
              ),
            ]
          : []),
      ],
      problems: [
        ...shown,
        ...findings.flatMap(({ problems }) => problems),
        ...this.#violations.values(),
        ...[...this.#migrations].flatMap(([served, state]) => failuresOf(served, state)),
      ],
      ...(this.#migrations.size > 0 && {
        migrations: [...this.#migrations].map(([{ model }, { to, total, done, failed }]) => ({
          kind: `${model.plural}.${model.group}`,
          to,
          total,
          done,
          failed,
        })),
      }),
    }
    if (deepEqual(status, this.#status)) return
    this.#status = status
    this.#environment.statuses.publish(this.name, status)
  }

  #condition(type: string, status: 'True' | 'False' | 'Unknown', reason: string, message: string): Condition {
    const previous = this.#status.conditions?.find(condition => condition.type === type)
    const lastTransitionTime =
      previous?.status === status ? previous.lastTransitionTime : new Date().toISOString()
    return { type, status, reason, message, lastTransitionTime }
  }
}

type Condition = NonNullable<PluginStatus['conditions']>[number]

function failuresOf({ resource }: ServedModel, { to, failures }: MigrationState): ReportedProblem[] {
  return failures.map(({ name, message }) => ({
    source: `migration of ${resource} to ${to}`,
    message: `${JSON.stringify(name)} cannot be migrated: ${message}`,
  }))
}

function describeProblem({ file, line, message }: ExtensionProblem): { source: string; message: string } {
  return { source: `${file}:${line}`, message }
}
