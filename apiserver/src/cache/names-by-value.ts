import { compareCodePoints, ordersByUnit } from './code-point-order.ts'
import { CountedTree, type CountedTreeView, type PairComparator } from './counted-tree.ts'

/**
 * Pairs (value, name), ordered by value and then name, both by code point; the value undefined stands for none and
 * comes last. A search of a rank with the name undefined comes after every name of its value, with '' before:
 *
 *     rank('a', '') ─▶ ('a', 'n1') ('a', 'n7') ◀─ rank('a', undefined) ─▶ ('b', 'n3') … (undefined, 'n2') …
 */
export type NamesByValue = CountedTreeView<string, string>

/** An empty tree of pairs (value, name). */
export function namesByValue(): CountedTree<string, string> {
  return new CountedTree({
    byValue: true,
    comparing(value, name) {
      return ordersByUnit(value ?? '') && ordersByUnit(name ?? '') ? compareByUnit : compareByCodePoint
    },
  })
}

/** An empty tree of things by name. */
export function byName<T>(): CountedTree<string, T> {
  const byUnit: PairComparator<string, T> = (left, _l, right) => unitOrder(left, right)
  const byCodePoint: PairComparator<string, T> = (left, _l, right) => codePointOrder(left, right)
  return new CountedTree({
    byValue: false,
    comparing: name => (ordersByUnit(name ?? '') ? byUnit : byCodePoint),
  })
}

/** The smallest of some values; undefined where there is none. */
export function smallestOf(values: readonly string[]): string | undefined {
  if (values.length < 2) return values[0]
  return values.reduce((least, value) => (compareCodePoints(value, least) < 0 ? value : least))
}

/** The largest of some values; undefined where there is none. */
export function largestOf(values: readonly string[]): string | undefined {
  if (values.length < 2) return values[0]
  return values.reduce((most, value) => (compareCodePoints(value, most) > 0 ? value : most))
}

const compareByUnit: PairComparator<string, string> = (leftValue, leftName, rightValue, rightName) =>
  leftValue === rightValue ? unitOrder(leftName, rightName) : unitOrder(leftValue, rightValue)

const compareByCodePoint: PairComparator<string, string> = (leftValue, leftName, rightValue, rightName) =>
  leftValue === rightValue ? codePointOrder(leftName, rightName) : codePointOrder(leftValue, rightValue)

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
