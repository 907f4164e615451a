import {
  ApiError,
  isVersion,
  type ObjectKey,
  parseFieldSelector,
  parseLabelSelector,
  type Requirement,
  type Revision,
  type Selector,
  SelectorError,
  selectorLimits,
  splitObjectKey,
  toRevision,
} from '@setpoint/controller-runtime/api'
import type { SortKey } from '../cache/for-query.ts'
import { IndexSet, quote } from '../model/index.ts'
import { decodeContinue } from './continue-token.ts'

/** Numbered pages. Without `size` everything is one page. `page` counts from 1. */
export interface PagePaging {
  readonly kind: 'page'
  readonly page: number
  readonly size: number | undefined
}

/**
 * Kubernetes' chunks, in the order of keys: at most `limit` objects (absent: all) after the key `after` (absent: any).
 */
export interface ChunkPaging {
  readonly kind: 'chunk'
  readonly limit: number | undefined
  readonly after: ObjectKey | undefined
}

/**
 * Which state of the store a list may come from:
 * `latest` sees every write acknowledged before the request; `any` is the cache's present state; `notOlderThan` needs
 * at least a revision; `exact` is the state at a revision, or 410. The revision may be in the future.
 */
export type ReadAt =
  | { readonly kind: 'latest' }
  | { readonly kind: 'any' }
  | { readonly kind: 'notOlderThan'; readonly revision: Revision }
  | { readonly kind: 'exact'; readonly revision: Revision }

/** A list request, checked against the indexes of its model. */
export interface ListQuery {
  readonly selector: Selector
  /**
   * Not empty for pages; empty for chunks, which are in the order of keys. Ties are broken by name and namespace,
   * ascending.
   */
  readonly sort: readonly SortKey[]
  readonly paging: PagePaging | ChunkPaging
  readonly at: ReadAt
}

export const listQueryLimits = Object.freeze({
  /** Sort keys of one list: each is compared for every pair of objects that a sort compares. */
  sortKeys: 4,
})

/**
 * Reads the query parameters of a list. Ignores other parameters.
 * @throws ApiError 400 whose message names the parameter, the term and the reason.
 */
export function parseListQuery(parameters: URLSearchParams, indexes: IndexSet): ListQuery {
  const selector = parseSelector(parameters, indexes)
  if (parameters.has('sendInitialEvents')) refuse('sendInitialEvents', 'is for watches only')
  const sort = parameters.getAll('sort')
  const page = single(parameters, 'page')
  const size = single(parameters, 'size')
  const limit = parseLimit(single(parameters, 'limit'))
  const token = single(parameters, 'continue') || undefined
  if (limit === undefined && token === undefined) {
    return {
      selector,
      sort: sort.length === 0 ? defaultSort : parseSort(sort, indexes),
      paging: {
        kind: 'page',
        page: page === undefined ? 1 : parseCount('page', page),
        size: size === undefined ? undefined : parseCount('size', size),
      },
      at: parseReadAt(parameters, false),
    }
  }
  const chunked = token === undefined ? 'limit' : 'continue'
  for (const other of ['page', 'size', 'sort']) {
    if (parameters.has(other)) refuse(chunked, `cannot be used together with ${other}`)
  }
  if (token === undefined) {
    return {
      selector,
      sort: [],
      paging: { kind: 'chunk', limit, after: undefined },
      at: parseReadAt(parameters, true),
    }
  }
  const resourceVersion = versionParameter(parameters)
  if (resourceVersion !== undefined && !isZero(resourceVersion)) {
    refuse('continue', 'cannot be used together with resourceVersion: the token has it')
  }
  if (single(parameters, 'resourceVersionMatch')) {
    refuse('continue', 'cannot be used together with resourceVersionMatch')
  }
  const { version, after } = decodeContinue(token)
  return {
    selector,
    sort: [],
    paging: { kind: 'chunk', limit, after },
    at: { kind: 'exact', revision: version },
  }
}

