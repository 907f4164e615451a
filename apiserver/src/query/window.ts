import { allByUnit, type Candidate, type Slot, type SortOrder, sorted } from '../cache/for-query.ts'
import { type Work, workDefaults } from '../scheduling/index.ts'
import { planCosts, sortCost } from './costs.ts'
import type { Ordering } from './ordering.ts'

/** Objects that are kept in order at once while others are still being compared with the last of them. */
const mostKept = workDefaults.stride

type Way = 'first' | 'last' | 'index' | 'sort'

/**
 * The `count` objects from position `offset` of `found` in order, without sorting more of it than needed. `ordering` is
 * that of the first sort key over all objects. May reorder `found`.
 */
export function* orderedWindow(
  found: Candidate[],
  order: SortOrder,
  ordering: Ordering,
  offset: number,
  count: number,
): Work<readonly Slot[]> {
  if (count <= 0) return []
  switch (cheapest(found.length, order, ordering, offset, count).way) {
    case 'first':
      return yield* slotsOf(yield* firstOf(found, order, true, offset + count), offset, count)
    case 'last': {
      const last = yield* firstOf(found, order, false, found.length - offset)
      return yield* slotsOf(last.reverse(), 0, count)
    }
    case 'index':
      return yield* alongIndex(found, ordering, offset, count)
    case 'sort':
      return yield* slotsOf(yield* sorted(found, order), offset, count)
  }
}

/** What `orderedWindow` would cost for so many found objects. */
export function windowCost(
  found: number,
  order: SortOrder,
  ordering: Ordering,
  offset: number,
  count: number,
): number {
  return count <= 0 ? 0 : cheapest(found, order, ordering, offset, count).cost
}

function cheapest(
  found: number,
  order: SortOrder,
  ordering: Ordering,
  offset: number,
  count: number,
): { way: Way; cost: number } {
  const best: { way: Way; cost: number } = { way: 'sort', cost: sortCost(found) }
  const consider = (way: Way, cost: number) => {
    if (cost < best.cost) Object.assign(best, { way, cost })
  }
  // One comparison with the worst kept so far, and every now and then a sort of those kept.
  const fromStart = offset + count
  const fromEnd = found - offset
  if (fromStart <= mostKept) consider('first', found * planCosts.compared + 2 * sortCost(fromStart))
  if (fromEnd <= mostKept) consider('last', found * planCosts.compared + 2 * sortCost(fromEnd))
  if (order.keys.length === 1) consider('index', found * planCosts.kept + ordering.size * planCosts.stepped)
  return best
}

/** The first `count` in order, or backwards: a buffer of twice as many is cut back whenever it is full. */
function* firstOf(
  found: readonly Candidate[],
  order: SortOrder,
  forward: boolean,
  count: number,
): Work<Candidate[]> {
  const byUnit = yield* allByUnit(found)
  const ascending = order.comparator(byUnit)
  const compare = forward ? ascending : (left: Candidate, right: Candidate) => ascending(right, left)
  const best: Candidate[] = []
  const room = Math.max(64, count * 2)
  let worst: Candidate | undefined
  let handled = 0
  for (const candidate of found) {
    if (++handled === workDefaults.stride) {
      yield handled
      handled = 0
    }
    if (worst !== undefined && compare(candidate, worst) > 0) continue
    best.push(candidate)
    if (best.length < room) continue
    best.sort(compare).length = count
    worst = best[count - 1]
    yield room
  }
  yield handled
  return best.sort(compare).slice(0, count)
}

function* alongIndex(
  found: readonly Candidate[],
  ordering: Ordering,
  offset: number,
  count: number,
): Work<readonly Slot[]> {
  const wanted = new Set<Slot>()
  for (const { slot } of found) {
    wanted.add(slot)
    if (wanted.size % workDefaults.stride === 0) yield workDefaults.stride
  }
  const items: Slot[] = []
  const cursor = ordering.cursor(0)
  let handled = 0
  for (let at = 0; items.length < count; cursor.next()) {
    const { slot } = cursor
    if (slot === undefined) break
    if (wanted.has(slot) && at++ >= offset) items.push(slot)
    if (++handled < workDefaults.stride) continue
    yield handled
    handled = 0
  }
  yield handled
  return items
}

/** The objects of some candidates. */
function* slotsOf(candidates: readonly Candidate[], offset: number, count: number): Work<readonly Slot[]> {
  const slots: Slot[] = []
  for (let at = offset; at < offset + count; at += workDefaults.stride) {
    const end = Math.min(offset + count, at + workDefaults.stride)
    for (const { slot } of candidates.slice(at, end)) slots.push(slot)
    yield end - at
  }
  return slots
}
