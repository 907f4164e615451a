import {
  isVersion,
  objectKey,
  parseRevision,
  type Revision,
  toRevision,
} from '@setpoint/controller-runtime/api'
import type { ModelCache } from '../cache/index.ts'
import { quote } from '../model/index.ts'
import { parseSelector, selectNamespace } from '../query/index.ts'
import { badRequest } from '../registry/index.ts'
import { type WatchRequest, watchDefaults } from '../watch/index.ts'
import type { ResourcePath } from './api-request.ts'
import { withIndexes } from './present-indexes.ts'
import { readBoolean } from './query-parameters.ts'

/** How the transports of a watch differ. */
export interface WatchTransport {
  readonly bookmarksByDefault: boolean
  /**
   * The Last-Event-ID header of an EventSource. It takes precedence over the start in the URL: the EventSource
   * reconnects to the same URL, and would not learn from initial events what was deleted meanwhile.
   */
  readonly lastEventId?: string
}

/** Parses the parameters of a watch, with Kubernetes' rules. @throws ApiError 400 */
export function readWatchRequest(
  cache: ModelCache,
  { namespace, name, ...path }: Pick<ResourcePath, 'namespace' | 'name' | 'group' | 'version'>,
  query: URLSearchParams,
  transport: WatchTransport,
): WatchRequest {
  for (const parameter of ['page', 'size', 'sort', 'continue']) {
    if (query.has(parameter)) throw badRequest(`${parameter} is for lists, not for watches`)
  }
  const after = readVersion(query, transport.lastEventId)
  const sendInitialEvents = readBoolean(query, 'sendInitialEvents')
  const match = query.get('resourceVersionMatch')
  if (match !== null && match !== '' && match !== 'NotOlderThan')
    throw badRequest(`resourceVersionMatch ${quote(match)}: a watch supports only NotOlderThan`)
  const allowBookmarks = readBoolean(query, 'allowWatchBookmarks')
  const version = cache.served.versionAt(path)
  const selector = withIndexes(cache.served, version, indexes => parseSelector(query, indexes))
  const resumes = after !== undefined && Boolean(transport.lastEventId)
  const initialEvents = resumes ? false : (sendInitialEvents ?? after === undefined)
  return {
    key: name === undefined ? undefined : objectKey({ namespace, name }),
    version,
    selector: namespace === undefined || name !== undefined ? selector : selectNamespace(selector, namespace),
    after: initialEvents ? undefined : after,
    // With initial events, the version is the minimum for the initial state.
    notBefore: initialEvents ? after : undefined,
    initialEvents,
    bookmarks: allowBookmarks ?? transport.bookmarksByDefault,
    lifetimeMs: readLifetime(query),
  }
}

/** Returns undefined for a missing version and for 0: both allow any state. */
function readVersion(query: URLSearchParams, lastEventId: string | undefined): Revision | undefined {
  const given = new Set<string>()
  if (lastEventId !== undefined && lastEventId !== '') given.add(lastEventId)
  else {
    for (const parameter of ['version', 'resourceVersion']) {
      for (const value of query.getAll(parameter)) if (value !== '') given.add(value)
    }
  }
  for (const value of given) {
    if (!isVersion(value)) throw badRequest(`the version ${quote(value)} is not a decimal number`)
  }
  if (given.size > 1)
    throw badRequest(`version and resourceVersion differ: ${[...given].map(quote).join(', ')}`)
  const [text] = given
  if (text === undefined || /^0+$/.test(text)) return undefined
  try {
    return parseRevision(text.replace(/^0+/, ''))
  } catch {
    // Larger than any revision: 410 follows, as for every version in the future.
    return toRevision(Number.MAX_SAFE_INTEGER)
  }
}

/** The longest delay of a timer in milliseconds: 24 days. */
const longestTimerMs = 2 ** 31 - 1

function readLifetime(query: URLSearchParams): number {
  const { minLifetimeMs, maxLifetimeMs } = watchDefaults
  const text = query.get('timeoutSeconds')
  if (text !== null && text !== '') {
    if (!/^\d+$/.test(text)) throw badRequest(`timeoutSeconds ${quote(text)} is not a number of seconds`)
    const seconds = Number(text)
    if (seconds > 0) return Math.min(seconds * 1000, longestTimerMs)
  }
  return minLifetimeMs + Math.random() * (maxLifetimeMs - minLifetimeMs)
}
