import {
  type ObjectKey,
  type Requirement,
  type Selector,
  splitObjectKey,
} from '@setpoint/controller-runtime/api'
import {
  type Candidate,
  type Cursor,
  type Entry,
  type IndexTree,
  keyOfEntry,
  type ModelSnapshot,
  type Slot,
  SortOrder,
  sorted,
  tieOf,
} from '../cache/for-query.ts'
import { compareCodePoints, IndexSet } from '../model/index.ts'
import { type Work, workDefaults } from '../scheduling/index.ts'
import { planCosts, sortCost } from './costs.ts'
import { testWorkOf } from './match.ts'
import { membersOf } from './members.ts'
import { compileTerms, type Run, type Term } from './terms.ts'

/** Objects of a snapshot, keys ascending, one after another. */
interface ByName {
  next(): Entry | undefined
}

/** A part of the selected objects. */
interface Chunk {
  /** They come after the object with this key. */
  readonly after: ObjectKey | undefined
  /** Objects that the caller wants, at most. */
  readonly wanted: number
}

/**
 * Visits the selected objects after `after`, in the order of their keys. The cost follows the number of objects of the
 * smallest term in that range.
 * @param visit returns whether to go on
 */
export function* selectedByName(
  snapshot: ModelSnapshot,
  selector: Selector,
  chunk: Chunk,
  visit: (entry: Entry) => boolean,
): Work<void> {
  const terms = yield* compileTerms(snapshot, selector)
  const each = testWorkOf(terms.length)
  const source = yield* cheapest(snapshot, terms, rangeOf(snapshot, selector), chunk)
  let handled = 0
  for (;;) {
    const entry = source.next()
    if (entry === undefined) break
    handled += each
    if (terms.every(term => term.test(entry)) && !visit(entry)) break
    if (handled < workDefaults.stride) continue
    yield handled
    handled = 0
  }
  yield handled
}

/** The positions by key that a selector is limited to: those of its namespace, or all. */
interface KeyRange extends Run {
  /** The namespace that the selector names. */
  readonly namespace: string | undefined
}

/** Returns the range of a selector. The objects of a namespace are neighbours. */
export function rangeOf({ objects, indexes }: ModelSnapshot, { fields }: Selector): KeyRange {
  const one = indexes.isNamespaced ? fields.find(isOneNamespace) : undefined
  const [namespace] = one?.values ?? []
  if (namespace === undefined) return { from: 0, to: objects.size, namespace }
  const from = objects.rank(`${namespace}/`)
  return { from, to: objects.rank(`${namespace}${afterSlash}`), namespace }
}

/** Returns true for a term that all objects of one namespace satisfy, and no others. */
export function isOneNamespace({ key, operator, values }: Requirement): boolean {
  return key === 'metadata.namespace' && operator === 'in' && values.length === 1
}

const afterSlash = String.fromCharCode('/'.charCodeAt(0) + 1)

/** The objects of the term that is the cheapest, or all objects of the range if a scan is cheaper. */
function* cheapest(
  snapshot: ModelSnapshot,
  terms: readonly Term[],
  range: KeyRange,
  { after, wanted }: Chunk,
): Work<ByName> {
  const size = range.to - range.from
  const isInOrder = mergesByKey(snapshot, range, after)
  let cost = Infinity
  let fewest = size
  let best: Term | undefined
  for (const term of terms) {
    const members = membersOf(term)
    if (members === undefined) continue
    fewest = Math.min(fewest, members.size)
    const more = isInOrder && isLazy(term) ? term.runs.length * planCosts.search : sortCost(members.size)
    const termCost = members.size * planCosts.gathered + more
    if (termCost > cost) continue
    cost = termCost
    best = term
  }
  // A scan stops at the last wanted object, and the next chunk goes on from there. Collecting starts over.
  const isMerged = best !== undefined && isInOrder && isLazy(best)
  const stops = best !== undefined && !isMerged && wanted < fewest
  const scanned = stops ? (wanted / fewest) * size : size
  if (best === undefined || scanned * planCosts.scanned < cost) {
    return within(snapshot, range, after)
  }
  if (!isMerged) return yield* collected(snapshot, best, after)
  const [run, ...more] = best.runs
  // The positions of names in their index are those of the objects, unless the kind is namespaced.
  const ofNames = !snapshot.indexes.isNamespaced && best.tree === snapshot.view(IndexSet.name).values
  if (ofNames && run !== undefined && more.length === 0) return within(snapshot, run, after)
  yield best.runs.length
  return new MergedRuns(snapshot, best, after)
}

