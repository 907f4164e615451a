import type { ObjectKey } from '@setpoint/controller-runtime/api'
import type { Yielder } from '@setpoint/controller-runtime/internal'
import { compareCodePoints, IndexSet, noValues } from '../model/index.ts'
import type { CountedTree } from './counted-tree.ts'
import { type Entry, keyOfEntry, tieOf } from './entry.ts'
import {
  createIndexTree,
  createNameTree,
  largestOf,
  type Named,
  type Slot,
  smallestOf,
} from './index-tree.ts'
import { ListIndexes } from './list-indexes.ts'
import { type IndexView, ModelSnapshot } from './model-snapshot.ts'
import { type Pairs, sortPairs } from './pair-sort.ts'
import { finishYielding } from './work.ts'

/**
 * The objects of one model by key, with all their indexes. One writer; readers take snapshots.
 *
 * Guarantees: a write changes the objects and all indexes in one step, and touches only the indexes whose values differ.
 * The time of a snapshot depends only on the number of indexes. A snapshot never changes.
 */
export class ModelStore {
  readonly indexes: IndexSet
  readonly #objects = createNameTree<Entry>()
  /** The index of names, which finds a slot. */
  readonly #slots = new SingleValueIndex()
  readonly #labelKeys = createIndexTree()
  /** By position; the first is `#slots`. */
  readonly #indexes: readonly Index[]
  readonly #listIndexes = new ListIndexes(() => this.size)
  #written = 0
  #snapshot: ModelSnapshot | undefined

  constructor(indexes: IndexSet) {
    this.indexes = indexes
    this.#indexes = indexes.specs.map((spec, position) => {
      if (position === IndexSet.name) return this.#slots
      return spec.multiple ? new MultiValueIndex() : new SingleValueIndex()
    })
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
    await finishYielding(this.#objects.fill(keys, entries), yielder)
    const slots = await this.#slotsOf(entries, yielder)
    for (const [position, index] of this.#indexes.entries()) {
      await yielder.pause()
      await index.fill(slots, position, yielder)
    }
    const pairs = await sortPairs(
      eachPair(slots, slot => Object.keys(slot.entry.labels)),
      yielder,
    )
    await finishYielding(this.#labelKeys.fill(pairs.values, pairs.objects), yielder)
  }

  /** Returns a slot for each entry, by name. The entries are in the order of their keys. */
  async #slotsOf(entries: readonly Entry[], yielder: Yielder): Promise<readonly StoredSlot[]> {
    const slots = entries.map(entry => ({ name: tieOf(entry), entry, written: this.#written }))
    if (!this.indexes.isNamespaced) return slots
    return (await sortPairs({ values: slots.map(({ name }) => name), objects: slots }, yielder)).objects
  }

  get size(): number {
    return this.#objects.size
  }

  get(key: ObjectKey): Entry | undefined {
    return this.#objects.get(key)
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
    if (next === undefined) {
      this.#objects.delete(key)
      if (stored !== undefined) this.#reindex(stored, undefined, previous)
    } else if (stored === undefined) {
      this.#objects.set(key, next)
      this.#reindex({ name: tieOf(next), entry: next, written: this.#written }, next, undefined)
    } else {
      // The first text of a name is kept, so that an object has one.
      this.#objects.set(next.namespace === undefined ? stored.name : key, next)
      stored.entry = next
      stored.written = this.#written
      this.#reindex(stored, next, previous)
    }
  }

  /** Returns the current state. The snapshot is the same until the next write. */
  snapshot(): ModelSnapshot {
    if (this.#snapshot === undefined) {
      this.#snapshot = new ModelSnapshot(
        this.indexes,
        this.#objects.snapshot(),
        this.#indexes.map(index => index.view()),
        this.#labelKeys.snapshot(),
        this.#listIndexes,
        this.#written,
      )
      this.#listIndexes.captured(this.#snapshot)
    }
    return this.#snapshot
  }

  /** Drops unused list indexes. Call it about every 30 seconds. */
  trim(): void {
    this.#listIndexes.trim()
  }

  #reindex(slot: StoredSlot, next: Entry | undefined, previous: Entry | undefined): void {
    this.#listIndexes.changed(slot, next, previous)
    for (let position = 0; position < this.#indexes.length; position++) {
      if (position === IndexSet.name && previous && next) continue
      const before = previous && valuesAt(previous, position)
      const after = next && valuesAt(next, position)
      if (before === after || (before && after && sameValues(before, after))) continue
      this.#indexes[position]?.change(slot, before, after)
      if (position === IndexSet.labels) this.#reindexKeys(slot, next?.labels, previous?.labels)
    }
  }

  #reindexKeys(
    slot: StoredSlot,
    after: Entry['labels'] = noLabels,
    before: Entry['labels'] = noLabels,
  ): void {
    for (const key in before) if (!Object.hasOwn(after, key)) this.#labelKeys.delete(key, slot)
    for (const key in after) if (!Object.hasOwn(before, key)) this.#labelKeys.set(key, slot)
  }
}

const noLabels: Entry['labels'] = Object.freeze({})

/** A slot that only the store may change. */
interface StoredSlot extends Slot {
  entry: Entry
  written: number
}

function valuesAt(entry: Entry, position: number): readonly string[] {
  // The store relies on the index of names, so it does not use the model's function.
  return position === IndexSet.name ? [entry.name] : (entry.values[position] ?? noValues)
}

