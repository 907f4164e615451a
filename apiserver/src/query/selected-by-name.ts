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
import { compileTerms, type Term } from './terms.ts'

/** Objects of a snapshot, names ascending, one after another. */
interface ByName {
  next(): Entry | undefined
}

/**
 * Visits the selected objects after `after`, in the order of their names. The cost follows the number of objects of the
 * smallest term in that range.
 * @param visit returns whether to go on
 */
export function* selectedByName(
  snapshot: ModelSnapshot,
  selector: Selector,
  after: string | undefined,
  visit: (entry: Entry) => boolean,
): Work<void> {
  const terms = yield* compileTerms(snapshot, selector)
  const each = testWorkOf(terms.length)
  const source = yield* smallest(snapshot, terms, after)
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

/** The objects of the smallest term after `after`, or all objects if a scan is cheaper. */
function* smallest(snapshot: ModelSnapshot, terms: readonly Term[], after: string | undefined): Work<ByName> {
  let cost = snapshot.size * planCosts.scanned
  let cheapest: Term | undefined
  for (const term of terms) {
    const members = membersOf(snapshot, term)
    if (members === undefined) continue
    const each = planCosts.gathered + members.searches * planCosts.search
    const termCost = members.size * each + term.runs.length * planCosts.search
    if (termCost > cost) continue
    cost = termCost
    cheapest = term
  }
  if (cheapest === undefined) return everything(snapshot, after)
  if (cheapest.negated) return yield* outside(snapshot, cheapest, after)
  yield cheapest.runs.length
  return new MergedRuns(snapshot, cheapest, after)
}

function everything(snapshot: ModelSnapshot, after: string | undefined): ByName {
  const from = after === undefined ? 0 : snapshot.objects.rank(nextName(after))
  const cursor = snapshot.objects.cursor(from)
  return {
    next() {
      const { value } = cursor
      cursor.next()
      return value
    },
  }
}

/** The objects that a negated term selects, collected and sorted. */
function* outside(snapshot: ModelSnapshot, term: Term, after: string | undefined): Work<ByName> {
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