/**
 * Returns true if the objects of one index value are in the order of keys. In a namespaced kind they are ordered by
 * name, which is the same only within one namespace.
 */
function mergesByKey(
  { indexes }: ModelSnapshot,
  { namespace }: KeyRange,
  after: ObjectKey | undefined,
): boolean {
  if (!indexes.isNamespaced) return true
  return namespace !== undefined && (after === undefined || splitObjectKey(after).namespace === namespace)
}

/** Returns true if the objects of a term are found in the order of names, one by one. */
function isLazy({ negated, inNameOrder }: Term): boolean {
  return inNameOrder && !negated
}

/** The objects in a run of positions by key. */
function within({ objects }: ModelSnapshot, { from, to }: Run, after: ObjectKey | undefined): ByName {
  const cursor = objects.cursor(after === undefined ? from : Math.max(from, objects.rank(next(after))))
  return {
    next() {
      if (cursor.position >= to) return undefined
      const { value } = cursor
      cursor.next()
      return value
    },
  }
}

/** The objects that a term selects, collected and sorted. */
function* collected(snapshot: ModelSnapshot, term: Term, after: ObjectKey | undefined): Work<ByName> {
  const found: Candidate[] = []
  const members = membersOf(term)
  const seen = members?.repeats ? new Set<Slot>() : undefined
  if (members !== undefined) {
    yield* members.each(slot => {
      if (seen?.has(slot)) return
      seen?.add(slot)
      const key = keyOfEntry(slot.entry)
      if (after === undefined || compareCodePoints(key, after) > 0) found.push({ key, slot })
    })
  }
  const inOrder = yield* sorted(found, nameOrder)
  let at = 0
  return {
    next() {
      const candidate = inOrder[at++]
      return candidate && snapshot.entryOf(candidate.slot)
    },
  }
}

/** Merges a term's runs by name: a heap holds the next object of each. Names ascend within a run. */
class MergedRuns implements ByName {
  readonly #snapshot: ModelSnapshot
  /** Least name first: the children of i are 2i + 1 and 2i + 2. */
  readonly #heap: RunCursor[] = []
  #last: Slot | undefined

  constructor(snapshot: ModelSnapshot, { tree, runs }: Term, after: ObjectKey | undefined) {
    this.#snapshot = snapshot
    const begin = beginAfter(snapshot, tree, after)
    for (const { from, to } of runs) {
      const first = begin(from)
      if (first < to) this.#heap.push({ cursor: tree.cursor(first), to })
    }
    for (let at = this.#heap.length >> 1; at >= 0; at--) this.#sink(at)
  }

  next(): Entry | undefined {
    for (;;) {
      const [top] = this.#heap
      const slot = top?.cursor.value
      if (top === undefined || slot === undefined) return undefined
      top.cursor.next()
      if (top.cursor.position >= top.to) {
        const last = this.#heap.pop()
        if (last !== undefined && last !== top) this.#heap[0] = last
      }
      this.#sink(0)
      // An object in several runs comes several times in a row.
      if (slot === this.#last) continue
      this.#last = slot
      return this.#snapshot.entryOf(slot)
    }
  }

  #sink(from: number): void {
    let at = from
    for (;;) {
      let least = at
      for (const child of [2 * at + 1, 2 * at + 2]) if (this.#isBefore(child, least)) least = child
      const [one, other] = [this.#heap[at], this.#heap[least]]
      if (least === at || one === undefined || other === undefined) return
      this.#heap[at] = other
      this.#heap[least] = one
      at = least
    }
  }

  #isBefore(left: number, right: number): boolean {
    const [one, other] = [this.#heap[left]?.cursor.value, this.#heap[right]?.cursor.value]
    return one !== undefined && other !== undefined && compareCodePoints(one.name, other.name) < 0
  }
}

/** Returns a function from the beginning of a run to the position of its first object after a key. */
function beginAfter(
  snapshot: ModelSnapshot,
  tree: IndexTree,
  after: ObjectKey | undefined,
): (from: number) => number {
  if (after === undefined) return from => from
  const parts = splitObjectKey(after)
  const last = { name: next(tieOf(parts)) }
  // All objects of a run have one value, except in a range of names, where each has its name.
  if (tree !== snapshot.view(IndexSet.name).values) return from => tree.rank(tree.keyAt(from), last)
  const position = tree.rank(parts.name, last)
  return from => Math.max(from, position)
}

interface RunCursor {
  readonly cursor: Cursor<string, Slot>
  readonly to: number
}

/** The least text after a text: with a zero character. */
function next(text: string): string {
  return `${text}\u0000`
}

const nameOrder = new SortOrder([{ index: IndexSet.name, descending: false }])