interface Index {
  /** Changes the object's values. They are undefined if it does not exist before or after. */
  change(slot: StoredSlot, before: readonly string[] | undefined, after: readonly string[] | undefined): void
  /** Fills the empty index at `position` with all objects, in the order of their names. */
  fill(slots: readonly StoredSlot[], position: number, yielder: Yielder): Promise<void>
  view(): IndexView
}

/** Returns the pairs of every object with each of its distinct values. */
function eachPair<T>(objects: readonly T[], valuesOf: (object: T) => readonly string[]): Pairs<T> {
  const pairs: { values: string[]; objects: T[] } = { values: [], objects: [] }
  for (const object of objects) {
    const values = valuesOf(object)
    for (const value of values.length < 2 ? values : new Set(values)) {
      pairs.values.push(value)
      pairs.objects.push(object)
    }
  }
  return pairs
}

class SingleValueIndex implements Index {
  readonly #tree = createIndexTree<StoredSlot>()

  /** Finds an object in the index of names. */
  find(entry: Entry): StoredSlot | undefined {
    const name = tieOf(entry)
    return this.#tree.get(entry.name, { name })
  }

  change(
    slot: StoredSlot,
    before: readonly string[] | undefined,
    after: readonly string[] | undefined,
  ): void {
    if (before !== undefined) this.#tree.delete(before[0], slot)
    if (after !== undefined) this.#tree.set(after[0], slot)
  }

  async fill(slots: readonly StoredSlot[], position: number, yielder: Yielder): Promise<void> {
    const values = slots.map(slot => valuesAt(slot.entry, position)[0])
    // Names are in order already.
    const pairs = { values, objects: slots }
    const sorted = position === IndexSet.name ? pairs : await sortPairs(pairs, yielder)
    await finishYielding(this.#tree.fill(sorted.values, sorted.objects), yielder)
  }

  view(): IndexView {
    const tree = this.#tree.snapshot()
    return { values: tree, smallest: tree, largest: tree }
  }
}

class MultiValueIndex implements Index {
  readonly #values = createIndexTree()
  readonly #smallest = createIndexTree()
  readonly #largest = createIndexTree()

  change(
    slot: StoredSlot,
    before: readonly string[] | undefined,
    after: readonly string[] | undefined,
  ): void {
    const { start, fromEnd } = commonEnds(before, after)
    const left = new Set(before?.slice(start, before.length - fromEnd))
    for (const value of new Set(after?.slice(start, after.length - fromEnd)))
      if (!left.delete(value)) this.#values.set(value, slot)
    for (const value of left) this.#values.delete(value, slot)
    move(this.#smallest, slot, before && { value: smallestOf(before) }, after && { value: smallestOf(after) })
    move(this.#largest, slot, before && { value: largestOf(before) }, after && { value: largestOf(after) })
  }

  async fill(slots: readonly StoredSlot[], position: number, yielder: Yielder): Promise<void> {
    const valuesOf = (slot: StoredSlot) => valuesAt(slot.entry, position)
    const smallest = await sortPairs(
      { values: slots.map(slot => smallestOf(valuesOf(slot))), objects: slots },
      yielder,
    )
    await finishYielding(this.#smallest.fill(smallest.values, smallest.objects), yielder)
    // If no object has two values, all orders are the same, with objects without a value at the end.
    if (slots.every(slot => valuesOf(slot).length < 2)) {
      await finishYielding(this.#largest.fill(smallest.values, smallest.objects), yielder)
      const missing = smallest.values.indexOf(undefined)
      const count = missing < 0 ? slots.length : missing
      await finishYielding(
        this.#values.fill(smallest.values.slice(0, count), smallest.objects.slice(0, count)),
        yielder,
      )
      return
    }
    await yielder.pause()
    const largest = await sortPairs(
      { values: slots.map(slot => largestOf(valuesOf(slot))), objects: slots },
      yielder,
    )
    await finishYielding(this.#largest.fill(largest.values, largest.objects), yielder)
    await yielder.pause()
    const each = await sortPairs(eachPair(slots, valuesOf), yielder)
    await finishYielding(this.#values.fill(each.values, each.objects), yielder)
  }

  view(): IndexView {
    return {
      values: this.#values.snapshot(),
      smallest: this.#smallest.snapshot(),
      largest: this.#largest.snapshot(),
    }
  }
}

/** Returns how many values two lists have in common at their start and at their end. Most changes leave most values. */
function commonEnds(
  before: readonly string[] = noValues,
  after: readonly string[] = noValues,
): { start: number; fromEnd: number } {
  const length = Math.min(before.length, after.length)
  let start = 0
  while (start < length && before[start] === after[start]) start++
  let fromEnd = 0
  while (fromEnd < length - start && before.at(-1 - fromEnd) === after.at(-1 - fromEnd)) fromEnd++
  return { start, fromEnd }
}

function move(
  tree: CountedTree<string, Slot, Named>,
  slot: Slot,
  before: { value: string | undefined } | undefined,
  after: { value: string | undefined } | undefined,
): void {
  if (before && after && before.value === after.value) return
  if (before) tree.delete(before.value, slot)
  if (after) tree.set(after.value, slot)
}

function sameValues(left: readonly string[], right: readonly string[]): boolean {
  if (left.length !== right.length) return false
  for (let at = 0; at < left.length; at++) if (left[at] !== right[at]) return false
  return true
}
