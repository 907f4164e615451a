import type { Entry } from '../cache/entry.ts'
import type { ModelSnapshot } from '../cache/model-store.ts'
import type { ChunkPaging, ListQuery, PagePaging } from './list-query.ts'
import { entryMatcher } from './match.ts'
import { pageWindow } from './page.ts'
import { entryComparator } from './sort.ts'

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
  /** Name to go on after; absent where nothing follows. */
  readonly next: string | undefined
  /** Objects that follow. As in Kubernetes, counted only where there is no selector. */
  readonly remaining: number | undefined
}

/** Answers a query from one state. */
export function runQuery(snapshot: ModelSnapshot, query: ListQuery & { paging: PagePaging }): PageResult
export function runQuery(snapshot: ModelSnapshot, query: ListQuery & { paging: ChunkPaging }): ChunkResult
export function runQuery(snapshot: ModelSnapshot, query: ListQuery): PageResult | ChunkResult
export function runQuery(snapshot: ModelSnapshot, query: ListQuery): PageResult | ChunkResult {
  const matches = entryMatcher(query.selector, snapshot.indexes)
  const found: Entry[] = []
  snapshot.objects.forEachValue(entry => {
    if (matches(entry)) found.push(entry)
  })
  const { paging } = query
  if (paging.kind === 'page') {
    found.sort(entryComparator(query.sort))
    const { offset, count } = pageWindow(paging, found.length)
    return { kind: 'page', items: found.slice(offset, offset + count), total: found.length }
  }
  const { after, limit } = paging
  const start = after === undefined ? 0 : found.filter(entry => entry.name <= after).length
  const items = found.slice(start, limit === undefined ? undefined : start + limit)
  const remaining = found.length - start - items.length
  return {
    kind: 'chunk',
    items,
    next: remaining > 0 ? items[items.length - 1]?.name : undefined,
    remaining: query.selector.labels.length + query.selector.fields.length === 0 ? remaining : undefined,
  }
}
