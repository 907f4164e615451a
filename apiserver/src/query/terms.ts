import { matches, type Requirement, type Selector } from '@setpoint/controller-runtime/api'
import type { Entry } from '../cache/entry.ts'
import { IndexSet, noValues } from '../cache/index-set.ts'
import { first, type IndexTree } from '../cache/index-tree.ts'
import type { ModelSnapshot } from '../cache/model-snapshot.ts'
import { labelValuesOf } from './match.ts'

/** Neighbours of one value in a tree, ranks `from` up to but not including `to`: their names ascend. */
export interface Run {
  readonly from: number
  readonly to: number
}

/**
 * One condition as a set of objects: those in the runs, or where `negated` all others.
 * The runs are ranges of an index, so that their sizes, and mostly that of the set, are known without a look at any
 * object.
 */
export interface Term {
  readonly tree: IndexTree
  /** Ascending, not empty, apart from each other. */
  readonly runs: readonly Run[]
  readonly negated: boolean
  /** Whether one object may be in several runs, so that the sum of their sizes is only an upper bound. */
  readonly overlapping: boolean
  /** Whether the tree has every object exactly once, so that what is not in the runs is the rest of the tree. */
  readonly whole: boolean
  /** Objects in the runs at most; exactly unless `overlapping`. */
  readonly inRuns: number
  /** Whether one object satisfies the condition. */
  readonly test: (entry: Entry) => boolean
}

/** The terms of a selector; conditions that say the same, or can be said as one, are one. */
export function compileTerms(snapshot: ModelSnapshot, selector: Selector): Term[] {
  return [
    ...simplify(selector.labels).map(requirement => labelTerm(snapshot, requirement)),
    ...simplify(selector.fields).map(requirement => fieldTerm(snapshot, requirement)),
  ]
}

/** The objects of one run of a tree that has every object once, as a term of its own. */
export function runTerm(tree: IndexTree, run: Run, test: (entry: Entry) => boolean): Term {
  return {
    tree,
    runs: [run],
    negated: false,
    overlapping: false,
    whole: true,
    inRuns: run.to - run.from,
    test,
  }
}

/** The number of objects that satisfy the term; undefined where the index alone does not tell. */
export function countOf(term: Term, size: number): number | undefined {
  if (term.overlapping) return undefined
  return term.negated ? size - term.inRuns : term.inRuns
}

function labelTerm(snapshot: ModelSnapshot, requirement: Requirement): Term {
  const { key, operator, values } = requirement
  const test = (entry: Entry) => matches(requirement, labelValuesOf(entry, key))
  if (operator === 'exists' || operator === 'absent') {
    return term(snapshot.labelKeys, [key], operator === 'absent', false, false, test)
  }
  const pairs = values.map(value => `${key}=${value}`)
  // A key has one value, so the runs of its values have no object in common.
  return term(snapshot.view(IndexSet.labels).values, pairs, operator === 'notin', false, false, test)
}

function fieldTerm(snapshot: ModelSnapshot, requirement: Requirement): Term {
  const position = snapshot.indexes.positionOf(requirement.key)
  const test = (entry: Entry) => matches(requirement, entry.values[position] ?? noValues)
  const view = snapshot.view(position)
  const single = view.values === view.smallest
  const overlapping = !single && requirement.values.length > 1
  return term(view.values, requirement.values, requirement.operator === 'notin', overlapping, single, test)
}

function term(
  tree: IndexTree,
  values: readonly string[],
  negated: boolean,
  overlapping: boolean,
  whole: boolean,
  test: (entry: Entry) => boolean,
): Term {
  const runs: Run[] = []
  let inRuns = 0
  for (const value of values) {
    const from = tree.rank(value, first)
    if (tree.keyAt(from) !== value) continue
    const to = tree.rank(value)
    runs.push({ from, to })
    inRuns += to - from
  }
  runs.sort((left, right) => left.from - right.from)
  return { tree, runs, negated, overlapping: overlapping && runs.length > 1, whole, inRuns, test }
}

function simplify(requirements: readonly Requirement[]): Requirement[] {
  const simple = new Map<string, Requirement>()
  for (const requirement of requirements) {
    const { key, operator, values } = requirement
    const merged = operator === 'notin'
    const id = JSON.stringify(merged ? [operator, key] : [operator, key, values])
    const known = simple.get(id)
    if (known === undefined) simple.set(id, requirement)
    else if (merged) simple.set(id, { ...known, values: [...new Set([...known.values, ...values])] })
  }
  return [...simple.values()]
}
