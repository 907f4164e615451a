import { type Work, workDefaults } from '../scheduling/index.ts'
import type { CountedTree } from './counted-tree.ts'
import type { Entry } from './entry.ts'
import type { Named, Slot } from './index-tree.ts'
import { type Candidate, type OrderKey, type OrderView, type SortOrder, sameKey } from './sort-order.ts'

/** The content of a list index: the objects that a predicate selects, in the order of a sort. */
export interface ListIndexSpec {
  /** Equal for specs with the same selector and sort. */
  readonly id: string
  readonly order: SortOrder
  selects(entry: Entry): boolean
}

/** What an index needs to know of a snapshot of the store. */
export interface SnapshotState {
  /** Number of its objects. */
  readonly size: number
  /** The number of the last write in it. */
  readonly written: number
}

/**
 * An index over some of the objects of a store, for one selector and one sort. Any page of that list is read from it
 * by position. It is filled from a snapshot and can then follow the writes after it.
 */
export class ListIndex {
  readonly #spec: ListIndexSpec
  readonly #tree: CountedTree<OrderKey, Slot, Named>
  /** Weak, so that dropping the index frees its views of all snapshots. */
  readonly #views = new WeakMap<SnapshotState, OrderView>()

  constructor(spec: ListIndexSpec) {
    this.#spec = spec
    this.#tree = spec.order.createTree()
  }

  get size(): number {
    return this.#tree.size
  }

  /** Fills the index with the selected objects of a snapshot, in order. To be called once, first. */
  *fill(candidates: readonly Candidate[]): Work<void> {
    const keys: (OrderKey | undefined)[] = []
    const slots: Slot[] = []
    for (const { key, slot } of candidates) {
      keys.push(key)
      slots.push(slot)
      if (keys.length % workDefaults.stride === 0) yield workDefaults.stride
    }
    yield* this.#tree.fill(keys, slots)
  }

  /** Follows a write. Does nothing unless the object enters, leaves or moves. */
  change(slot: Slot, next: Entry | undefined, previous: Entry | undefined): void {
    const { order } = this.#spec
    const before = previous !== undefined && this.#spec.selects(previous)
    const after = next !== undefined && this.#spec.selects(next)
    if (before && after && sameKey(order.keyOf(previous), order.keyOf(next))) return
    if (before) this.#tree.delete(order.keyOf(previous), slot)
    if (after) this.#tree.set(order.keyOf(next), slot)
  }

  /** Keeps the present content as that of a snapshot. */
  capture(snapshot: SnapshotState): void {
    this.#views.set(snapshot, this.#tree.snapshot())
  }

  /** Returns the content as of a snapshot, or undefined if it was not captured. */
  viewOf(snapshot: SnapshotState): OrderView | undefined {
    return this.#views.get(snapshot)
  }
}
