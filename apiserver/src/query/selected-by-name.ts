import type { Selector } from '@setpoint/controller-runtime/api'
import {
  type Candidate,
  type Cursor,
  type Entry,
  type ModelSnapshot,
  type Slot,
  SortOrder,
  sorted,
  type Work,
  workDefaults,
} from '../cache/for-query.ts'
import { compareCodePoints, IndexSet } from '../model/index.ts'
import { testWorkOf } from './match.ts'
import { membersOf } from './members.ts'
import { planCosts } from './plan.ts'
import { compileTerms, type Run, type Term } from './terms.ts'
import { sortCost } from './window.ts'

/** Objects of a snapshot, names ascending, one after another. */
interface ByName {
  next(): Entry | undefined
}

/** A part of the selected objects. */
interface Chunk {
  /** They come after this name. */
  readonly after: string | undefined
  /** Objects that the caller wants, at most. */
  readonly wanted: number
}

/**
 * Visits the selected objects after `after`, in the order of their names. The cost follows the number of objects of the
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
  const source = yield* cheapest(snapshot, terms, chunk)
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

/** The objects of the term that is the cheapest, or all objects if a scan is cheaper. */
function* cheapest(snapshot: ModelSnapshot, terms: readonly Term[], { after, wanted }: Chunk): Work<ByName> {
  const { size } = snapshot
  let cost = Infinity
  let fewest = size
  let best: Term | undefined
  for (const term of terms) {
    const members = membersOf(snapshot, term)
    if (members === undefined) continue
    fewest = Math.min(fewest, members.size)
    const each = planCosts.gathered + members.searches * planCosts.search
    const more = isLazy(term) ? term.runs.length * planCosts.search : sortCost(members.size)
    const termCost = members.size * each + more
    if (termCost > cost) continue
    cost = termCost
    best = term
  }
  // A scan stops at the last wanted object, and the next chunk goes on from there. Collecting starts over.
  const stops = best !== undefined && !isLazy(best) && wanted < fewest
  const scanned = stops ? (wanted / fewest) * size : size
  if (best === undefined || scanned * planCosts.scanned < cost) {
    return within(snapshot, { from: 0, to: size }, after)
  }
  if (!isLazy(best)) return yield* collected(snapshot, best, after)
  const [run, ...more] = best.runs
  // The positions of names in their index are those of the objects.
  const ofNames = best.tree === snapshot.view(IndexSet.name).values
  if (ofNames && run !== undefined && more.length === 0) return within(snapshot, run, after)
  yield best.runs.length
  return new MergedRuns(snapshot, best, after)
}

/** Returns true if the objects of a term are found in the order of names, one by one. */
function isLazy({ negated, inNameOrder }: Term): boolean {
  return inNameOrder && !negated
}

/** The objects in a run of positions by name. */
function within({ objects }: ModelSnapshot, { from, to }: Run, after: string | undefined): ByName {
  const cursor = objects.cursor(after === undefined ? from : Math.max(from, objects.rank(nextName(after))))
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
function* collected(snapshot: ModelSnapshot, term: Term, after: string | undefined): Work<ByName> {
  const found: Candidate[] = []
  const members = membersOf(snapshot, term)
  if (members !== undefined) {
    yield* members.each(slot => {
      if (after === undefined || compareCodePoints(slot.name, after) > 0) found.push({ key: slot.name, slot })
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

  constructor(snapshot: ModelSnapshot, { tree, runs }: Term, after: string | undefined) {
    this.#snapshot = snapshot
    for (const { from, to } of runs) {
      const begin = after === undefined ? from : tree.rank(tree.keyAt(from), { name: nextName(after) })
      if (begin < to) this.#heap.push({ cursor: tree.cursor(begin), to })
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

interface RunCursor {
  readonly cursor: Cursor<string, Slot>
  readonly to: number
}

/** The least string after a name: the name and a zero character. */
function nextName(name: string): string {
  return `${name}\u0000`
}

const nameOrder = new SortOrder([{ index: IndexSet.name, descending: false }])
