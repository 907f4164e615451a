import type { ObjectKey } from '@setpoint/controller-runtime/api'
import type { Yielder } from '@setpoint/controller-runtime/internal'
import { compareCodePoints, IndexSet } from '../model/index.ts'
import { type Entry, keyOfEntry, tieOf } from './entry.ts'
import { first, type Slot } from './index-tree.ts'
import { ListIndexes } from './list-indexes.ts'
import type { ModelSnapshot } from './model-snapshot.ts'
import { ModelTrees, SingleValueIndex } from './model-trees.ts'
import { NamespaceUsages } from './namespace-usage.ts'
import { sortPairs } from './pair-sort.ts'

/**
 * The objects of one model by key, with all their indexes. One writer; readers take snapshots.
 *
 * Guarantees: a write changes the objects and all indexes in one step, and touches only the indexes whose values
 * differ. The time of a snapshot depends only on the number of indexes. A snapshot never changes.
 */
export class ModelStore {
  readonly indexes: IndexSet
  /** What each namespace holds. */
  readonly usages = new NamespaceUsages()
  /** The index of names, which finds a slot. */
  readonly #slots = new SingleValueIndex<StoredSlot>()
  readonly #trees: ModelTrees<StoredSlot>
  readonly #listIndexes = new ListIndexes(() => this.size)
  #written = 0
  #snapshot: ModelSnapshot | undefined

  constructor(indexes: IndexSet) {
    this.indexes = indexes
    this.#trees = new ModelTrees(indexes, this.#slots)
  }

  /**
   * Builds a store of these entries faster than `apply` would, since every index is sorted once.
   * @throws RangeError if the keys do not ascend
   */
  static async from(indexes: IndexSet, entries: readonly Entry[], yielder: Yielder): Promise<ModelStore> {
    const store = new ModelStore(indexes)
    await store.#fill(entries, yielder)
    return store
  }

  async #fill(entries: readonly Entry[], yielder: Yielder): Promise<void> {
    this.#written++
    const keys = entries.map(keyOfEntry)
    keys.forEach((key, at) => {
      const before = keys[at - 1]
      if (before !== undefined && compareCodePoints(before, key) >= 0)
        throw new RangeError(`model store: ${key} comes after ${before}`)
    })
    for (const entry of entries) {
      this.usages.changed(entry, undefined)
      const pause = yielder.pause()
      if (pause !== undefined) await pause
    }
    await this.#trees.fill(keys, entries, await this.#slotsOf(entries, yielder), yielder)
  }

  /** Returns a slot for each entry, by name. The entries are in the order of their keys. */
  async #slotsOf(entries: readonly Entry[], yielder: Yielder): Promise<readonly StoredSlot[]> {
    const slots = entries.map(entry => ({ name: tieOf(entry), entry, written: this.#written }))
    if (!this.indexes.isNamespaced) return slots
    return (await sortPairs({ values: slots.map(({ name }) => name), objects: slots }, yielder)).objects
  }

  get size(): number {
    return this.#trees.objects.size
  }

  /** The objects that wait for their deletion, and the `deletionTimestamp` of the one that has waited longest. */
  get deletions(): { readonly objects: number; readonly oldest: string | undefined } {
    const { values } = this.snapshot().view(IndexSet.deletionTimestamp)
    return { objects: values.rank(undefined, first), oldest: values.keyAt(0) }
  }

  get(key: ObjectKey): Entry | undefined {
    return this.#trees.objects.get(key)
  }

  /**
   * Replaces `previous` by `next`. Without `previous` it adds, without `next` it removes.
   * @throws Error if `previous` is not the stored entry: the indexes would no longer agree with the objects
   */
  apply(next: Entry | undefined, previous: Entry | undefined): void {
    const entry = next ?? previous
    if (entry === undefined) return
    const key = keyOfEntry(entry)
    if (previous !== undefined && keyOfEntry(previous) !== key) {
      throw new Error(`model store: ${keyOfEntry(previous)} cannot become ${key}`)
    }
    const stored = this.#slots.find(entry)
    if (stored?.entry !== previous) {
      throw new Error(`model store: ${key} is not what it is said to have been`)
    }
    this.#snapshot = undefined
    this.#written++
    this.usages.changed(next, previous)
    if (next === undefined) {
      this.#trees.objects.delete(key)
      if (stored !== undefined) this.#reindex(stored, undefined, previous)
    } else if (stored === undefined) {
      this.#trees.objects.set(key, next)
      this.#reindex({ name: tieOf(next), entry: next, written: this.#written }, next, undefined)
    } else {
      // The first text of a name is kept, so that an object has one.
      this.#trees.objects.set(next.namespace === undefined ? stored.name : key, next)
      stored.entry = next
      stored.written = this.#written
      this.#reindex(stored, next, previous)
    }
  }

  /** Returns the current state. The snapshot is the same until the next write. */
  snapshot(): ModelSnapshot {
    if (this.#snapshot === undefined) {
      this.#snapshot = this.#trees.snapshot(this.#listIndexes, this.#written)
      this.#listIndexes.captured(this.#snapshot)
    }
    return this.#snapshot
  }

  #reindex(slot: StoredSlot, next: Entry | undefined, previous: Entry | undefined): void {
    this.#listIndexes.changed(slot, next, previous)
    this.#trees.reindex(slot, next, previous)
  }

  /** Drops unused list indexes. Call it about every 30 seconds. */
  trim(): void {
    this.#listIndexes.trim()
  }
}

/** A slot that only the store may change. */
interface StoredSlot extends Slot {
  entry: Entry
  written: number
}
