import { type Candidate, keyedByUnit, type SortOrder } from './sort-order.ts'
import { type Work, workDefaults } from './work.ts'

const { stride } = workDefaults

/** Returns true if all candidates are `keyedByUnit`. */
export function* allByUnit(candidates: readonly Candidate[]): Work<boolean> {
  for (let at = 0; at < candidates.length; at += stride) {
    const some = candidates.slice(at, at + stride)
    if (!some.every(keyedByUnit)) return false
    yield some.length
  }
  return true
}

/** Sorts candidates in runs and merges them, so that no step takes long. May reorder the given array. */
export function* sorted(candidates: Candidate[], order: SortOrder): Work<readonly Candidate[]> {
  let byUnit = true
  let runs: (readonly Candidate[])[] = []
  for (let at = 0; at < candidates.length; at += stride) {
    const run = candidates.length <= stride ? candidates : candidates.slice(at, at + stride)
    const runByUnit = run.every(keyedByUnit)
    byUnit &&= runByUnit
    runs.push(run.sort(order.comparator(runByUnit)))
    yield run.length
  }
  const compare = order.comparator(byUnit)
  while (runs.length > 1) {
    const merged: (readonly Candidate[])[] = []
    for (let at = 0; at < runs.length; at += 2) {
      const [left = [], right] = [runs[at], runs[at + 1]]
      merged.push(right === undefined ? left : yield* merge(left, right, compare))
    }
    runs = merged
  }
  return runs[0] ?? []
}

function* merge(
  left: readonly Candidate[],
  right: readonly Candidate[],
  compare: (left: Candidate, right: Candidate) => number,
): Work<readonly Candidate[]> {
  const [last, first] = [left.at(-1), right[0]]
  // Values often grow with names, as counters and times do.
  if (last === undefined || first === undefined || compare(last, first) <= 0) return left.concat(right)
  const merged: Candidate[] = []
  let l = 0
  let r = 0
  for (;;) {
    const [a, b] = [left[l], right[r]]
    const next = a === undefined || (b !== undefined && compare(b, a) < 0) ? b : a
    if (next === undefined) break
    merged.push(next)
    if (next === a) l++
    else r++
    if (merged.length % stride === 0) yield stride
  }
  yield merged.length % stride
  return merged
}
