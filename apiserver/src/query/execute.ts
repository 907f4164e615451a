import type { Entry } from '../cache/entry.ts'
import type { Slot } from '../cache/index-tree.ts'
import type { ModelSnapshot } from '../cache/model-snapshot.ts'
import type { PartialSpec } from '../cache/partial-index.ts'
import { partialDefaults } from '../cache/partial-indexes.ts'
import { type OrderView, SortOrder } from '../cache/sort-order.ts'
import type { Turns } from '../cache/turns.ts'
import { type Work, workDefaults } from '../cache/work.ts'
import type { ChunkPaging, ListQuery, PagePaging } from './list-query.ts'
import { matchesEntry } from './match.ts'
import { pageWindow } from './page.ts'
import { PageRequest, type Plan, runPlans } from './plan.ts'
import { selectedByName } from './selected-by-name.ts'
import { compileTerms } from './terms.ts'

export const queryDefaults = Object.freeze({
  /** Microseconds for each object of a page that are no reason to make an index: a large page is sorted for itself. */
  itemCost: 10,
})

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
 * Answers a query from one state, which may take some turns of the event loop. Only index values are read, except of
 * the objects that are answered. A page that costs little is answered in the cheapest of several ways (`PageRequest`);
 * for one that costs much an index of its own is made (`PartialIndexes`), from which this page and every other of that
 * list are then read by position.
 *
 * @param signal gives up, with its reason
 * @throws ApiError 429 when too many long answers are being worked on
 */
export function runQuery(
  snapshot: ModelSnapshot,
  query: ListQuery & { paging: PagePaging },
  turns: Turns,
  signal?: AbortSignal,
): Promise<PageResult>
export function runQuery(
  snapshot: ModelSnapshot,
  query: ListQuery & { paging: ChunkPaging },
  turns: Turns,
  signal?: AbortSignal,
): Promise<ChunkResult>
export function runQuery(
  snapshot: ModelSnapshot,
  query: ListQuery,
  turns: Turns,
  signal?: AbortSignal,
): Promise<PageResult | ChunkResult>
export async function runQuery(
  snapshot: ModelSnapshot,
  query: ListQuery,
  turns: Turns,
  signal?: AbortSignal,
): Promise<PageResult | ChunkResult> {
  const { paging } = query
  if (paging.kind === 'chunk') return turns.run(chunkOf(snapshot, query, paging), signal)
  const plans = requestOf(snapshot, query, new SortOrder(query.sort), paging).plans()
  const cost = spared(plans, paging)
  if (cost >= partialDefaults.repeatedCost) {
    const order = new SortOrder(query.sort)
    if (snapshot.partials.isWorth(partialSpec(snapshot, query, order), cost)) {
      const page = await pageByIndex(snapshot, { ...query, paging }, cost, turns, signal)
      if (page !== undefined) return page
    }
  }
  return turns.run(planned(snapshot, plans), signal)
}

/** A page of an index that is made for this list, if there is none yet; `cost` and undefined as in `PartialIndexes.obtain`. */
export async function pageByIndex(
  snapshot: ModelSnapshot,
  query: ListQuery & { paging: PagePaging },
  cost: number,
  turns: Turns,
  signal?: AbortSignal,
): Promise<PageResult | undefined> {
  const order = new SortOrder(query.sort)
  const spec = partialSpec(snapshot, query, order)
  const fill = () => requestOf(snapshot, query, order, query.paging).all()
  const view = await snapshot.partials.obtain(spec, snapshot, cost, fill, turns, signal)
  return view && turns.run(pageOf(snapshot, view, query.paging), signal)
}

function requestOf(
  snapshot: ModelSnapshot,
  { selector }: ListQuery,
  order: SortOrder,
  paging: PagePaging,
): PageRequest {
  return new PageRequest(snapshot, compileTerms(snapshot, selector), order, total =>
    pageWindow(paging, total),
  )
}

/** Microseconds that an index would spare a page. */
function spared([cheapest]: readonly Plan[], { size }: PagePaging): number {
  if (cheapest === undefined || size === undefined) return 0
  return cheapest.cost - size * queryDefaults.itemCost
}

function partialSpec({ indexes }: ModelSnapshot, { selector }: ListQuery, order: SortOrder): PartialSpec {
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
  yield* selectedByName(snapshot, selector, after, entry => {
    if (items.length < wanted) items.push(entry)
    else more = true
    return !more
  })
  const selecting = selector.labels.length + selector.fields.length > 0
  const remaining = more && !selecting ? snapshot.size - snapshot.objects.rank(items.at(-1)?.name) - 1 : 0
  return {
    kind: 'chunk',
    items,
    next: more ? items.at(-1)?.name : undefined,
    remaining: remaining > 0 ? remaining : undefined,
  }
}
