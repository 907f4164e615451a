import type { ObjectKey } from '@setpoint/controller-runtime/api'
import {
  type Entry,
  keyOfEntry,
  type ListIndexSpec,
  listIndexDefaults,
  type ModelSnapshot,
  type OrderView,
  type Slot,
  SortOrder,
} from '../cache/for-query.ts'
import { type FairScheduler, type Work, type WorkOwner, workDefaults } from '../scheduling/index.ts'
import type { ChunkPaging, ListQuery, PagePaging } from './list-query.ts'
import { matchesEntry } from './match.ts'
import { pageWindow } from './page.ts'
import { PageRequest, type Plan, runPlans } from './plan.ts'
import { rangeOf, selectedByName } from './selected-by-name.ts'
import { compileTerms } from './terms.ts'

export const queryDefaults = Object.freeze({
  /** Microseconds allowed for each object of a page before an index pays: a large page is sorted each time. */
  itemCost: 10,
})

/** The objects of one numbered page, and the number of objects on all pages. */
interface PageResult {
  readonly kind: 'page'
  readonly items: readonly Entry[]
  readonly total: number
}

/** The objects of one chunk. */
interface ChunkResult {
  readonly kind: 'chunk'
  readonly items: readonly Entry[]
  /** The key of this chunk's last object, where the next chunk begins; undefined for the last chunk. */
  readonly next: ObjectKey | undefined
  /** Objects after this chunk, if any. As in Kubernetes, counted only without a selector, a namespace aside. */
  readonly remaining: number | undefined
}

/**
 * Runs a query on one state, which may take some turns of the event loop. Reads only index values, except of the
 * objects that it returns. A cheap page is read in the cheapest of several ways (`PageRequest`). An expensive
 * list gets an index (`ListIndexes`), and its pages are read from there by position.
 *
 * @throws ApiError 429 when too many long lists are under way; the reason of the owner's signal
 */
export function runQuery(
  snapshot: ModelSnapshot,
  query: ListQuery & { paging: PagePaging },
  scheduler: FairScheduler,
  owner: WorkOwner,
): Promise<PageResult>
export function runQuery(
  snapshot: ModelSnapshot,
  query: ListQuery & { paging: ChunkPaging },
  scheduler: FairScheduler,
  owner: WorkOwner,
): Promise<ChunkResult>
export function runQuery(
  snapshot: ModelSnapshot,
  query: ListQuery,
  scheduler: FairScheduler,
  owner: WorkOwner,
): Promise<PageResult | ChunkResult>
export async function runQuery(
  snapshot: ModelSnapshot,
  query: ListQuery,
  scheduler: FairScheduler,
  owner: WorkOwner,
): Promise<PageResult | ChunkResult> {
  const { paging } = query
  if (paging.kind === 'chunk') return scheduler.run(chunkOf(snapshot, query, paging), snapshot.size, owner)
  const order = new SortOrder(query.sort)
  const paged = { ...query, paging }
  const answer = await scheduler.run(pageOrCost(snapshot, paged, order), snapshot.size, owner)
  if (typeof answer === 'object') return answer
  return (
    (await pageByIndex(snapshot, paged, answer, scheduler, owner)) ??
    scheduler.run(plannedPage(snapshot, paged, order), snapshot.size, owner)
  )
}

/**
 * Returns a page of an index for this list, which is built if it is missing.
 * @param cost microseconds that the index saves a page
 * @returns undefined as `ListIndexes.obtain`
 */
export async function pageByIndex(
  snapshot: ModelSnapshot,
  query: PageQuery,
  cost: number,
  scheduler: FairScheduler,
  owner: WorkOwner,
): Promise<PageResult | undefined> {
  const order = new SortOrder(query.sort)
  const spec = listIndexSpec(snapshot, query, order)
  function* fill() {
    const request = yield* requestOf(snapshot, query, order)
    return yield* request.all()
  }
  const view = await snapshot.listIndexes.obtain(spec, snapshot, cost, fill, scheduler, owner)
  return view && scheduler.run(pageOf(snapshot, view, query.paging), view.size, owner)
}

