import { type Logger, systemClock } from '@setpoint/controller-runtime'
import { type LogFollower, type ModelCache, UnconvertedObjects } from '../cache/index.ts'
import type { ServedModel } from '../model/index.ts'
import type { Registry } from '../registry/index.ts'
import type { Storage } from '../storage/index.ts'
import type { WatchHub } from '../watch/index.ts'
import { checkStored, claimIndexes } from './index-claim.ts'
import { type IndexFindings, IndexReport, type ReportedProblem } from './index-report.ts'
import { StoredViolations } from './stored-violations.ts'
import { type MigrationState, VersionMigration } from './version-migration.ts'

export const kindRunnerDefaults = Object.freeze({
  /** Objects between two log lines about the building of indexes. */
  progressObjects: 50_000,
  /** Milliseconds from which the log says that the indexes are built. Otherwise every kind has a line at each start. */
  slowBuildMs: 1_000,
})

interface KindRunnerParts {
  readonly served: ServedModel
  /** The version of the plugin's package. */
  readonly pluginVersion: string | undefined
  readonly storage: Storage
  readonly registry: Registry
  readonly follower: LogFollower
  readonly hub: WatchHub
  readonly log: Logger
  /** Called after `findings`, `migration` or `violation` may have changed. */
  readonly changed: () => void
}

/** One kind of a plugin while the plugin runs: its unique indexes, its cache, and the checks of its stored objects. */
export class KindRunner {
  readonly served: ServedModel
  readonly #parts: KindRunnerParts
  readonly #stopped = new AbortController()
  #cache: ModelCache | undefined
  #findings: IndexFindings | undefined
  #migration: MigrationState | undefined
  #violation: ReportedProblem | undefined
  #progress: string | undefined

  constructor(parts: KindRunnerParts) {
    this.served = parts.served
    this.#parts = parts
  }

  /** The state of its indexes, once it has started. */
  get findings(): IndexFindings | undefined {
    return this.#findings
  }

  /** The migration of its objects to another stored version, if there is one. */
  get migration(): MigrationState | undefined {
    return this.#migration
  }

  /** The stored objects that violate its schema, if there are any. */
  get violation(): ReportedProblem | undefined {
    return this.#violation
  }

  /** Its activity while it is starting. */
  get progress(): string | undefined {
    return this.#progress
  }

  /** Serves the kind, after `build` if that has not been done. @throws as `build` */
  async start(): Promise<void> {
    if (this.#cache === undefined) await this.build()
    this.serveIfBuilt()
  }

  serveIfBuilt(): void {
    if (this.#cache === undefined || this.#stopped.signal.aborted) return
    this.served.phase = { name: 'Started' }
    this.#watchStored(this.#cache)
  }

  /**
   * Checks that the kind can be built, and changes nothing. Waits while the store is unavailable.
   * @throws UnreadableVersionError, ScopeChangedError; when stopped
   */
  check(): Promise<void> {
    return checkStored(this.#claim)
  }

  /**
   * Puts the unique indexes in force and builds the cache. Another declaration of the same kind may be served
   * meanwhile. Waits while the store is unavailable.
   * @throws as `check`
   */
  async build(): Promise<void> {
    const { served, registry, follower, log } = this.#parts
    const { signal } = this.#stopped
    const begun = systemClock.monotonic()
    await claimIndexes({
      ...this.#claim,
      onProgress: this.#watchProgress('the values of its unique indexes are being computed'),
    })
    const cache = await follower.add(served, signal, this.#watchProgress('its indexes are being built'))
    if (served.defined?.converter !== undefined) await new UnconvertedObjects(cache).begin(signal)
    const tookMs = Math.round(systemClock.monotonic() - begun)
    const built = { resource: served.resource, objects: cache.store.size, tookMs }
    log[tookMs < kindRunnerDefaults.slowBuildMs ? 'debug' : 'info'](built, 'the indexes are built')
    const indexes = new IndexReport({
      cache,
      registry,
      log,
      signal,
      changed: findings => this.#note(findings),
    })
    await indexes.report()
    signal.throwIfAborted()
    this.#progress = undefined
    this.#cache = cache
  }

  /**
   * Puts the unique indexes and the stored version in force again, after another server has put others in
   * force. @throws when stopped
   */
  async claimAgain(): Promise<void> {
    await claimIndexes(this.#claim)
  }

  get #claim() {
    const { served, pluginVersion, registry, storage, log } = this.#parts
    return { storage, records: registry.records, served, pluginVersion, log, signal: this.#stopped.signal }
  }

  /** Migrates the stored objects to the version in force, and looks for those that violate the schema. */
  #watchStored(cache: ModelCache): void {
    const { served, registry, storage, log, changed } = this.#parts
    const { signal } = this.#stopped
    const migration = new VersionMigration({
      storage,
      records: registry.records,
      served,
      log,
      signal,
      changed: state => {
        this.#migration = state
        changed()
      },
    })
    // In Kubernetes, objects of a definition keep their stored version until they are written.
    if (served.defined === undefined) void migration.run()
    else if (served.defined.converter !== undefined) new UnconvertedObjects(cache).follow(signal)
    const violations = new StoredViolations({
      cache,
      signal,
      changed: problem => {
        this.#violation = problem
        changed()
      },
    })
    void violations.run()
  }

  /**
   * Ends the watches with 1013 and drops the cache. From then on the kind responds with 503 and `why`, except to writes
   * that delete objects or remove finalizers.
   */
  stop(why: string): void {
    const { served, follower, hub } = this.#parts
    served.phase = { name: 'Stopped', message: why }
    this.#stopped.abort()
    this.#cache = undefined
    this.#progress = undefined
    this.#findings = undefined
    this.#migration = undefined
    this.#violation = undefined
    const cache = follower.cacheOf(served)
    follower.remove(served)
    if (cache !== undefined) hub.drop(cache)
  }

  /** Stops the work in the background, when the server stops. */
  abort(): void {
    this.#stopped.abort()
  }

  /** Reports progress to `/readyz?verbose` and the log. Returns a function that takes the number of objects read. */
  #watchProgress(activity: string): (objects: number) => void {
    const { resource } = this.served
    let logged = 0
    const note = (objects: number) => {
      this.#progress = `${resource}: ${activity}, ${objects} objects so far`
    }
    note(0)
    return objects => {
      note(objects)
      if (objects < logged) logged = 0
      if (objects - logged < kindRunnerDefaults.progressObjects) return
      logged = objects
      this.#parts.log.info({ resource, objects }, activity)
    }
  }

  #note(findings: IndexFindings): void {
    const known = this.#findings?.problems ?? []
    for (const problem of findings.problems) {
      const old = known.some(
        ({ source, message }) => source === problem.source && message === problem.message,
      )
      if (!old) this.#parts.log.warn({ ...problem }, 'the indexes have a problem')
    }
    this.#findings = findings
    this.#parts.changed()
  }
}
