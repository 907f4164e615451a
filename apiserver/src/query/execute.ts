import { compareCodePoints } from '../cache/code-point-order.ts'
import type { Entry } from '../cache/entry.ts'
import type { Slot } from '../cache/index-tree.ts'
import type { ModelSnapshot } from '../cache/model-store.ts'
import type { ChunkPaging, ListQuery, PagePaging } from './list-query.ts'
import { membersOf } from './members.ts'
import { pageWindow } from './page.ts'
import { planCosts, plansFor, runPlans } from './plan.ts'
import { compileTerms, type Term } from './terms.ts'

/** The objects of one numbered page, and how many there are on all pages. */
export interface PageResult {
  readonly kind: 'page'
  readonly items: readonly Entry[]
  readonly total: number
}

/** The objects of one chunk. */
export interface ChunkResult {
  readonly kind: 'chunk'
  readonly items: readonly Entry[]
  /** Name to go on after; undefined where nothing follows. */
  readonly next: string | undefined
  /** Objects that follow, if any. As in Kubernetes, counted only where there is no selector. */
  readonly remaining: number | undefined
}

/**
 * Answers a query from one state. Only index values are read, except of the objects that are answered; which of
 * several ways is taken, and what each costs, is in `plansFor`.
 */
export function runQuery(snapshot: ModelSnapshot, query: ListQuery & { paging: PagePaging }): PageResult
export function runQuery(snapshot: ModelSnapshot, query: ListQuery & { paging: ChunkPaging }): ChunkResult
export function runQuery(snapshot: ModelSnapshot, query: ListQuery): PageResult | ChunkResult
export function runQuery(snapshot: ModelSnapshot, query: ListQuery): PageResult | ChunkResult {
  const { selector, sort, paging } = query
  const terms = compileTerms(snapshot, selector)
  if (paging.kind === 'chunk') return chunkOf(snapshot, terms, paging)
  const plans = plansFor(snapshot, terms, sort, total => pageWindow(paging, total))
  return { kind: 'page', ...runPlans(plans) }
}

function chunkOf(
  snapshot: ModelSnapshot,
  terms: readonly Term[],
  { limit, after }: ChunkPaging,
): ChunkResult {
  const wanted = limit ?? Infinity
  const items: Entry[] = []
  let more = false
  const visit = (entry: Entry) => {
    if (!terms.every(term => term.test(entry))) return true
    if (items.length < wanted) items.push(entry)
    else more = true
    return !more
  }
  const slots = smallestTerm(snapshot, terms, after)
  let remaining = 0
  if (slots === undefined) {
    const start = after === undefined ? 0 : positionAfter(snapshot, after)
    const cursor = snapshot.objects.cursor(start)
    while (cursor.value !== undefined && visit(cursor.value)) cursor.next()
    if (terms.length === 0) remaining = snapshot.size - start - items.length
  } else {
    for (const slot of slots) if (!visit(snapshot.entryOf(slot))) break
  }
  return {
    kind: 'chunk',
    items,
    next: more ? items[items.length - 1]?.name : undefined,
    remaining: remaining > 0 ? remaining : undefined,
  }
}

function positionAfter(snapshot: ModelSnapshot, name: string): number {
  return snapshot.objects.rank(name) + (snapshot.get(name) === undefined ? 0 : 1)
}

/** The objects of the smallest term after `after`, by name; undefined where looking at every object is cheaper. */
function smallestTerm(
  snapshot: ModelSnapshot,
  terms: readonly Term[],
  after: string | undefined,
): Iterable<Slot> | undefined {
  let cost = snapshot.size * planCosts.scanned
  let smallest: (() => Iterable<Slot>) | undefined
  for (const term of terms) {
    const members = membersOf(snapshot, term)
    if (members === undefined) continue
    const membersCost = members.size * (planCosts.gathered + members.searches * planCosts.search)
    if (membersCost > cost) continue
    cost = membersCost
    smallest = () => {
      if (!term.negated && term.runs.length === 1) return slotsOfRun(term, after)
      const slots = new Set<Slot>()
      members.each(slot => {
        if (after === undefined || compareCodePoints(slot.name, after) > 0) slots.add(slot)
      })
      return [...slots].sort((left, right) => compareCodePoints(left.name, right.name))
    }
  }
  return smallest?.()
}

function* slotsOfRun({ tree, runs: [run] }: Term, after: string | undefined): Iterable<Slot> {
  if (run === undefined) return
  // The name that comes next after any name is that name and a zero.
  const from = after === undefined ? run.from : tree.rank(tree.keyAt(run.from), { name: `${after}\u0000` })
  const cursor = tree.cursor(from)
  for (let left = run.to - from; left > 0; left--) {
    if (cursor.value !== undefined) yield cursor.value
    cursor.next()
  }
}
