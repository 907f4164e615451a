import { type Work, workDefaults } from '../scheduling/index.ts'
import { mergeRuns } from './run-merge.ts'
import { type Candidate, keyedByUnit, type SortOrder } from './sort-order.ts'

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
  const runs: (readonly Candidate[])[] = []
  for (let at = 0; at < candidates.length; at += stride) {
    const run = candidates.length <= stride ? candidates : candidates.slice(at, at + stride)
    const runByUnit = run.every(keyedByUnit)
    byUnit &&= runByUnit
    runs.push(run.sort(order.comparator(runByUnit)))
    yield run.length
  }
  return yield* mergeRuns(runs, order.comparator(byUnit))
}
