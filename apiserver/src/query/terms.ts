import {
  isComparison,
  matches,
  matchesAll,
  type Requirement,
  type Selector,
} from '@setpoint/controller-runtime/api'
import { type Entry, first, type IndexTree, type ModelSnapshot } from '../cache/for-query.ts'
import { IndexSet, valuesAt } from '../model/index.ts'
import type { Work } from '../scheduling/index.ts'
import { type Bounds, boundsOf, boundValue } from './bounds.ts'
import { labelValuesOf } from './match.ts'

/** Neighbours in a tree, ranks `from` up to but not including `to`: all pairs of one value, or of a range of values. */
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
  /** Whether the sizes only bound the number of objects: one may be in several runs, or fail `test`. */
  readonly overlapping: boolean
  /** Whether names ascend within each run. */
  readonly inNameOrder: boolean
  /** Whether the tree has every object exactly once, so that what is not in the runs is the rest of the tree. */
  readonly whole: boolean
  /** Objects in the runs; an upper bound if `overlapping`. */
  readonly inRuns: number
  /** Whether one object satisfies the condition. */
  readonly test: (entry: Entry) => boolean
}

/** The cost of finding the run of one value, counted in entries: two searches of a tree. */
const searchWork = 8

/** The terms of a selector. Equal conditions are merged, and so are exclusions and comparisons of the same key. */
export function* compileTerms(snapshot: ModelSnapshot, selector: Selector): Work<Term[]> {
  const terms: Term[] = []
  for (const requirement of simplify(selector.labels))
    terms.push(...(yield* labelTerms(snapshot, requirement)))
  for (const requirement of simplify(selector.fields)) terms.push(yield* fieldTerm(snapshot, requirement))
  for (const [key, bounds] of boundsOf(selector.fields))
    terms.push(...(yield* rangeTerms(snapshot, key, bounds)))
  return terms
}

/** The number of objects that satisfy the term, or undefined if the index alone does not tell. */
export function countOf(term: Term, size: number): number | undefined {
  if (term.overlapping) return undefined
  return term.negated ? size - term.inRuns : term.inRuns
}

function* labelTerms(snapshot: ModelSnapshot, requirement: Requirement): Work<Term[]> {
  const { key, operator, values } = requirement
  const test = (entry: Entry) => matches(requirement, labelValuesOf(entry, key))
  if (operator === 'exists' || operator === 'absent') {
    return [yield* term({ tree: snapshot.labelKeys, values: [key], negated: operator === 'absent', test })]
  }
  if (operator === 'gt' || operator === 'lt') {
    // No index has labels in the order of numbers. The objects with the label are found, and tested one by one.
    const exists: Requirement = { key, operator: 'exists', values: [] }
    const compared = { tree: snapshot.labelKeys, runs: [], inRuns: 0, negated: true, overlapping: true, test }
    return [...(yield* labelTerms(snapshot, exists)), { ...compared, inNameOrder: false, whole: false }]
  }
  const pairs = values.map(value => `${key}=${value}`)
  const tree = snapshot.view(IndexSet.labels).values
  // A key has one value, so the runs of its values have no object in common.
  return [yield* term({ tree, values: pairs, negated: operator === 'notin', test })]
}

function* fieldTerm(snapshot: ModelSnapshot, requirement: Requirement): Work<Term> {
  const { key, operator, values } = requirement
  const position = snapshot.indexes.positionOf(key)
  const { values: tree, smallest } = snapshot.view(position)
  const isSingle = tree === smallest
  return yield* term({
    tree,
    values,
    negated: operator === 'notin',
    overlapping: !isSingle && values.length > 1,
    whole: isSingle,
    test: entry => matches(requirement, valuesAt(entry, position)),
  })
}

/**
 * If an object has several values, one of them is below a bound if the smallest is, and above it if the largest is. The
 * trees of both have each object once, so its range is exact. Two bounds are one range if there is one value, and
 * otherwise two terms, since different values may satisfy them.
 */
function* rangeTerms(snapshot: ModelSnapshot, key: string, bounds: Bounds): Work<Term[]> {
  const position = snapshot.indexes.positionOf(key)
  const { smallest, largest } = snapshot.view(position)
  const { lower, upper } = bounds
  yield searchWork
  const rangeTerm = (tree: IndexTree, range: Bounds): Term => {
    const requirements = [range.lower, range.upper].filter(bound => bound !== undefined)
    const run = rangeOf(tree, range)
    const size = run.to - run.from
    return {
      tree,
      runs: size > 0 ? [run] : [],
      negated: false,
      overlapping: false,
      inNameOrder: position === IndexSet.name,
      whole: true,
      inRuns: size,
      test: entry => matchesAll(requirements, () => valuesAt(entry, position)),
    }
  }
  if (smallest === largest) return [rangeTerm(smallest, bounds)]
  const terms: Term[] = []
  if (lower !== undefined) terms.push(rangeTerm(largest, { lower, upper: undefined }))
  if (upper !== undefined) terms.push(rangeTerm(smallest, { lower: undefined, upper }))
  return terms
}

/** The ranks of the values within bounds. Without such values the run is empty. */
function rangeOf(tree: IndexTree, { lower, upper }: Bounds): Run {
  const from =
    lower === undefined ? 0 : tree.rank(boundValue(lower), lower.operator === '>=' ? first : undefined)
  const to =
    upper === undefined
      ? tree.rank(undefined, first)
      : tree.rank(boundValue(upper), upper.operator === '<' ? first : undefined)
  return { from, to: Math.max(from, to) }
}

/** A term for the objects of some values, or for all others. */
function* term({
  tree,
  values,
  negated,
  overlapping = false,
  whole = false,
  test,
}: Pick<Term, 'tree' | 'negated' | 'test'> & {
  readonly values: readonly string[]
  readonly overlapping?: boolean
  readonly whole?: boolean
}): Work<Term> {
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
  const repeats = overlapping && runs.length > 1
  return { tree, runs, negated, overlapping: repeats, inNameOrder: true, whole, inRuns, test }
}

/** Merges equal requirements and exclusions of one key. Leaves out comparisons: see `boundsOf`. */
function simplify(requirements: readonly Requirement[]): readonly Requirement[] {
  if (requirements.length === 0) return requirements
  const excluded = new Map<string, Set<string>>()
  const others = new Map<string, Requirement>()
  for (const requirement of requirements) {
    const { key, operator, values } = requirement
    if (isComparison(operator)) continue
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
