import { type IndexTree, type ModelSnapshot, type Slot, type Work, workDefaults } from '../cache/for-query.ts'
import { IndexSet } from '../model/index.ts'
import type { Run, Term } from './terms.ts'

/** A set of objects, to be visited one by one. */
export interface Members {
  /** Objects that will be visited, at most. */
  readonly size: number
  /** Whether an object may be visited more than once. */
  readonly repeats: boolean
  /** Tree searches for one object. */
  readonly searches: number
  each(visit: (slot: Slot) => void): Work<void>
}

/** The objects that a term selects; undefined where they cannot be had at a cost that follows their number. */
export function membersOf(snapshot: ModelSnapshot, term: Term): Members | undefined {
  return term.negated ? outsideRuns(snapshot, term) : insideRuns(term)
}

/** The objects that a term leaves out. */
export function othersOf(snapshot: ModelSnapshot, term: Term): Members | undefined {
  return term.negated ? insideRuns(term) : outsideRuns(snapshot, term)
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

function insideRuns({ tree, runs, inRuns, overlapping }: Term): Members {
  return {
    size: inRuns,
    repeats: overlapping,
    searches: 0,
    each: visit => eachOf(tree, runs, visit),
  }
}

function outsideRuns(snapshot: ModelSnapshot, term: Term): Members | undefined {
  const { tree, runs, inRuns, whole } = term
  const size = snapshot.size - inRuns
  if (whole) {
    const gaps = gapsBetween(runs, tree.size)
    return {
      size,
      repeats: false,
      searches: 0,
      each: visit => eachOf(tree, gaps, visit),
    }
  }
  const [run = emptyRun, ...more] = runs
  if (more.length > 0) return undefined
  const complement = new Complement(snapshot, tree, run)
  const { searches } = complement
  return {
    size,
    repeats: false,
    searches,
    *each(visit) {
      for (let at = 0; at < size; at++) {
        visit(complement.slotAt(at))
        yield searches
      }
    },
  }
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

const emptyRun: Run = { from: 0, to: 0 }

/**
 * The objects that are not in one run, by name. Both all names and those of the run ascend, so the number of missing
 * names before the run's i-th is the difference of two ranks, and the n-th missing name is found by halving:
 *
 *     all names     a b c d e f g          missing before run[i]:   c 2−0   d 3−1   g 6−2
 *     the run           c d     g          the 3rd missing (at 2):  first i with more than 2 before it is 2 (g),
 *                                          so it is all[2 + 2] = e
 */
export class Complement {
  readonly #all: IndexTree
  readonly #tree: IndexTree
  readonly #run: Run
  /** Tree searches for one object. */
  readonly searches: number

  constructor(snapshot: ModelSnapshot, tree: IndexTree, run: Run) {
    this.searches = Math.ceil(Math.log2(run.to - run.from + 2))
    this.#all = snapshot.view(IndexSet.name).values
    this.#tree = tree
    this.#run = run
  }

  /** The object at a position among the missing ones, by name ascending. */
  slotAt(position: number): Slot {
    const { from, to } = this.#run
    let low = 0
    let high = to - from
    while (low < high) {
      const middle = (low + high) >>> 1
      const slot = this.#tree.valueAt(from + middle)
      if (this.#all.rank(slot?.entry.name, slot) - middle > position) high = middle
      else low = middle + 1
    }
    const slot = this.#all.valueAt(position + low)
    if (slot === undefined) throw new RangeError(`no object is missing at ${position}`)
    return slot
  }
}
