import { type Breather, type Clock, systemClock } from '@setpoint/controller-runtime'
import { type Revision, zeroRevision } from '@setpoint/controller-runtime/api'
import type { ServedModel } from '../model/served-model.ts'
import type { Change, KeyValue } from '../storage/index.ts'
import type { Entry } from './entry.ts'
import { decodeEntry, type IndexProblem } from './entry-codec.ts'
import { type CacheEvent, History } from './history.ts'
import { ModelStore } from './model-store.ts'
import { SnapshotShelf } from './snapshot-shelf.ts'

/** Told of every change, after the cache has taken it in. */
export interface CacheObserver {
  changed(event: CacheEvent): void
  /** The cache has been rebuilt and its history lost: what was being followed cannot be followed further. */
  reset(): void
}

/**
 * What a server knows of one model's objects: the objects with their indexes, and the recent changes. Fed by the
 * log follower alone; everything else reads it.
 */
export class ModelCache {
  readonly served: ServedModel
  /** The states that lists were answered from. */
  readonly shelf: SnapshotShelf
  #store: ModelStore
  #history: History
  /** Everything up to here is in. */
  #revision: Revision
  /** What has been loaded and is not yet in the store. */
  #loading: Entry[] = []
  readonly #observers = new Set<CacheObserver>()
  readonly #problems = new Map<string, readonly IndexProblem[]>()
  /** Stored values that are no objects, and therefore not in the store, by name. */
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
    this.shelf = new SnapshotShelf(this, now)
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

  /** Objects that an index function could not handle, or that have unique values which others hold, by name. */
  get problems(): ReadonlyMap<string, readonly IndexProblem[]> {
    return this.#problems
  }

  /** Revisions of the stored values that are no objects, by name: all that the store has and `store` has not. */
  get unreadable(): ReadonlyMap<string, Revision> {
    return this.#unreadable
  }

  /** Revision of the last write of what the store has under a name; undefined where it has nothing. */
  revisionOf(name: string): Revision | undefined {
    return this.#store.get(name)?.revision ?? this.#unreadable.get(name)
  }

  /** Calls back after every change of `problems`. One observer at a time. */
  observeProblems(changed: () => void): void {
    this.#problemsChanged = changed
  }

  observe(observer: CacheObserver): () => void {
    this.#observers.add(observer)
    return () => this.#observers.delete(observer)
  }

  /** Takes in the next object, by key, of the state that the cache starts from. It is there after `finishLoading`. */
  load({ key, value, modRevision }: KeyValue): void {
    const entry = this.#decode(key, value, modRevision)
    if (entry !== undefined) this.#loading.push(entry)
  }

  /** Makes the objects and indexes of what has been loaded, all at once, before anything is applied. */
  async finishLoading(breather: Breather): Promise<void> {
    const entries = this.#loading
    this.#loading = []
    this.#store = await ModelStore.from(this.served.indexes, entries, breather)
  }

  /** Takes in one change of the log; one that is already in is skipped. */
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
   * The change that the store remembers, as an event. What the cache has already is not made a second time.
   * @param before the object before it, where the caller knows it; of one made of the bytes the revision is not known.
   */
  toEvent({ key, value, previous, revision }: Change, before?: Entry): CacheEvent {
    const present = this.#store.get(this.#nameOf(key))
    return {
      revision,
      previous: before ?? (previous && this.#read(key, previous, zeroRevision)?.entry),
      next: present?.revision === revision ? present : value && this.#read(key, value, revision)?.entry,
    }
  }

  /** Lets go of what is kept for others and has grown too old, though nothing has happened since. */
  trim(): void {
    this.#history.trim()
    this.shelf.trim()
    this.#store.trim()
  }

  /** What is here is wrong: whoever follows it is told so at once, before there is something to start over from. */
  distrust(): void {
    this.shelf.clear()
    for (const observer of this.#observers) observer.reset()
  }

  /** Starts over from another state of the store. */
  reset(loaded: ModelCache): void {
    this.#store = loaded.#store
    this.#history = loaded.#history
    this.#revision = loaded.#revision
    this.shelf.clear()
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

  #read(key: string, value: Buffer, revision: Revision): ReturnType<typeof decodeEntry> | undefined {
    try {
      return decodeEntry(this.served, this.#nameOf(key), value, revision)
    } catch (error) {
      this.#onCorrupt(key, error)
      return undefined
    }
  }
}
