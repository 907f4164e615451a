import { IndexSet } from '../model/index.ts'
import { type Entry, keyOfEntry, tieOf } from './entry.ts'
import type { CacheEvent } from './history.ts'
import type { ModelSnapshot } from './model-snapshot.ts'
import { ModelTrees, SingleValueIndex } from './model-trees.ts'

/**
 * The cost of adding or removing a pair, in entries handled: a search of a tree, and copies of its nodes on the way.
 */
const pairWork = 32

/**
 * Makes an earlier state from a snapshot by undoing changes, latest first. The states share all nodes of their trees
 * that the changes left alone.
 *
 * Invariant (rewind.test.ts): an object that exists in both states keeps its slot, whose entry is newer than the
 * earlier state. `ModelSnapshot.entryOf` then finds the entry by key, because each change is one write of the store:
 * the slot was written after the last write in the earlier state.
 */
export class Rewind {
  readonly #from: ModelSnapshot
  readonly #names: SingleValueIndex
  readonly #trees: ModelTrees
  /** The number of the last write in the state so far. */
  #written: number

  constructor(from: ModelSnapshot) {
    this.#from = from
    this.#names = new SingleValueIndex(from.view(IndexSet.name).values)
    this.#trees = new ModelTrees(from.indexes, this.#names, from)
    this.#written = from.written
  }

  /**
   * Undoes the last change that is not undone yet. Returns the entries handled.
   * @throws Error if it is another change
   */
  undo({ previous, next }: CacheEvent): number {
    const entry = previous ?? next
    if (entry === undefined) return 1
    const { objects } = this.#trees
    const key = keyOfEntry(entry)
    if (objects.get(key) !== next) throw new Error(`rewind: ${key} is not what the change has made it`)
    this.#written--
    // A later change has removed the slot of a deleted object.
    const slot = this.#names.find(entry) ?? { name: tieOf(entry), entry, written: this.#written }
    if (previous === undefined) objects.delete(key)
    else objects.set(key, previous)
    const pairs = 1 + this.#trees.reindex(slot, previous, next)
    return pairs * pairWork + valuesOf(previous) + valuesOf(next)
  }

  snapshot(): ModelSnapshot {
    return this.#trees.snapshot(this.#from.listIndexes, this.#written)
  }
}

/** Returns the number of an object's index values, which are compared. */
function valuesOf(entry: Entry | undefined): number {
  if (entry === undefined) return 0
  return entry.values.reduce<number>((sum, values) => sum + (Array.isArray(values) ? values.length : 1), 0)
}
