import { compareCodePoints, ordersByUnit } from '../model/index.ts'
import { CountedTree } from './counted-tree.ts'
import type { CountedTreeView } from './counted-tree-view.ts'
import type { Entry } from './entry.ts'
import type { PairComparator, PairOrder } from './tree-node.ts'

/**
 * One object of a store while it exists. Indexes point to slots, so a write leaves an index alone if no value changes
 * in it, and readers get from an index to the object without a search by name. A slot has the newest entry. An older
 * snapshot finds its own entry by name (`ModelSnapshot.entryOf`).
 */
export interface Slot extends Named {
  readonly entry: Entry
  /** The write of the store that put the entry there. */
  readonly written: number
}

/** The part of an object that a search in an index compares. */
export interface Named {
  /** The name; in a namespaced kind followed by the namespace, see `tieOf`. */
  readonly name: string
}

/**
 * Pairs (value, object), ordered by value and then name, both by code point. Objects without a value have the value
 * undefined and come last. The rank of a value without an object is after all its objects, with `first` before them:
 *
 *     rank('a', first) ─▶ ('a', n1) ('a', n7) ◀─ rank('a') ─▶ ('b', n3) … (undefined, n2) …
 */
export type IndexTree = CountedTreeView<string, Slot, Named>

/** Comes before every object of the same value. */
export const first: Named = Object.freeze({ name: '' })

/** Returns an index tree, empty or with the pairs of a snapshot. The writer may use a mutable type of slots. */
export function createIndexTree<T extends Slot = Slot>(
  from?: CountedTreeView<string, T, Named>,
): CountedTree<string, T, Named> {
  return new CountedTree(indexOrder, from)
}

const indexOrder: PairOrder<string, Named> = {
  byValue: true,
  comparing(value, object) {
    return ordersByUnit(value ?? '') && ordersByUnit(object?.name ?? '') ? compareByUnit : compareByCodePoint
  },
}

/** Returns a tree of items by name, empty or with those of a snapshot. */
export function createNameTree<T>(
  from?: CountedTreeView<string, T, unknown>,
): CountedTree<string, T, unknown> {
  return new CountedTree(nameOrder, from)
}

const nameOrder: PairOrder<string, unknown> = {
  byValue: false,
  comparing: name => (ordersByUnit(name ?? '') ? namesByUnit : namesByCodePoint),
}

/** Returns the smallest value, or undefined if there are no values. */
export function smallestOf(values: readonly string[]): string | undefined {
  if (values.length < 2) return values[0]
  return values.reduce((least, value) => (compareCodePoints(value, least) < 0 ? value : least))
}

/** Returns the largest value, or undefined if there are no values. */
export function largestOf(values: readonly string[]): string | undefined {
  if (values.length < 2) return values[0]
  return values.reduce((most, value) => (compareCodePoints(value, most) > 0 ? value : most))
}

const namesByUnit: PairComparator<string, unknown> = (left, _l, right) => unitOrder(left, right)
const namesByCodePoint: PairComparator<string, unknown> = (left, _l, right) => codePointOrder(left, right)

const compareByUnit: PairComparator<string, Named> = (leftValue, left, rightValue, right) =>
  leftValue === rightValue ? unitOrder(left?.name, right?.name) : unitOrder(leftValue, rightValue)

const compareByCodePoint: PairComparator<string, Named> = (leftValue, left, rightValue, right) =>
  leftValue === rightValue ? codePointOrder(left?.name, right?.name) : codePointOrder(leftValue, rightValue)

function unitOrder(left: string | undefined, right: string | undefined): number {
  if (left === right) return 0
  if (left === undefined) return 1
  if (right === undefined) return -1
  return left < right ? -1 : 1
}

function codePointOrder(left: string | undefined, right: string | undefined): number {
  if (left === right) return 0
  if (left === undefined) return 1
  if (right === undefined) return -1
  return compareCodePoints(left, right)
}
