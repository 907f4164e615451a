import {
  type Cursor,
  first,
  type IndexTree,
  type ModelSnapshot,
  type Slot,
  type SortKey,
} from '../cache/for-query.ts'

/**
 * All objects in the order of one sort key, by position. Positions differ from ranks in the tree when descending:
 * values fall, but names rise among equal values, and the objects without a value stay at the end.
 *
 *     ranks in the tree       (a,n1) (a,n2) (b,n3) (c,n4) (c,n5) (none,n6) (none,n7)
 *     descending positions    n4 n5 · n3 · n1 n2 · n6 n7
 */
export class Ordering {
  readonly tree: IndexTree
  readonly descending: boolean
  /** Objects that have a value; their ranks come first. */
  readonly present: number

  constructor(snapshot: ModelSnapshot, { index, descending }: SortKey) {
    const view = snapshot.view(index)
    this.tree = descending ? view.largest : view.smallest
    this.descending = descending
    this.present = descending ? this.tree.rank(undefined, first) : this.tree.size
  }

  get size(): number {
    return this.tree.size
  }

  /** The position of an object with this sort value. */
  positionOf(value: string | undefined, slot: Slot): number {
    const rank = this.tree.rank(value, slot)
    if (!this.descending || value === undefined) return rank
    const from = this.tree.rank(value, first)
    const to = this.tree.rank(value)
    return this.present - to + (rank - from)
  }

  /** The first position of the ranks from `from` to `to`, which are all ranks of one value or of a range of values. */
  positionOfRun(from: number, to: number): number {
    return this.descending && from < this.present ? this.present - to : from
  }

  /** The objects that are equal to the one at a position: their ranks, and the position of the first. */
  runAt(position: number): { value: string | undefined; from: number; to: number; position: number } {
    const falling = this.descending && position < this.present
    const value = this.tree.keyAt(falling ? this.present - 1 - position : position)
    const from = this.tree.rank(value, first)
    const to = this.tree.rank(value)
    return { value, from, to, position: this.positionOfRun(from, to) }
  }

  cursor(position: number): OrderedCursor {
    return this.descending
      ? new DescendingCursor(this.tree, this.present, position)
      : new AscendingCursor(this.tree, position)
  }
}

/** Walks an ordering in either direction. Past an end it is on no object, and does not come back. */
export interface OrderedCursor {
  readonly slot: Slot | undefined
  readonly value: string | undefined
  next(): boolean
  previous(): boolean
}

class AscendingCursor implements OrderedCursor {
  readonly #cursor: Cursor<string, Slot>

  constructor(tree: IndexTree, position: number) {
    this.#cursor = tree.cursor(position)
  }

  get slot(): Slot | undefined {
    return this.#cursor.value
  }

  get value(): string | undefined {
    return this.#cursor.key
  }

  next(): boolean {
    return this.#cursor.next()
  }

  previous(): boolean {
    return this.#cursor.previous()
  }
}

class DescendingCursor implements OrderedCursor {
  readonly #tree: IndexTree
  readonly #present: number
  readonly #cursor: Cursor<string, Slot>
  /** Ranks of the objects that have the same value as the present one. */
  #from: number
  #to: number

  constructor(tree: IndexTree, present: number, position: number) {
    this.#tree = tree
    this.#present = present
    this.#from = present
    this.#to = tree.size
    if (position < 0 || position >= present) {
      this.#cursor = tree.cursor(position)
      return
    }
    this.#cursor = tree.cursor(present - 1 - position)
    const value = this.#cursor.key
    this.#from = tree.rank(value, first)
    this.#to = tree.rank(value)
    this.#cursor.moveTo(this.#from + (position - (present - this.#to)))
  }

  get slot(): Slot | undefined {
    return this.#cursor.value
  }

  get value(): string | undefined {
    return this.#cursor.key
  }

  next(): boolean {
    const cursor = this.#cursor
    if (cursor.position + 1 < this.#to) return cursor.next()
    if (this.#from === this.#present) return cursor.moveTo(this.#tree.size)
    const to = this.#from
    if (to === 0) {
      this.#from = this.#present
      this.#to = this.#tree.size
      return cursor.moveTo(this.#from)
    }
    // Values that no two objects share are the usual case here, and need no search.
    if (cursor.position === to) cursor.previous()
    else cursor.moveTo(to - 1)
    this.#to = to
    this.#from = to - 1
    const value = cursor.key
    if (cursor.keyBefore !== value) return true
    this.#from = this.#tree.rank(value, first)
    return cursor.moveTo(this.#from)
  }

  previous(): boolean {
    const cursor = this.#cursor
    if (cursor.position > this.#from) return cursor.previous()
    const from = this.#from === this.#present ? 0 : this.#to
    if (from === this.#present) return cursor.moveTo(-1)
    cursor.moveTo(from)
    this.#from = from
    this.#to = from + 1
    const value = cursor.key
    if (this.#to === this.#present || cursor.keyAfter !== value) return true
    this.#to = this.#tree.rank(value)
    return cursor.moveTo(this.#to - 1)
  }
}