type PageQuery = ListQuery & { readonly paging: PagePaging }

/** The page, or what an index would save it where that is worth one. */
function* pageOrCost(snapshot: ModelSnapshot, query: PageQuery, order: SortOrder): Work<PageResult | number> {
  const plans = (yield* requestOf(snapshot, query, order)).plans()
  const cost = savedByIndex(plans, query.paging)
  const isExpensive = cost >= listIndexDefaults.repeatedCost
  if (isExpensive && snapshot.listIndexes.isWorth(listIndexSpec(snapshot, query, order), cost)) return cost
  return yield* planned(snapshot, plans)
}

function* plannedPage(snapshot: ModelSnapshot, query: PageQuery, order: SortOrder): Work<PageResult> {
  return yield* planned(snapshot, (yield* requestOf(snapshot, query, order)).plans())
}

function* requestOf(
  snapshot: ModelSnapshot,
  { selector, paging }: PageQuery,
  order: SortOrder,
): Work<PageRequest> {
  const terms = yield* compileTerms(snapshot, selector)
  return new PageRequest(snapshot, terms, order, total => pageWindow(paging, total))
}

/** Microseconds that an index would save a page. */
function savedByIndex([cheapest]: readonly Plan[], { size }: PagePaging): number {
  if (cheapest === undefined || size === undefined) return 0
  return cheapest.cost - size * queryDefaults.itemCost
}

function listIndexSpec({ indexes }: ModelSnapshot, { selector }: ListQuery, order: SortOrder): ListIndexSpec {
  const terms = ({ key, operator, values }: (typeof selector.labels)[number]) =>
    JSON.stringify([key, operator, [...values].sort()])
  return {
    id: JSON.stringify([selector.labels.map(terms).sort(), selector.fields.map(terms).sort(), order.keys]),
    order,
    selects: entry => matchesEntry(entry, selector, indexes),
  }
}

function* planned(snapshot: ModelSnapshot, plans: readonly Plan[]): Work<PageResult> {
  const { slots, total } = yield* runPlans(plans)
  return { kind: 'page', items: yield* entriesOf(snapshot, slots), total }
}

function* pageOf(snapshot: ModelSnapshot, view: OrderView, paging: PagePaging): Work<PageResult> {
  const { offset, count } = pageWindow(paging, view.size)
  const slots: Slot[] = []
  for (let at = offset; at < offset + count; at += workDefaults.stride) {
    const end = Math.min(offset + count, at + workDefaults.stride)
    view.forEachValue(slot => slots.push(slot), at, end)
    yield end - at
  }
  return { kind: 'page', items: yield* entriesOf(snapshot, slots), total: view.size }
}

function* entriesOf(snapshot: ModelSnapshot, slots: readonly Slot[]): Work<Entry[]> {
  const entries: Entry[] = []
  for (const slot of slots) {
    entries.push(snapshot.entryOf(slot))
    if (entries.length % workDefaults.stride === 0) yield workDefaults.stride
  }
  return entries
}

function* chunkOf(
  snapshot: ModelSnapshot,
  { selector }: ListQuery,
  { limit, after }: ChunkPaging,
): Work<ChunkResult> {
  const wanted = limit ?? Infinity
  const items: Entry[] = []
  let more = false
  // One more shows whether there is a next chunk.
  yield* selectedByName(snapshot, selector, { after, wanted: wanted + 1 }, entry => {
    if (items.length < wanted) items.push(entry)
    else more = true
    return !more
  })
  const last = items.at(-1)
  const next = more && last !== undefined ? keyOfEntry(last) : undefined
  const { namespace, to } = rangeOf(snapshot, selector)
  const selecting = selector.labels.length + selector.fields.length > (namespace === undefined ? 0 : 1)
  const remaining = next !== undefined && !selecting ? to - snapshot.objects.rank(next) - 1 : 0
  return {
    kind: 'chunk',
    items,
    next,
    remaining: remaining > 0 ? remaining : undefined,
  }
}
