import type { ObjectKey } from '@setpoint/controller-runtime/api'
import type { IndexSet } from '../model/index.ts'
import type { CountedTreeView } from './counted-tree-view.ts'
import { type Entry, keyOfEntry } from './entry.ts'
import { first, type IndexTree, type Slot } from './index-tree.ts'
import type { ListIndexes } from './list-indexes.ts'

/** One index of a snapshot. A single-value index has one tree in all three roles. */
export interface IndexView {
  /** Every value of every object. In a single-value index, objects without a value come last. */
  readonly values: IndexTree
  /** Each object once, by its smallest value, objects without a value last: the ascending order. */
  readonly smallest: IndexTree
  /** Each object once, by its largest value, objects without a value last: the descending order when read backwards. */
  readonly largest: IndexTree
}

/** The objects and indexes of a model at one moment. */
export class ModelSnapshot {
  readonly indexes: IndexSet
  /** Entries by key. */
  readonly objects: CountedTreeView<string, Entry, unknown>
  /** By position in `indexes`. */
  readonly views: readonly IndexView[]
  /** Pairs (label key, object). */
  readonly labelKeys: IndexTree
  /** Indexes of single lists. */
  readonly listIndexes: ListIndexes
  /** The number of the last write in this snapshot. */
  readonly written: number

  constructor(
    indexes: IndexSet,
    objects: CountedTreeView<string, Entry, unknown>,
    views: readonly IndexView[],
    labelKeys: IndexTree,
    listIndexes: ListIndexes,
    written: number,
  ) {
    this.indexes = indexes
    this.objects = objects
    this.views = views
    this.labelKeys = labelKeys
    this.listIndexes = listIndexes
    this.written = written
  }

  /** Returns the object of a slot as it is in this snapshot. @throws RangeError if it is not in it */
  entryOf(slot: Slot): Entry {
    if (slot.written <= this.written) return slot.entry
    // An object keeps its key.
    const key = keyOfEntry(slot.entry)
    const entry = this.objects.get(key)
    if (entry === undefined) throw new RangeError(`${key} is not in this snapshot`)
    return entry
  }

  get size(): number {
    return this.objects.size
  }

  get(key: ObjectKey): Entry | undefined {
    return this.objects.get(key)
  }

  /**
   * Returns the positions, `to` exclusive, of the objects with a value in an index: in `view(position).values`.
   * @throws RangeError if the model has no index at this position
   */
  rangeOf(position: number, value: string): { readonly from: number; readonly to: number } {
    const { values } = this.view(position)
    return { from: values.rank(value, first), to: values.rank(value) }
  }

  /** @throws RangeError if the model has no index at this position */
  view(position: number): IndexView {
    const view = this.views[position]
    if (view === undefined) throw new RangeError(`no index at position ${position}`)
    return view
  }
}
