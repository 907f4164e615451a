import type { PagePaging } from './list-query.ts'

/** The fields that describe a page in a list. */
interface PageFields {
  readonly page: number
  readonly size: number
  readonly total: number
  readonly totalPages: number
  readonly first: boolean
  readonly last: boolean
  readonly hasNext: boolean
  readonly hasPrevious: boolean
}

/**
 * The page fields of a list. Without a size everything is page 1. A page past the end has a previous page and no next
 * one. If nothing is found, any page is the first and the last.
 */
export function pageFields({ page, size }: Pick<PagePaging, 'page' | 'size'>, total: number): PageFields {
  const totalPages = total === 0 ? 0 : size === undefined ? 1 : Math.ceil(total / size)
  const nothing = total === 0
  return {
    page,
    size: size ?? total,
    total,
    totalPages,
    first: nothing || page === 1,
    last: page >= totalPages,
    hasNext: page < totalPages,
    hasPrevious: !nothing && page > 1,
  }
}

/** The items of a page as positions in the whole result: `count` of them from `offset`. */
export function pageWindow(
  { page, size }: Pick<PagePaging, 'page' | 'size'>,
  total: number,
): { readonly offset: number; readonly count: number } {
  if (size === undefined) return { offset: 0, count: page === 1 ? total : 0 }
  // Beyond 2^53 the product is not exact, but it is beyond every total as well.
  const offset = Math.min((page - 1) * size, total)
  return { offset, count: Math.min(size, total - offset) }
}
