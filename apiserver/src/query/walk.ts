import { type Candidate, type Entry, type ModelSnapshot, type SortOrder, sorted } from '../cache/for-query.ts'
import { type Work, workDefaults } from '../scheduling/index.ts'
import type { OrderedCursor, Ordering } from './ordering.ts'

/** A walk along all objects of a snapshot in the order of one sort, from either end, that takes those that match. */
interface Walk {
  readonly snapshot: ModelSnapshot
  /** The order of the first sort key over all objects. */
  readonly ordering: Ordering
  readonly order: SortOrder
  readonly forward: boolean
  readonly matches: (entry: Entry) => boolean
  /** Entries that one call of `matches` counts as. */
  readonly testWork: number
  /** Takes the next object. Returns whether it wants more. */
  readonly take: (candidate: Candidate) => boolean
}

/** Walks at most `maxSteps`. Returns whether it took all that was wanted, or all that there is. */
export function walk(it: Walk, maxSteps: number): Work<boolean> {
  return it.order.keys.length > 1 ? walkGroups(it, maxSteps) : walkSingly(it, maxSteps)
}

function* walkSingly(it: Walk, maxSteps: number): Work<boolean> {
  const cursor = startOf(it)
  let left = Math.floor(maxSteps) + 1
  while (left > 0) {
    const wanted = Math.min(left, workDefaults.stride)
    const steps = takeSome(it, cursor, wanted)
    yield Math.abs(steps) * it.testWork
    if (steps < wanted) return true
    left -= steps
  }
  return false
}

/** Walks so many steps. Returns their number, or minus the number of steps before an end. */
function takeSome(
  { snapshot, forward, matches, take }: Walk,
  cursor: OrderedCursor,
  maxSteps: number,
): number {
  // Outside the generator, whose steps take several times as long.
  for (let steps = 0; steps < maxSteps; steps++) {
    const { slot } = cursor
    if (slot === undefined) return -steps
    if (matches(snapshot.entryOf(slot)) && !take({ key: cursor.value, slot })) return -steps - 1
    if (forward) cursor.next()
    else cursor.previous()
  }
  return maxSteps
}

/** With further sort keys, collects the objects of one value and sorts them before it takes them. */
function* walkGroups(it: Walk, maxSteps: number): Work<boolean> {
  const { snapshot, order, forward, matches, take } = it
  const cursor = startOf(it)
  let group: Candidate[] = []
  let groupValue: string | undefined
  function* takeGroup(): Work<boolean> {
    if (group.length === 0) return true
    const inOrder = group.length === 1 ? group : yield* sorted(group, order)
    group = []
    for (let at = 0; at < inOrder.length; at++) {
      const candidate = inOrder[forward ? at : inOrder.length - 1 - at]
      if (candidate !== undefined && !take(candidate)) return false
    }
    return true
  }
  let handled = 0
  for (let steps = 0; ; steps++) {
    if (steps > maxSteps) return false
    if (handled === workDefaults.stride) {
      yield handled * it.testWork
      handled = 0
    }
    const { slot, value } = cursor
    if (slot === undefined) break
    if (value !== groupValue) {
      if (!(yield* takeGroup())) return true
      groupValue = value
    }
    const entry = snapshot.entryOf(slot)
    handled++
    if (matches(entry)) group.push({ key: order.keyOf(entry), slot })
    if (forward) cursor.next()
    else cursor.previous()
  }
  yield handled * it.testWork
  yield* takeGroup()
  return true
}

function startOf({ ordering, forward }: Walk): OrderedCursor {
  return ordering.cursor(forward ? 0 : ordering.size - 1)
}