/**
 * Reads `labelSelector` and `fieldSelector` of lists, watches and deletions. Repetitions are joined by AND.
 * @throws ApiError 400 whose message names the parameter, the term and the reason.
 */
export function parseSelector(parameters: URLSearchParams, indexes: IndexSet): Selector {
  const labels = requirements('labelSelector', parameters, parseLabelSelector)
  const fields = requirements('fieldSelector', parameters, parseFieldSelector)
  if (labels.length + fields.length > 0) checkBounds(parameters, labels.length + fields.length)
  for (const { key } of fields) {
    if (indexes.indexOf(key) === undefined) refuse('fieldSelector', notIndexed(key, indexes))
  }
  return { labels, fields }
}

/**
 * Limits a list to the objects of a namespace.
 * @throws ApiError 400 for a token of another namespace
 */
export function inNamespace(query: ListQuery, namespace: string): ListQuery {
  const { selector, paging } = query
  const after = paging.kind === 'chunk' ? paging.after : undefined
  if (after !== undefined && splitObjectKey(after).namespace !== namespace)
    refuse('continue', 'the token is of another namespace')
  return { ...query, selector: selectNamespace(selector, namespace) }
}

/** Limits a selector to the objects of a namespace. */
export function selectNamespace({ labels, fields }: Selector, namespace: string): Selector {
  return { labels, fields: [{ key: 'metadata.namespace', operator: 'in', values: [namespace] }, ...fields] }
}

/** @throws ApiError 400 */
function checkBounds(parameters: URLSearchParams, terms: number): void {
  if (terms > selectorLimits.terms)
    refuse('selectors', `have ${terms} terms together, at most ${selectorLimits.terms} are allowed`)
  let bytes = 0
  for (const parameter of ['labelSelector', 'fieldSelector']) {
    for (const text of parameters.getAll(parameter)) bytes += Buffer.byteLength(text)
  }
  if (bytes > selectorLimits.bytes)
    refuse('selectors', `have ${bytes} bytes together, at most ${selectorLimits.bytes} are allowed`)
}

/** Newest first. */
const defaultSort: readonly SortKey[] = Object.freeze([
  Object.freeze({ index: IndexSet.creationTimestamp, descending: true }),
])

function requirements(
  parameter: string,
  parameters: URLSearchParams,
  parse: (...texts: string[]) => Requirement[],
): readonly Requirement[] {
  try {
    return parse(...parameters.getAll(parameter))
  } catch (error) {
    if (error instanceof SelectorError) refuse(parameter, error.message)
    throw error
  }
}

function parseSort(terms: readonly string[], indexes: IndexSet): readonly SortKey[] {
  if (terms.length > listQueryLimits.sortKeys) {
    refuse('sort', `has ${terms.length} keys, at most ${listQueryLimits.sortKeys} are allowed`)
  }
  const keys = terms.map(term => {
    if (term === '') refuse('sort', 'is empty, expected <field>[,asc|desc]')
    const [field = '', direction, ...more] = term.split(',')
    const refuseTerm = (why: string) => refuse('sort', `${quote(term)}: ${why}`)
    if (field === '') return refuseTerm('the field is empty, expected <field>[,asc|desc]')
    const index = indexes.indexOf(field)
    if (index === undefined) return refuseTerm(notIndexed(field, indexes))
    if (more.length > 0)
      return refuseTerm('one field and one direction a sort, repeat the parameter for more')
    switch (direction) {
      case undefined:
        return { index, descending: indexes.specs[index]?.order === 'DESC' }
      case 'asc':
        return { index, descending: false }
      case 'desc':
        return { index, descending: true }
      case '':
        return refuseTerm('the direction is empty, expected asc or desc')
      default:
        return refuseTerm(`unknown direction ${quote(direction)}, expected asc or desc`)
    }
  })
  // No two objects have the same name, so further keys have no effect.
  const name = indexes.isNamespaced ? -1 : keys.findIndex(({ index }) => index === IndexSet.name)
  return name < 0 ? keys : keys.slice(0, name + 1)
}

