import type { ObjectKey } from '@setpoint/controller-runtime/api'
import type { Yielder } from '@setpoint/controller-runtime/internal'
import { IndexSet, noValues, valuesAt } from '../model/index.ts'
import { finishYielding } from '../scheduling/index.ts'
import type { CountedTree } from './counted-tree.ts'
import type { CountedTreeView } from './counted-tree-view.ts'
import { type Entry, tieOf } from './entry.ts'
import {
  createIndexTree,
  createNameTree,
  largestOf,
  type Named,
  type Slot,
  smallestOf,
} from './index-tree.ts'
import type { ListIndexes } from './list-indexes.ts'
import { type IndexView, ModelSnapshot } from './model-snapshot.ts'
import { type Pairs, sortPairs } from './pair-sort.ts'

/** The trees of a model's objects: by key, by the values of each index, and by label key. */
export class ModelTrees<T extends Slot = Slot> {
  readonly objects: CountedTree<string, Entry, unknown>
  readonly #labelKeys: CountedTree<string, Slot, Named>
  readonly #indexSet: IndexSet
  /** By position. */
  readonly #indexes: readonly Index<T>[]

  /**
   * @param names the index of names
   * @param from a state whose objects the trees have at first, as `names` has. Default: none
   */
  constructor(indexes: IndexSet, names: SingleValueIndex<T>, from?: ModelSnapshot) {
    this.objects = createNameTree(from?.objects)
    this.#labelKeys = createIndexTree(from?.labelKeys)
    this.#indexSet = indexes
    this.#indexes = indexes.specs.map((spec, position): Index<T> => {
      if (position === IndexSet.name) return names
      const view = from?.view(position)
      return spec.multiple ? new MultiValueIndex(view) : new SingleValueIndex(view?.values)
    })
  }

  /**
   * Fills the empty trees.
   * @param keys of the entries, ascending
   * @param slots of the entries, in the order of their names
   */
  async fill(
    keys: readonly ObjectKey[],
    entries: readonly Entry[],
    slots: readonly T[],
    yielder: Yielder,
  ): Promise<void> {
    await finishYielding(this.objects.fill(keys, entries), yielder)
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

  /**
   * Moves an object in the indexes whose values differ. Returns about how many pairs of indexes it adds and removes.
   */
  reindex(slot: T, next: Entry | undefined, previous: Entry | undefined): number {
    let pairs = 0
    for (let position = 0; position < this.#indexes.length; position++) {
      if (position === IndexSet.name && previous && next) continue
      if (previous && next && previous.values[position] === next.values[position]) continue
      const before = previous && indexedAt(previous, position)
      const after = next && indexedAt(next, position)
      if (before && after && sameValues(before, after)) continue
      pairs += this.#indexes[position]?.change(slot, before, after) ?? 0
      if (position === IndexSet.labels) this.#reindexKeys(slot, next?.labels, previous?.labels)
    }
    return pairs
  }

  #reindexKeys(slot: Slot, after: Entry['labels'] = noLabels, before: Entry['labels'] = noLabels): void {
    for (const key in before) if (!Object.hasOwn(after, key)) this.#labelKeys.delete(key, slot)
    for (const key in after) if (!Object.hasOwn(before, key)) this.#labelKeys.set(key, slot)
  }

  /** @param written the number of the last write */
  snapshot(listIndexes: ListIndexes, written: number): ModelSnapshot {
    return new ModelSnapshot(
      this.#indexSet,
      this.objects.snapshot(),
      this.#indexes.map(index => index.view()),
      this.#labelKeys.snapshot(),
      listIndexes,
      written,
    )
  }
}

const noLabels: Entry['labels'] = Object.freeze({})

function indexedAt(entry: Entry, position: number): readonly string[] {
  // The trees rely on the index of names, so it does not use the model's function.
  return position === IndexSet.name ? [entry.name] : valuesAt(entry, position)
}

interface Index<T extends Slot> {
  /**
   * Changes the object's values. They are undefined if it does not exist before or after.
   * Returns the number of pairs added and removed, or up to four more.
   */
  change(slot: T, before: readonly string[] | undefined, after: readonly string[] | undefined): number
  /** Fills the empty index at `position` with all objects, in the order of their names. */
  fill(slots: readonly T[], position: number, yielder: Yielder): Promise<void>
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

export class SingleValueIndex<T extends Slot = Slot> implements Index<T> {
  readonly #tree: CountedTree<string, T, Named>

  constructor(from?: CountedTreeView<string, T, Named>) {
    this.#tree = createIndexTree(from)
  }

  /** Finds an object in the index of names. */
  find(entry: Entry): T | undefined {
    const name = tieOf(entry)
    return this.#tree.get(entry.name, { name })
  }

  change(slot: T, before: readonly string[] | undefined, after: readonly string[] | undefined): number {
    if (before !== undefined) this.#tree.delete(before[0], slot)
    if (after !== undefined) this.#tree.set(after[0], slot)
    return before !== undefined && after !== undefined ? 2 : 1
  }

  async fill(slots: readonly T[], position: number, yielder: Yielder): Promise<void> {
    const values = slots.map(slot => indexedAt(slot.entry, position)[0])
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

class MultiValueIndex implements Index<Slot> {
  readonly #values: CountedTree<string, Slot, Named>
  readonly #smallest: CountedTree<string, Slot, Named>
  readonly #largest: CountedTree<string, Slot, Named>

  constructor(from?: IndexView) {
    this.#values = createIndexTree(from?.values)
    this.#smallest = createIndexTree(from?.smallest)
    this.#largest = createIndexTree(from?.largest)
  }

  change(slot: Slot, before: readonly string[] | undefined, after: readonly string[] | undefined): number {
    const { start, fromEnd } = commonEnds(before, after)
    const left = new Set(before?.slice(start, before.length - fromEnd))
    let added = 0
    for (const value of new Set(after?.slice(start, after.length - fromEnd)))
      if (!left.delete(value) && this.#values.set(value, slot)) added++
    for (const value of left) this.#values.delete(value, slot)
    move(this.#smallest, slot, before && { value: smallestOf(before) }, after && { value: smallestOf(after) })
    move(this.#largest, slot, before && { value: largestOf(before) }, after && { value: largestOf(after) })
    return added + left.size + 4
  }

  async fill(slots: readonly Slot[], position: number, yielder: Yielder): Promise<void> {
    const valuesOf = (slot: Slot) => indexedAt(slot.entry, position)
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
