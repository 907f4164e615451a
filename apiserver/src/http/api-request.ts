import type { UserInfo } from '@setpoint/controller-runtime'
import type { ObjectView } from '../kubernetes/index.ts'
import type { CallerRights, WriteNotes } from '../registry/index.ts'

/** The identified caller of a request. */
export interface Caller {
  readonly user: UserInfo
  /** Whose turns and shares the request takes (`payerOf`). */
  readonly payer: string
  /** Name of the plugin that sends the request through its client. */
  readonly plugin: string | undefined
}

/**
 * The parts of `/apis/<group>/<version>/[namespaces/<namespace>/]<plural>[/<name>[/<subresource>]]`, decoded. Paths of
 * the core group begin with `/api/<version>`.
 */
export interface ResourcePath {
  /** Empty for the core group. */
  readonly group: string
  readonly version: string
  /** Undefined for a cluster-scoped kind, and for a namespaced one across all namespaces. */
  readonly namespace: string | undefined
  readonly plural: string
  readonly name: string | undefined
  readonly subresource: string | undefined
}

/** Where the time of a request goes, in milliseconds. */
export interface RequestTimes {
  /** Waiting for its turn, or for room for a long list. */
  queueMs: number
  /** Waiting for its body. */
  bodyMs: number
  /** Waiting for the store: for its latest version, or for a commit. */
  storeMs: number
}

/** A request for objects, over HTTP or from a client in this process. */
export interface ApiRequest {
  readonly method: string
  readonly path: ResourcePath
  readonly query: URLSearchParams
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly caller: Caller
  /** What the caller of a write may do besides. Default: everything. */
  readonly rights?: CallerRights
  /** The form of objects in the response, if it is not their own. */
  readonly view?: ObjectView
  /** Gets what the request waits for. Default: nobody measures it. */
  readonly times?: RequestTimes
  /** Decides again whether the caller may read, by the present roles. @throws ApiError 403 */
  authorize?(): void
  /** Reads the whole body. @throws ApiError 413 */
  readBody(): Promise<Buffer>
  /**
   * Waits for another turn of the caller, in a request that does the work of many. Returns undefined if the work may go
   * on at once. @throws ApiError 429
   */
  turn?(): Promise<void> | undefined
  /** Gets what policies and webhooks tell. Default: nobody is told. */
  readonly notes?: WriteNotes
  /** Called with the decoded body, before anything changes it. */
  readonly onDocument?: (document: unknown) => void
  /** Aborts when the client no longer waits for the response. Undefined for requests that are usually short. */
  readonly signal?: AbortSignal
  /** Returns such a signal for any request. Making one takes several microseconds. */
  whenGone?(): AbortSignal | undefined
}

export interface ApiResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[]>>
  /** The body, as one buffer or as parts in order. */
  readonly body: Buffer | readonly Buffer[]
  /** The name of the object that the request has created. */
  readonly created?: string
  /** Must be called once the body has been sent or dropped. */
  readonly release?: () => void
}

export const requestLimits = Object.freeze({
  /** Bytes of a request's body (Kubernetes' limit). */
  bodyBytes: 3 * 1024 * 1024,
  /**
   * Bytes of a request's line and headers together. The line needs 48 KiB for selectors of 16 KiB with every byte
   * percent-encoded. The rest is for tokens and the groups of impersonated users.
   */
  headerBytes: 128 * 1024,
  /** Bytes of a header's value, except for tokens, cookies and impersonated users: what common proxies forward. */
  headerValueBytes: 8 * 1024,
  /** Bytes read and dropped after an error response, so that a reset does not destroy it. */
  discardedBytes: 16 * 1024 * 1024,
  /** Milliseconds for that. */
  discardMs: 1000,
})

/** A path in the form of a resource. */
export interface ParsedPath extends ResourcePath {
  /** False for a path that can name no object, because it lacks a part or has more of them. */
  readonly isComplete: boolean
}

/** The subresources of the kind Namespace, so that they name no kind in the namespace, as in Kubernetes. */
const namespaceSubresources: readonly string[] = ['status', 'finalize']

/**
 * Parses a path in the form of a resource, whether or not anything is served there. As in Kubernetes, ignores a
 * trailing slash, and what follows the subresource. Decodes each segment on its own, so that an encoded slash stays
 * part of its segment. Returns undefined for any other path.
 * @throws URIError for a segment that cannot be decoded
 */
export function parseResourcePath(path: string): ParsedPath | undefined {
  const segments = path.split('/')
  const isCore = segments[1] === 'api'
  if (segments[0] !== '' || (!isCore && segments[1] !== 'apis')) return undefined
  const parts = path.includes('%') ? segments.map(decodeURIComponent) : segments
  const start = isCore ? 3 : 4
  const group = isCore ? '' : (parts[2] ?? '')
  const version = parts[start - 1] ?? ''
  const below = parts[start] === 'namespaces' ? parts[start + 2] : undefined
  const isNamespaced = below && !(isCore && namespaceSubresources.includes(below))
  const namespace = isNamespaced ? parts[start + 1] : undefined
  const at = isNamespaced ? start + 2 : start
  const plural = parts[at]
  const name = parts[at + 1]
  const subresource = parts[at + 2]
  if (plural === undefined || (plural === '' && name === undefined)) return undefined
  const lacksPart =
    version === '' ||
    plural === '' ||
    namespace === '' ||
    (group === '' && !isCore) ||
    // Without the name it would be the collection.
    (name === '' && subresource !== undefined)
  // An encoded slash would end the namespace in the object's key, and turn a resource into another one's subresource in
  // roles and audit policies. In a name it does neither.
  const hasSlash = [group, version, namespace, plural, subresource].some(part => part?.includes('/'))
  return {
    group,
    version,
    namespace,
    plural,
    name: name || undefined,
    subresource: subresource || undefined,
    isComplete: !lacksPart && !hasSlash && parts.length <= at + 3,
  }
}

/** A path with `watch/` before the resource. */
const watchPath = /^(\/api\/[^/]+|\/apis\/[^/]+\/[^/]+)\/watch(\/.+)$/s

/**
 * Returns the path that `/api/<version>/watch/...` or `/apis/<group>/<version>/watch/...` is about, or undefined for
 * another.
 */
export function withoutWatch(path: string): string | undefined {
  const [, root, rest] = watchPath.exec(path) ?? []
  return rest === undefined ? undefined : `${root}${rest}`
}

/** Returns the first value of a header. */
export function headerOf(headers: ApiRequest['headers'], name: string): string | undefined {
  const value = headers[name]
  return typeof value === 'string' ? value : value?.[0]
}
