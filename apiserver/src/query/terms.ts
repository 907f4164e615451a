import { matches, type Requirement, type Selector } from '@setpoint/controller-runtime/api'
import { type Entry, first, type IndexTree, type ModelSnapshot, type Work } from '../cache/for-query.ts'
import { IndexSet, noValues } from '../model/index.ts'
import { labelValuesOf } from './match.ts'

/** Neighbours of one value in a tree, ranks `from` up to but not including `to`: their names ascend. */
export interface Run {
  readonly from: number
  readonly to: number
}

/**
 * One condition as a set of objects: those in the runs, or all others if `negated`. The runs are ranges of an index, so
 * the size of the set is mostly known without reading any object.
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
  /** Objects in the runs; an upper bound if `overlapping`. */
  readonly inRuns: number
  /** Whether one object satisfies the condition. */
  readonly test: (entry: Entry) => boolean
}

/** Entries that finding the run of one value counts as: two searches of a tree. */
const searchWork = 8

/** The terms of a selector. Equal conditions are merged, and so are exclusions of the same key. */
export function* compileTerms(snapshot: ModelSnapshot, selector: Selector): Work<Term[]> {
  const terms: Term[] = []
  for (const requirement of simplify(selector.labels)) terms.push(yield* labelTerm(snapshot, requirement))
  for (const requirement of simplify(selector.fields)) terms.push(yield* fieldTerm(snapshot, requirement))
  return terms
}

/** A term for one run of a tree that has every object once. */
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

/** The number of objects that satisfy the term, or undefined if the index alone does not tell. */
export function countOf(term: Term, size: number): number | undefined {
  if (term.overlapping) return undefined
  return term.negated ? size - term.inRuns : term.inRuns
}

function* labelTerm(snapshot: ModelSnapshot, requirement: Requirement): Work<Term> {
  const { key, operator, values } = requirement
  const test = (entry: Entry) => matches(requirement, labelValuesOf(entry, key))
  if (operator === 'exists' || operator === 'absent') {
    return yield* term(snapshot.labelKeys, [key], operator === 'absent', false, false, test)
  }
  const pairs = values.map(value => `${key}=${value}`)
  // A key has one value, so the runs of its values have no object in common.
  return yield* term(snapshot.view(IndexSet.labels).values, pairs, operator === 'notin', false, false, test)
}

function* fieldTerm(snapshot: ModelSnapshot, requirement: Requirement): Work<Term> {
  const position = snapshot.indexes.positionOf(requirement.key)
  const test = (entry: Entry) => matches(requirement, entry.values[position] ?? noValues)
  const view = snapshot.view(position)
  const single = view.values === view.smallest
  const overlapping = !single && requirement.values.length > 1
  return yield* term(
    view.values,
    requirement.values,
    requirement.operator === 'notin',
    overlapping,
    single,
    test,
  )
}

function* term(
  tree: IndexTree,
  values: readonly string[],
  negated: boolean,
  overlapping: boolean,
  whole: boolean,
  test: (entry: Entry) => boolean,
): Work<Term> {
  const runs: Run[] = []
  let inRuns = 0
  let searched = 0
  for (const value of values) {
    if (++searched % 64 === 0) yield 64 * searchWork
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
  const excluded = new Map<string, Set<string>>()
  const others = new Map<string, Requirement>()
  for (const requirement of requirements) {
    const { key, operator, values } = requirement
    if (operator !== 'notin') {
      others.set(JSON.stringify([operator, key, values]), requirement)
      continue
    }
    const known = excluded.get(key)
    if (known === undefined) excluded.set(key, new Set(values))
    else for (const value of values) known.add(value)
  }
  const simple = [...others.values()]
  for (const [key, values] of excluded) simple.push({ key, operator: 'notin', values: [...values] })
  return simple
}
