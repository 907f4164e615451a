import type { CountedTree } from './counted-tree.ts'
import type { Entry } from './entry.ts'
import type { Named, Slot } from './index-tree.ts'
import type { ModelSnapshot } from './model-snapshot.ts'
import { type Candidate, type OrderKey, type OrderView, type SortOrder, sameKey } from './sort-order.ts'
import { type Work, workDefaults } from './work.ts'

/** What a partial index holds: the objects that a predicate selects, in the order of a sort. */
export interface PartialSpec {
  /** Equal for specs that mean the same. */
  readonly id: string
  readonly order: SortOrder
  selects(entry: Entry): boolean
}

/**
 * An index over some of the objects of a store, for one selector and one sort: any page of that list is read from it by
 * position. It is made of a snapshot, and may then take in the writes that came after it.
 */
export class PartialIndex {
  readonly #spec: PartialSpec
  readonly #tree: CountedTree<OrderKey, Slot, Named>
  /** Weak, and only here: an index that is let go of takes along what it was in all the snapshots. */
  readonly #views = new WeakMap<ModelSnapshot, OrderView>()

  constructor(spec: PartialSpec) {
    this.#spec = spec
    this.#tree = spec.order.createTree()
  }

  get size(): number {
    return this.#tree.size
  }

  /** Takes in all objects of a snapshot that are selected, in order. Once, before anything else. */
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

  /** Takes in a write. Touches nothing unless the object comes, goes or moves. */
  change(slot: Slot, next: Entry | undefined, previous: Entry | undefined): void {
    const { order } = this.#spec
    const before = previous !== undefined && this.#spec.selects(previous)
    const after = next !== undefined && this.#spec.selects(next)
    if (before && after && sameKey(order.keyOf(previous), order.keyOf(next))) return
    if (before) this.#tree.delete(order.keyOf(previous), slot)
    if (after) this.#tree.set(order.keyOf(next), slot)
  }

  /** What is in here now is what it is in this snapshot. */
  capture(snapshot: ModelSnapshot): void {
    this.#views.set(snapshot, this.#tree.snapshot())
  }

  /** What it is in a snapshot; undefined if it did not exist then. */
  viewOf(snapshot: ModelSnapshot): OrderView | undefined {
    return this.#views.get(snapshot)
  }
}
