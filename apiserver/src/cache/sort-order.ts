import { compareCodePoints, compareUnits, IndexSet, ordersByUnit, valuesAt } from '../model/index.ts'
import { CountedTree } from './counted-tree.ts'
import type { CountedTreeView } from './counted-tree-view.ts'
import type { Entry } from './entry.ts'
import { largestOf, type Named, type Slot, smallestOf } from './index-tree.ts'
import type { PairComparator, PairOrder } from './tree-node.ts'

/** One key of a sort: an index by position, and its direction. */
export interface SortKey {
  readonly index: number
  readonly descending: boolean
}

/**
 * The key of an object in a sort: its value, or a list of values if the sort has several keys. No value is undefined.
 */
export type OrderKey = string | readonly (string | undefined)[]

/** An object with its key. */
export interface Candidate {
  readonly key: OrderKey | undefined
  readonly slot: Slot
}

/** Objects in the order of one sort, by position. */
export type OrderView = CountedTreeView<OrderKey, Slot, Named>

/** Returns the smallest value of an object if ascending, the largest if descending, or undefined without values. */
export function sortValue(entry: Entry, { index, descending }: SortKey): string | undefined {
  if (index === IndexSet.name) return entry.name
  const values = valuesAt(entry, index)
  return descending ? largestOf(values) : smallestOf(values)
}

/**
 * The order of a sort: key by key, objects without a value last in either direction, ties by name and namespace
 * ascending.
 */
export class SortOrder implements PairOrder<OrderKey, Named> {
  readonly byValue = true
  readonly keys: readonly SortKey[]
  readonly #first: SortKey
  readonly #byUnit: PairComparator<OrderKey, Named>
  readonly #byCodePoint: PairComparator<OrderKey, Named>

  /** @param keys at least one */
  constructor(keys: readonly SortKey[]) {
    this.keys = keys
    this.#first = this.keys[0] ?? byName
    const directions = this.keys.map(({ descending }) => descending)
    this.#byUnit = comparatorOf(directions, compareUnits)
    this.#byCodePoint = comparatorOf(directions, compareCodePoints)
  }

  keyOf(entry: Entry): OrderKey | undefined {
    return this.keys.length === 1
      ? sortValue(entry, this.#first)
      : this.keys.map(key => sortValue(entry, key))
  }

  comparing(key: OrderKey | undefined, object: Named | undefined): PairComparator<OrderKey, Named> {
    return keyOrdersByUnit(key) && ordersByUnit(object?.name ?? '') ? this.#byUnit : this.#byCodePoint
  }

  /** Returns a comparator of candidates. @param byUnit true if all are `keyedByUnit`, which is faster */
  comparator(byUnit: boolean): (left: Candidate, right: Candidate) => number {
    const compare = byUnit ? this.#byUnit : this.#byCodePoint
    return (left, right) => compare(left.key, left.slot, right.key, right.slot)
  }

  /** Returns an empty tree in this order. */
  createTree(): CountedTree<OrderKey, Slot, Named> {
    return new CountedTree(this)
  }
}

const byName: SortKey = Object.freeze({ index: IndexSet.name, descending: false })

/** Returns true if two keys of one sort are equal. */
export function sameKey(left: OrderKey | undefined, right: OrderKey | undefined): boolean {
  if (left === right) return true
  if (typeof left !== 'object' || typeof right !== 'object') return false
  return left.every((value, at) => value === right[at])
}

/** Returns true if the candidate orders by unit: see `ordersByUnit`. */
export function keyedByUnit({ key, slot }: Candidate): boolean {
  return keyOrdersByUnit(key) && ordersByUnit(slot.name)
}

function keyOrdersByUnit(key: OrderKey | undefined): boolean {
  if (typeof key === 'string') return ordersByUnit(key)
  return key === undefined || key.every(value => value === undefined || ordersByUnit(value))
}

function comparatorOf(
  directions: readonly boolean[],
  compareTexts: (left: string, right: string) => number,
): PairComparator<OrderKey, Named> {
  const [falling = false] = directions
  const compareValues = (left: string | undefined, right: string | undefined, descending: boolean) => {
    if (left === right) return 0
    if (left === undefined) return 1
    if (right === undefined) return -1
    return descending ? compareTexts(right, left) : compareTexts(left, right)
  }
  return (leftKey, left, rightKey, right) => {
    if (leftKey !== rightKey) {
      if (typeof leftKey !== 'object' && typeof rightKey !== 'object') {
        return compareValues(leftKey, rightKey, falling)
      }
      if (typeof leftKey === 'object' && typeof rightKey === 'object') {
        for (let at = 0; at < directions.length; at++) {
          const order = compareValues(leftKey[at], rightKey[at], directions[at] ?? false)
          if (order !== 0) return order
        }
      }
    }
    return compareTexts(left?.name ?? '', right?.name ?? '')
  }
}
