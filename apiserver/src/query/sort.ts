import { compareCodePoints } from '../cache/code-point-order.ts'
import type { Entry } from '../cache/entry.ts'
import { noValues } from '../cache/index-set.ts'
import { largestOf, smallestOf } from '../cache/index-tree.ts'
import type { SortKey } from './list-query.ts'

/** What an object counts as in a sort: its smallest value ascending, its largest descending; undefined for none. */
export function sortValue(entry: Entry, { index, descending }: SortKey): string | undefined {
  const values = entry.values[index] ?? noValues
  return descending ? largestOf(values) : smallestOf(values)
}

/** The order of a sort: key by key, objects without a value last in either direction, ties by name ascending. */
export function entryComparator(sort: readonly SortKey[]): (left: Entry, right: Entry) => number {
  return (left, right) => {
    for (const key of sort) {
      const a = sortValue(left, key)
      const b = sortValue(right, key)
      if (a === b) continue
      if (a === undefined) return 1
      if (b === undefined) return -1
      return key.descending ? compareCodePoints(b, a) : compareCodePoints(a, b)
    }
    return compareCodePoints(left.name, right.name)
  }
}
