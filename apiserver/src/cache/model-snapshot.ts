import type { CountedTreeView } from './counted-tree.ts'
import type { Entry } from './entry.ts'
import type { IndexSet } from './index-set.ts'
import type { IndexTree, Slot } from './index-tree.ts'
import type { PartialIndexes } from './partial-indexes.ts'

/** One index of a snapshot. An index of at most one value per object needs one tree, which then has all three roles. */
export interface IndexView {
  /** Every value of every object. In a single-value index the objects without one follow at the end. */
  readonly values: IndexTree
  /** Each object once, by its smallest value, those without one at the end: the ascending order. */
  readonly smallest: IndexTree
  /** Each object once, by its largest value, those without one at the end: read backwards, the descending order. */
  readonly largest: IndexTree
}

/** The objects and all indexes of a model as they were at one moment. */
export class ModelSnapshot {
  readonly indexes: IndexSet
  /** Entries by name. */
  readonly objects: CountedTreeView<string, Entry, unknown>
  /** By position in `indexes`. */
  readonly views: readonly IndexView[]
  /** Pairs (label key, object). */
  readonly labelKeys: IndexTree
  /** Indexes over some of its objects. */
  readonly partials: PartialIndexes
  /** The last write of the store that is in, by number. */
  readonly written: number

  constructor(
    indexes: IndexSet,
    objects: CountedTreeView<string, Entry, unknown>,
    views: readonly IndexView[],
    labelKeys: IndexTree,
    partials: PartialIndexes,
    written: number,
  ) {
    this.indexes = indexes
    this.objects = objects
    this.views = views
    this.labelKeys = labelKeys
    this.partials = partials
    this.written = written
  }

  /** The object of a slot that is in this snapshot, as it was then. */
  entryOf(slot: Slot): Entry {
    if (slot.written <= this.written) return slot.entry
    const entry = this.objects.get(slot.name)
    if (entry === undefined) throw new RangeError(`${slot.name} is not in this snapshot`)
    return entry
  }

  get size(): number {
    return this.objects.size
  }

  get(name: string): Entry | undefined {
    return this.objects.get(name)
  }

  /** @throws RangeError for a position that the model has not. */
  view(position: number): IndexView {
    const view = this.views[position]
    if (view === undefined) throw new RangeError(`no index at position ${position}`)
    return view
  }
}
