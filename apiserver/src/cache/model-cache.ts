import { type Clock, systemClock } from '@setpoint/controller-runtime'
import { type ApiError, type ObjectKey, type Revision, zeroRevision } from '@setpoint/controller-runtime/api'
import type { Yielder } from '@setpoint/controller-runtime/internal'
import type { Allocate, ConversionError, ServedModel, ServedVersion } from '../model/index.ts'
import { type Change, type KeyValue, StoreUnavailableError, undecrypted } from '../storage/index.ts'
import { ConvertedViews } from './converted-views.ts'
import { type Entry, keyOfEntry, mayBeConverted, unknownVersionOf } from './entry.ts'
import { convertedEntry, decodeEntry, entryDefaults, type IndexProblem } from './entry-codec.ts'
import { type CacheEvent, History } from './history.ts'
import { ModelStore } from './model-store.ts'
import { SnapshotCache } from './snapshot-cache.ts'

/** Is notified after each change of a cache. */
interface CacheObserver {
  changed(event: CacheEvent): void
  /** The cache was replaced and its history lost: watches of it must end. */
  reset(): void
}

/** A stored value that could not be decrypted or decoded. */
export interface UnreadableValue {
  readonly revision: Revision
  /** A clause about the value, such as `is malformed`. */
  readonly problem: string
  /** True if it could be read with another key. */
  readonly isEncrypted: boolean
}

/** The objects of one model with their indexes and recent changes. Only the log follower writes to it. */
export class ModelCache {
  readonly served: ServedModel
  /** Snapshots that lists were served from. */
  readonly snapshots: SnapshotCache
  readonly #views: ConvertedViews
  #store: ModelStore
  #history: History
  /** Every change up to this revision has been applied. */
  #revision: Revision
  /** Loaded entries that are not in the model store yet. */
  #loading: Entry[] = []
  readonly #observers = new Set<CacheObserver>()
  readonly #problems = new Map<ObjectKey, readonly IndexProblem[]>()
  readonly #unconverted = new Set<ObjectKey>()
  #unknownVersion: ApiError | undefined
  readonly #unreadable = new Map<ObjectKey, UnreadableValue>()
  #problemsChanged: () => void = () => {}
  readonly #onCorrupt: (key: string, error: unknown) => void
  readonly #now: () => number

