import { type Clock, systemClock } from '@setpoint/controller-runtime'
import { type Revision, zeroRevision } from '@setpoint/controller-runtime/api'
import type { Yielder } from '@setpoint/controller-runtime/internal'
import type { ConversionError, ServedModel, ServedVersion } from '../model/index.ts'
import type { Change, KeyValue } from '../storage/index.ts'
import { ConvertedViews } from './converted-views.ts'
import type { Entry } from './entry.ts'
import { decodeEntry, entryDefaults, type IndexProblem } from './entry-codec.ts'
import { type CacheEvent, History } from './history.ts'
import { ModelStore } from './model-store.ts'
import { SnapshotCache } from './snapshot-cache.ts'

/** Is notified after each change of a cache. */
interface CacheObserver {
  changed(event: CacheEvent): void
  /** The cache was replaced and its history lost: watches of it must end. */
  reset(): void
}

/** The objects of one model with their indexes and recent changes. Only the log follower writes to it. */
export class ModelCache {
  readonly served: ServedModel
  /** Snapshots that lists were served from. */
  readonly snapshots: SnapshotCache
  readonly #views = new ConvertedViews((entry, error) => this.#noteFailure(entry, error))
  #store: ModelStore
  #history: History
  /** Every change up to this revision has been applied. */
  #revision: Revision
  /** Loaded entries that are not in the model store yet. */
  #loading: Entry[] = []
  readonly #observers = new Set<CacheObserver>()
  readonly #problems = new Map<string, readonly IndexProblem[]>()
  /** Revisions of the stored values that could not be decoded, by name. */
  readonly #unreadable = new Map<string, Revision>()
  #problemsChanged: () => void = () => {}
  readonly #onCorrupt: (key: string, error: unknown) => void

  constructor(
    served: ServedModel,
    revision: Revision,
    onCorrupt: (key: string, error: unknown) => void,
    clock: Clock = systemClock,
  ) {
    const now = () => clock.monotonic()
    this.served = served
    this.snapshots = new SnapshotCache(this, now)
    this.#store = new ModelStore(served.indexes)
    this.#history = new History(revision, now)
    this.#revision = revision
    this.#onCorrupt = onCorrupt
  }

  get revision(): Revision {
    return this.#revision
  }
  get store(): ModelStore {
    return this.#store
  }
  get history(): History {
    return this.#history
  }

  /**
   * Returns the wire JSON of an entry of this cache in a version.
   * @throws ConversionError; ApiError 503 if the object is stored in a version that this server does not know
   */
  bytesOf(entry: Entry, version: ServedVersion): Buffer {
    const { unconverted } = entry
    if (unconverted !== undefined) {
      if (unconverted.apiVersion === version.apiVersion) return entry.bytes
      throw unconverted.error
    }
    return version.isHub ? entry.bytes : this.#views.bytesOf(entry, version)
  }

  /** Objects whose index function or conversion failed, or whose unique values others hold, by name. */
  get problems(): ReadonlyMap<string, readonly IndexProblem[]> {
    return this.#problems
  }

  /** Revisions of the stored values that could not be decoded, by name. They are not in `store`. */
  get unreadable(): ReadonlyMap<string, Revision> {
    return this.#unreadable
  }

  /** Returns the revision of the last write under a name, or undefined if the name does not exist. */
  revisionOf(name: string): Revision | undefined {
    return this.#store.get(name)?.revision ?? this.#unreadable.get(name)
  }

  /** Calls back after each change of `problems`. A second call replaces the observer. */
  observeProblems(changed: () => void): void {
    this.#problemsChanged = changed
  }

  observe(observer: CacheObserver): () => void {
    this.#observers.add(observer)
    return () => this.#observers.delete(observer)
  }

  /** Loads the next object, in the order of keys. It becomes visible with `finishLoading`. */
  load({ key, value, modRevision }: KeyValue): void {
    const entry = this.#decode(key, value, modRevision)
    if (entry !== undefined) this.#loading.push(entry)
  }