/** 1, 2, 3, …: decimal digits and nothing else. */
function parseCount(parameter: string, text: string): number {
  const count = parseInteger(parameter, text)
  if (count === 0) refuse(parameter, `${quote(text)}: counts from 1`)
  return count
}

/** As in Kubernetes, 0 means no limit. */
function parseLimit(text: string | undefined): number | undefined {
  if (text === undefined || text === '') return undefined
  return parseInteger('limit', text) || undefined
}

function parseInteger(parameter: string, text: string): number {
  if (!/^\d+$/.test(text)) refuse(parameter, `${quote(text)}: must be a whole number in decimal digits`)
  const value = Number(text)
  if (!Number.isSafeInteger(value)) refuse(parameter, `${quote(text)}: is too large`)
  return value
}

/**
 * Kubernetes' table of `resourceVersion` and `resourceVersionMatch`:
 *
 *     none                      latest          N without match             not older than N, exactly N with a limit
 *     0, 0 NotOlderThan         any             N NotOlderThan, N Exact     as named
 *     0 Exact, a match alone    refused
 */
function parseReadAt(parameters: URLSearchParams, limited: boolean): ReadAt {
  const version = versionParameter(parameters)
  const match = single(parameters, 'resourceVersionMatch') || undefined
  if (match !== undefined && match !== 'Exact' && match !== 'NotOlderThan') {
    refuse('resourceVersionMatch', `${quote(match)}: expected Exact or NotOlderThan`)
  }
  if (version === undefined) {
    if (match !== undefined) refuse('resourceVersionMatch', 'needs a resourceVersion')
    return latest
  }
  if (isZero(version)) {
    if (match === 'Exact') refuse('resourceVersionMatch', 'Exact needs a resourceVersion above 0')
    return { kind: 'any' }
  }
  const revision = reachableRevision(version)
  const exact = match === 'Exact' || (match === undefined && limited)
  return { kind: exact ? 'exact' : 'notOlderThan', revision }
}

const latest: ReadAt = Object.freeze({ kind: 'latest' })

/**
 * Reads the version that a read of one object asks for. As in Kubernetes, there is no match: N is the least version.
 * @throws ApiError 400
 */
export function parseObjectReadAt(parameters: URLSearchParams): ReadAt {
  const version = parameters.size === 0 ? undefined : versionParameter(parameters)
  if (version === undefined) return latest
  return isZero(version) ? { kind: 'any' } : { kind: 'notOlderThan', revision: reachableRevision(version) }
}

/** Reads `version`, which may also be given as `resourceVersion`. */
function versionParameter(parameters: URLSearchParams): string | undefined {
  let known: string | undefined
  for (const parameter of ['version', 'resourceVersion']) {
    const text = single(parameters, parameter)
    if (text === undefined || text === '') continue
    if (!isVersion(text)) refuse(parameter, `${quote(text)}: must be a decimal number`)
    const version = text.replace(/^0+(?=\d)/, '')
    if (known !== undefined && known !== version) {
      refuse(parameter, `${quote(text)}: version and resourceVersion must be equal`)
    }
    known = version
  }
  return known
}

function isZero(version: string): boolean {
  return version === '0'
}

/** No store reaches the largest safe integer, so a larger version is in the future, too. */
function reachableRevision(version: string): Revision {
  const value = Number(version)
  return toRevision(Number.isSafeInteger(value) ? value : Number.MAX_SAFE_INTEGER)
}

function single(parameters: URLSearchParams, parameter: string): string | undefined {
  const values = parameters.getAll(parameter)
  if (values.length > 1) refuse(parameter, `is given ${values.length} times, expected once`)
  return values[0]
}

function notIndexed(field: string, indexes: IndexSet): string {
  return `${quote(field)} is not an index of this kind; the indexes are ${indexes.names.join(', ')}`
}

function refuse(parameter: string, why: string): never {
  throw new ApiError('BadRequest', `${parameter}: ${why}`)
}