  constructor(
    served: ServedModel,
    revision: Revision,
    onCorrupt: (key: string, error: unknown) => void,
    clock: Clock = systemClock,
  ) {
    const now = () => clock.monotonic()
    this.#now = now
    this.served = served
    this.#views = new ConvertedViews(served, (entry, error) => this.#noteFailure(entry, error))
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
   * @throws ConversionError; ConversionNeeded if `prepareViews` must find the outcome; ApiError 503 if the object is
   * stored in a
   *   version that this server does not know
   */
  bytesOf(entry: Entry, version: ServedVersion): Buffer {
    const { unconverted } = entry
    if (unconverted?.apiVersion === version.apiVersion) return entry.bytes
    if (unconverted !== undefined && !mayBeConverted(entry)) throw unconverted.error
    return version.isHub && unconverted === undefined ? entry.bytes : this.#views.bytesOf(entry, version)
  }

  /** Objects whose index function or conversion failed, or whose unique values others hold, by key. */
  get problems(): ReadonlyMap<ObjectKey, readonly IndexProblem[]> {
    return this.#problems
  }

  /** The keys of the objects that a webhook has not converted to the hub. They can be converted later. */
  get unconverted(): ReadonlySet<ObjectKey> {
    return this.#unconverted
  }

  /**
   * Set from when an object was stored in a version that the plugin does not declare, as by a newer release on another
   * server. This server cannot tell whether a selector of declared indexes selects the object, so it refuses those,
   * also when the object has gone: states and changes from before are still asked for.
   */
  get unknownVersion(): ApiError | undefined {
    return this.#unknownVersion
  }

  /** The stored values that could not be decrypted or decoded, by key. They are not in `store`. */
  get unreadable(): ReadonlyMap<ObjectKey, UnreadableValue> {
    return this.#unreadable
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
  load(pair: KeyValue): void {
    // All of them are kept, so they share blocks of memory. An object that changes later leaves one.
    const entry = this.#decode(pair.key, pair, pair.modRevision, Buffer.allocUnsafe)
    if (entry !== undefined) this.#loading.push(entry)
  }

  /** Builds the objects and indexes from the loaded entries. Call it once, before the first `apply`. */
  async finishLoading(yielder: Yielder): Promise<void> {
    const entries = this.#loading
    this.#loading = []
    this.#store = await ModelStore.from(this.served.indexes, entries, yielder)
  }

  /**
   * Applies one change of the log. Skips a change that has been applied already.
   * @throws what an observer throws, once all have been notified. That observer may have missed the change.
   *   StoreUnavailableError, before anything is changed, if the value cannot be decrypted now
   */
  apply(change: Change): void {
    if (change.revision <= this.#revision) return
    if (change.failure instanceof StoreUnavailableError) throw change.failure
    const key = this.#keyIn(change.key)
    const previous = this.#store.get(key)
    const { value, failure } = change
    const next = value && this.#decode(change.key, { value, failure }, change.revision)
    if (change.value === undefined) this.#unreadable.delete(key)
    if (next === undefined) this.#forget(key)
    this.#revision = change.revision
    if (previous === undefined && next === undefined) return
    this.#store.apply(next, previous)
    const event: CacheEvent = { revision: change.revision, previous, next }
    this.#history.push(event)
    this.snapshots.changed(event)
    let fault: { readonly error: unknown } | undefined
    for (const observer of this.#observers) {
      try {
        observer.changed(event)
      } catch (error) {
        fault ??= { error }
      }
    }
    if (fault !== undefined) throw fault.error
  }

  /**
   * Returns a change of the store's history as an event. Reuses the cache's entry if it is the same version.
   * @param before the previous version, if the caller knows it. One decoded from the change has no revision.
   * @throws StoreUnavailableError if the values cannot be decrypted now
   */
  toEvent({ key, value, previous, revision, failure }: Change, before?: Entry): CacheEvent {
    if (failure instanceof StoreUnavailableError) throw failure
    const present = this.#store.get(this.#keyIn(key))
    return {
      revision,
      previous: before ?? (previous && entryIn(this.#read(key, { value: previous }, zeroRevision))),
      next:
        present?.revision === revision
          ? present
          : value && entryIn(this.#read(key, { value, failure }, revision)),
    }
  }

  /** Evicts snapshots, history and indexes that have grown too old. */
  trim(): void {
    this.#history.trim()
    this.snapshots.trim()
    this.#store.trim()
  }

  /**
   * Replaces an entry that could not be converted to the hub. No change of the log tells of it: `restart` must follow.
   * @param view its wire JSON at the hub
   */
  replaceConverted(entry: Entry, view: Buffer): void {
    const key = keyOfEntry(entry)
    if (this.#store.get(key) !== entry) return
    const { entry: next, problems } = convertedEntry(this.served, entry, view)
    this.#store.apply(next, entry)
    this.#unconverted.delete(key)
    this.#note(key, problems)
  }

  /** Ends every watch, and forgets the states before the present one. */
  restart(): void {
    this.#history = new History(this.#revision, this.#now)
    this.distrust()
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
    this.#unknownVersion = loaded.#unknownVersion
    this.snapshots.clear()
    this.#unreadable.clear()
    for (const [key, value] of loaded.#unreadable) this.#unreadable.set(key, value)
    this.#problems.clear()
    for (const [key, problems] of loaded.#problems) this.#problems.set(key, problems)
    this.#unconverted.clear()
    for (const key of loaded.#unconverted) this.#unconverted.add(key)
    this.#problemsChanged()
    for (const observer of this.#observers) observer.reset()
  }

  /** Returns the object's key in a key of the store. */
  #keyIn(storeKey: string): ObjectKey {
    return storeKey.slice(this.served.keyPrefix.length)
  }

  #decode(storeKey: string, stored: StoredValue, revision: Revision, allocate?: Allocate): Entry | undefined {
    const key = this.#keyIn(storeKey)
    const decoded = this.#read(storeKey, stored, revision, allocate)
    if (decoded.problem !== undefined) {
      const { problem, isEncrypted } = decoded
      this.#unreadable.set(key, { revision, problem, isEncrypted })
      this.#forget(key)
      return undefined
    }
    this.#unreadable.delete(key)
    this.#note(key, decoded.problems)
    if (mayBeConverted(decoded.entry)) this.#unconverted.add(key)
    else this.#unconverted.delete(key)
    return decoded.entry
  }

  #forget(key: ObjectKey): void {
    this.#unconverted.delete(key)
    this.#note(key, undefined)
  }

  #note(key: ObjectKey, problems: readonly IndexProblem[] | undefined): void {
    if (problems !== undefined && problems.length > 0) this.#problems.set(key, problems)
    else if (!this.#problems.delete(key)) return
    this.#problemsChanged()
  }

  /** Adds the failure to the problems of an object until its next change. */
  #noteFailure(entry: Entry, { to: version, problem }: ConversionError): void {
    const key = keyOfEntry(entry)
    if (this.#store.get(key)?.revision !== entry.revision) return
    const known = this.#problems.get(key) ?? []
    if (known.some(each => each.kind === 'conversion' && each.version === version)) return
    const message = problem.slice(0, entryDefaults.messageLength)
    this.#note(key, [...known, { kind: 'conversion', version, message }])
  }

  #read(storeKey: string, stored: StoredValue, revision: Revision, allocate?: Allocate): Decoded {
    const failure = undecrypted(stored)
    if (failure !== undefined) {
      this.#onCorrupt(storeKey, failure)
      return { problem: failure.message, isEncrypted: true }
    }
    try {
      const decoded = decodeEntry(this.served, this.#keyIn(storeKey), stored.value, revision, allocate)
      // A definition may give up a version that objects are stored in.
      if (this.served.defined === undefined) this.#unknownVersion ??= unknownVersionOf(decoded.entry)
      return decoded
    } catch (error) {
      this.#onCorrupt(storeKey, error)
      return { problem: 'is malformed', isEncrypted: false }
    }
  }
}

type StoredValue = Pick<KeyValue, 'value'> & { readonly failure?: KeyValue['failure'] | undefined }

type Decoded =
  | (Omit<ReturnType<typeof decodeEntry>, 'problem'> & { readonly problem?: undefined })
  | Pick<UnreadableValue, 'problem' | 'isEncrypted'>

function entryIn(decoded: Decoded): Entry | undefined {
  return decoded.problem === undefined ? decoded.entry : undefined
}
