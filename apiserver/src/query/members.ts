import type { IndexTree, Slot } from '../cache/for-query.ts'
import { type Work, workDefaults } from '../scheduling/index.ts'
import type { Run, Term } from './terms.ts'

/** A set of objects, to be visited one by one. */
export interface Members {
  /** Objects that will be visited, at most. */
  readonly size: number
  /** Whether an object may be visited more than once. */
  readonly repeats: boolean
  each(visit: (slot: Slot) => void): Work<void>
}

/** The objects that a term selects; undefined if its index does not have them as ranges. */
export function membersOf(term: Term): Members | undefined {
  const { tree, inRuns, overlapping } = term
  if (!term.negated)
    return { size: inRuns, repeats: overlapping, each: visit => eachOf(tree, term.runs, visit) }
  if (!term.whole) return undefined
  const gaps = gapsBetween(term.runs, tree.size)
  return { size: tree.size - inRuns, repeats: false, each: visit => eachOf(tree, gaps, visit) }
}

/** The ranks of a tree of `size` that are in no run. `runs` ascend. */
export function gapsBetween(runs: readonly Run[], size: number): Run[] {
  const gaps: Run[] = []
  let from = 0
  for (const run of runs) {
    if (run.from > from) gaps.push({ from, to: run.from })
    from = run.to
  }
  if (size > from) gaps.push({ from, to: size })
  return gaps
}

/** Visits everything in some ranges of a tree. */
export function* eachOf(tree: IndexTree, ranges: readonly Run[], visit: (slot: Slot) => void): Work<void> {
  let handled = 0
  for (const { from, to } of ranges) {
    for (let at = from; at < to; ) {
      const end = Math.min(to, at + workDefaults.stride - handled)
      tree.forEachValue(visit, at, end)
      handled += end - at
      at = end
      if (handled < workDefaults.stride) continue
      yield handled
      handled = 0
    }
  }
  yield handled
}
