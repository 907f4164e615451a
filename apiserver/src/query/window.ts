import type { Entry } from '../cache/entry.ts'
import type { SortKey } from './list-query.ts'
import type { Ordering } from './ordering.ts'
import { entryComparator } from './sort.ts'

/** Costs in microseconds, on the scale of `planCosts`. */
const costs = Object.freeze({
  /** Comparing two objects in a sort. */
  compared: 0.3,
  /** Keeping a found object in a map, and taking it out. */
  mapped: 0.2,
  /** A step along the sort index. */
  stepped: 0.1,
})

type Way = 'first' | 'last' | 'index' | 'sort'

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
  switch (cheapest(found.length, sort, ordering, offset, count).way) {
    case 'first':
      return firstOf(found, compare, offset + count).slice(offset)
    case 'last':
      return firstOf(found, (left, right) => compare(right, left), found.length - offset)
        .reverse()
        .slice(0, count)
    case 'index':
      return alongIndex(found, ordering, offset, count)
    case 'sort':
      return found.sort(compare).slice(offset, offset + count)
  }
}

/** What `orderedWindow` would cost for so many found objects. */
export function windowCost(
  found: number,
  sort: readonly SortKey[],
  ordering: Ordering,
  offset: number,
  count: number,
): number {
  return count <= 0 ? 0 : cheapest(found, sort, ordering, offset, count).cost
}

function cheapest(
  found: number,
  sort: readonly SortKey[],
  ordering: Ordering,
  offset: number,
  count: number,
): { way: Way; cost: number } {
  const best: { way: Way; cost: number } = { way: 'sort', cost: sortCost(found) }
  const consider = (way: Way, cost: number) => {
    if (cost < best.cost) Object.assign(best, { way, cost })
  }
  // One comparison with the worst kept so far, and every now and then a sort of those kept.
  consider('first', found * costs.compared + 2 * sortCost(offset + count))
  consider('last', found * costs.compared + 2 * sortCost(found - offset))
  if (sort.length === 1) consider('index', found * costs.mapped + ordering.size * costs.stepped)
  return best
}

function sortCost(size: number): number {
  return size * Math.log2(size + 1) * costs.compared
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
    const { slot } = cursor
    if (slot === undefined) break
    const entry = byName.get(slot.name)
    if (entry !== undefined && at++ >= offset) items.push(entry)
  }
  return items
}
