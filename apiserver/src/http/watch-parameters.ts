import { isVersion, parseRevision, type Revision, toRevision } from '@setpoint/controller-runtime/api'
import type { ModelCache } from '../cache/index.ts'
import { parseSelector } from '../query/index.ts'
import { badRequest } from '../registry/index.ts'
import { type WatchRequest, watchDefaults } from '../watch/index.ts'

/** The transports differ in whether bookmarks come without being asked for. */
export interface WatchTransport {
  readonly bookmarksByDefault: boolean
  /** Beats a version in the URL: what an EventSource sends when it comes back. */
  readonly lastEventId?: string | undefined
}

/**
 * Reads what a watch asks for: the contract's section 6, Kubernetes' rules where it is silent.
 * @throws ApiError 400
 */
export function readWatchRequest(
  cache: ModelCache,
  name: string | undefined,
  query: URLSearchParams,
  transport: WatchTransport,
): WatchRequest {
  for (const parameter of ['page', 'size', 'sort', 'continue']) {
    if (query.has(parameter)) throw badRequest(`${parameter} is for lists, a watch does not take it`)
  }
  const after = readVersion(query, transport.lastEventId)
  const sendInitialEvents = readBoolean(query, 'sendInitialEvents')
  const match = query.get('resourceVersionMatch')
  if (match !== null && match !== '' && match !== 'NotOlderThan')
    throw badRequest(`resourceVersionMatch ${JSON.stringify(match)}: a watch only takes NotOlderThan`)
  const allowBookmarks = readBoolean(query, 'allowWatchBookmarks')
  const initialEvents = sendInitialEvents ?? after === undefined
  return {
    name,
    selector: parseSelector(query, cache.served.indexes),
    after: initialEvents ? undefined : after,
    // With both, the version only says how new the initial state must be.
    notBefore: initialEvents ? after : undefined,
    initialEvents,
    bookmarks: allowBookmarks ?? transport.bookmarksByDefault,
    lifetimeMs: readLifetime(query),
  }
}

/** Undefined for no version and for 0, which both mean: whatever there is. */
function readVersion(query: URLSearchParams, lastEventId: string | undefined): Revision | undefined {
  const given = new Set<string>()
  if (lastEventId !== undefined && lastEventId !== '') given.add(lastEventId)
  else {
    for (const parameter of ['version', 'resourceVersion']) {
      for (const value of query.getAll(parameter)) if (value !== '') given.add(value)
    }
  }
  for (const value of given) {
    if (!isVersion(value))
      throw badRequest(`the version ${JSON.stringify(value.slice(0, 40))} is not a decimal number`)
  }
  if (given.size > 1) throw badRequest(`version and resourceVersion differ: ${[...given].join(', ')}`)
  const [text] = given
  if (text === undefined || /^0+$/.test(text)) return undefined
  try {
    return parseRevision(text.replace(/^0+/, ''))
  } catch {
    // Beyond every revision that a store can reach: later than the present, which is answered with 410.
    return toRevision(Number.MAX_SAFE_INTEGER)
  }
}

/**
 * Whether a parameter is true; undefined where it is not there. As in Kubernetes, whose clients write `True` as well, one
 * without a value (`?watch`) is true. @throws ApiError 400
 */
export function readBoolean(query: URLSearchParams, parameter: string): boolean | undefined {
  const value = query.get(parameter)
  switch (value?.toLowerCase()) {
    case undefined:
      return undefined
    case '':
    case 'true':
    case '1':
      return true
    case 'false':
    case '0':
      return false
    default:
      throw badRequest(`${parameter} ${JSON.stringify(value)} is not true or false`)
  }
}

/** What a timer takes at most, in milliseconds: 24 days. */
const longestTimerMs = 2 ** 31 - 1

function readLifetime(query: URLSearchParams): number {
  const { minLifetimeMs, maxLifetimeMs } = watchDefaults
  const text = query.get('timeoutSeconds')
  if (text !== null && text !== '') {
    if (!/^\d+$/.test(text))
      throw badRequest(`timeoutSeconds ${JSON.stringify(text)} is not a number of seconds`)
    const seconds = Number(text)
    if (seconds > 0) return Math.min(seconds * 1000, longestTimerMs)
  }
  return minLifetimeMs + Math.random() * (maxLifetimeMs - minLifetimeMs)
}
