import { sorted } from '../cache/candidate-sort.ts'
import type { Entry } from '../cache/entry.ts'
import type { ModelSnapshot } from '../cache/model-snapshot.ts'
import type { Candidate, SortOrder } from '../cache/sort-order.ts'
import { type Work, workDefaults } from '../cache/work.ts'
import type { Ordering } from './ordering.ts'

/** All objects of a snapshot in the order of one sort, from either end; those that match are taken. */
export interface Walk {
  readonly snapshot: ModelSnapshot
  /** The order of the first sort key over all objects. */
  readonly ordering: Ordering
  readonly order: SortOrder
  readonly forward: boolean
  readonly matches: (entry: Entry) => boolean
  /** Takes the next object. Answers whether it wants more. */
  readonly take: (candidate: Candidate) => boolean
}

/** Walks until no more are wanted or `maxSteps` are done. Answers whether it has come to the end of either. */
export function* walk(
  { snapshot, ordering, order, forward, matches, take }: Walk,
  maxSteps: number,
): Work<boolean> {
  const cursor = ordering.cursor(forward ? 0 : ordering.size - 1)
  // With further keys the objects of one value are collected, and taken once they are sorted.
  const grouping = order.keys.length > 1
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
      yield handled
      handled = 0
    }
    const { slot, value } = cursor
    if (slot === undefined) break
    if (grouping && value !== groupValue) {
      if (!(yield* takeGroup())) return true
      groupValue = value
    }
    const entry = snapshot.entryOf(slot)
    handled++
    if (matches(entry)) {
      if (grouping) group.push({ key: order.keyOf(entry), slot })
      else if (!take({ key: value, slot })) break
    }
    if (forward) cursor.next()
    else cursor.previous()
  }
  yield handled
  yield* takeGroup()
  return true
}
