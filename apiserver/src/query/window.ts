import type { Entry } from '../cache/entry.ts'
import type { SortKey } from './list-query.ts'
import type { Ordering } from './ordering.ts'
import { entryComparator } from './sort.ts'

/**
 * `count` objects from position `offset` of the sorted `found`, without sorting more of it than needed. `ordering` is
 * that of the first sort key over all objects. Reorders `found`.
 */
export function orderedWindow(
  found: Entry[],
  sort: readonly SortKey[],
  ordering: Ordering,
  offset: number,
  count: number,
): Entry[] {
  if (count <= 0) return []
  const compare = entryComparator(sort)
  const fromStart = offset + count
  const fromEnd = found.length - offset
  const nearer = Math.min(fromStart, fromEnd)
  if (nearer * 4 < found.length) {
    if (nearer === fromStart) return firstOf(found, compare, fromStart).slice(offset)
    const last = firstOf(found, (left, right) => compare(right, left), fromEnd)
    return last.reverse().slice(0, count)
  }
  // Comparing costs some twenty steps along the index an object, where there are many.
  if (sort.length === 1 && found.length * 16 > ordering.size)
    return alongIndex(found, ordering, offset, count)
  return found.sort(compare).slice(offset, fromStart)
}

/** The first `count` in order: a buffer of twice as many is cut back whenever it is full. */
function firstOf(
  found: readonly Entry[],
  compare: (left: Entry, right: Entry) => number,
  count: number,
): Entry[] {
  const best: Entry[] = []
  const room = Math.max(64, count * 2)
  let worst: Entry | undefined
  for (const entry of found) {
    if (worst !== undefined && compare(entry, worst) > 0) continue
    best.push(entry)
    if (best.length < room) continue
    best.sort(compare).length = count
    worst = best[count - 1]
  }
  return best.sort(compare).slice(0, count)
}

function alongIndex(found: readonly Entry[], ordering: Ordering, offset: number, count: number): Entry[] {
  const byName = new Map<string, Entry>()
  for (const entry of found) byName.set(entry.name, entry)
  const items: Entry[] = []
  const cursor = ordering.cursor(0)
  for (let at = 0; items.length < count; cursor.next()) {
    const { name } = cursor
    if (name === undefined) break
    const entry = byName.get(name)
    if (entry !== undefined && at++ >= offset) items.push(entry)
  }
  return items
}