  /** Builds the objects and indexes from the loaded entries. Call it once, before the first `apply`. */
  async finishLoading(yielder: Yielder): Promise<void> {
    const entries = this.#loading
    this.#loading = []
    this.#store = await ModelStore.from(this.served.indexes, entries, yielder)
  }

  /** Applies one change of the log. Skips a change that has been applied already. */
  apply(change: Change): void {
    if (change.revision <= this.#revision) return
    const name = this.#nameOf(change.key)
    const previous = this.#store.get(name)
    const next = change.value && this.#decode(change.key, change.value, change.revision)
    if (change.value === undefined) this.#unreadable.delete(name)
    if (next === undefined) this.#note(name, undefined)
    this.#revision = change.revision
    if (previous === undefined && next === undefined) return
    this.#store.apply(next, previous)
    const event: CacheEvent = { revision: change.revision, previous, next }
    this.#history.push(event)
    for (const observer of this.#observers) observer.changed(event)
  }

  /**
   * Returns a change of the store's history as an event. Reuses the cache's entry if it is the same version.
   * @param before the previous version, if the caller knows it. One decoded from the change has no revision.
   */
  toEvent({ key, value, previous, revision }: Change, before?: Entry): CacheEvent {
    const present = this.#store.get(this.#nameOf(key))
    return {
      revision,
      previous: before ?? (previous && this.#read(key, previous, zeroRevision)?.entry),
      next: present?.revision === revision ? present : value && this.#read(key, value, revision)?.entry,
    }
  }

  /** Evicts snapshots, history and indexes that have grown too old. */
  trim(): void {
    this.#history.trim()
    this.snapshots.trim()
    this.#store.trim()
  }

  /** Ends every watch at once, because the cache is known to be wrong. `reset` follows. */
  distrust(): void {
    this.snapshots.clear()
    for (const observer of this.#observers) observer.reset()
  }

  /** Replaces the state and ends every watch. */
  reset(loaded: ModelCache): void {
    this.#store = loaded.#store
    this.#history = loaded.#history
    this.#revision = loaded.#revision
    this.snapshots.clear()
    this.#unreadable.clear()
    for (const [name, revision] of loaded.#unreadable) this.#unreadable.set(name, revision)
    this.#problems.clear()
    for (const [name, problems] of loaded.#problems) this.#problems.set(name, problems)
    this.#problemsChanged()
    for (const observer of this.#observers) observer.reset()
  }

  #nameOf(key: string): string {
    return key.slice(this.served.keyPrefix.length)
  }

  #decode(key: string, value: Buffer, revision: Revision): Entry | undefined {
    const name = this.#nameOf(key)
    const decoded = this.#read(key, value, revision)
    if (decoded === undefined) this.#unreadable.set(name, revision)
    else this.#unreadable.delete(name)
    this.#note(name, decoded?.problems)
    return decoded?.entry
  }

  #note(name: string, problems: readonly IndexProblem[] | undefined): void {
    if (problems !== undefined && problems.length > 0) this.#problems.set(name, problems)
    else if (!this.#problems.delete(name)) return
    this.#problemsChanged()
  }

  /** Adds the failure to the problems of an object until its next change. */
  #noteFailure({ name, revision }: Entry, { to: version, problem }: ConversionError): void {
    if (this.#store.get(name)?.revision !== revision) return
    const known = this.#problems.get(name) ?? []
    if (known.some(each => each.kind === 'conversion' && each.version === version)) return
    const message = problem.slice(0, entryDefaults.messageLength)
    this.#note(name, [...known, { kind: 'conversion', version, message }])
  }

  #read(key: string, value: Buffer, revision: Revision): ReturnType<typeof decodeEntry> | undefined {
    try {
      return decodeEntry(this.served, this.#nameOf(key), value, revision)
    } catch (error) {
      this.#onCorrupt(key, error)
      return undefined
    }
  }
}
