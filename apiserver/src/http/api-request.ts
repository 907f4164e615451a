import type { UserInfo } from '@setpoint/controller-runtime'
import type { ObjectView } from '../kubernetes/index.ts'
import type { CallerRights } from '../registry/index.ts'

/** The identified caller of a request. */
export interface Caller {
  readonly user: UserInfo
  /** Name of the plugin that sends the request through its client. */
  readonly plugin: string | undefined
}

/**
 * The parts of `/apis/<group>/<version>/[namespaces/<namespace>/]<plural>[/<name>[/<subresource>]]`, decoded. Paths of the
 * core group begin with `/api/<version>`.
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

/** A request for objects, over HTTP or from a client in this process. */
export interface ApiRequest {
  readonly method: string
  readonly path: ResourcePath
  readonly query: URLSearchParams
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly caller: Caller
  /** What the caller of a write may do besides. Default: everything. */
  readonly rights?: CallerRights | undefined
  /** The form of objects in the response, if it is not their own. */
  readonly view?: ObjectView | undefined
  /** Reads the whole body. @throws ApiError 413 */
  readBody(): Promise<Buffer>
  /** Called with the decoded body, before anything changes it. */
  readonly onDocument?: ((document: unknown) => void) | undefined
  /** Aborts when the client no longer waits for the response. */
  readonly signal?: AbortSignal | undefined
}

export interface ApiResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[]>>
  /** The body, as one buffer or as parts in order. */
  readonly body: Buffer | readonly Buffer[]
  /** Must be called once the body has been sent or dropped. */
  readonly release?: () => void
}

export const requestLimits = Object.freeze({
  /** Bytes of a request's body (Kubernetes' limit). */
  bodyBytes: 3 * 1024 * 1024,
  /** Bytes of a request's line and headers together: room for a selector that is too long, so its error can say so. */
  headerBytes: 256 * 1024,
  /** Bytes read and dropped after an error response, so that a reset does not destroy it. */
  discardedBytes: 16 * 1024 * 1024,
  /** Milliseconds for that. */
  discardMs: 1000,
})

/** The subresources of the kind Namespace, so that they name no kind in the namespace, as in Kubernetes. */
const namespaceSubresources: readonly string[] = ['status', 'finalize']

/**
 * Parses a path. Decodes each segment on its own, so that an encoded slash stays part of its segment.
 * Returns undefined for a path that names neither a collection, an object nor a subresource.
 * @throws URIError for a segment that cannot be decoded
 */
export function parseResourcePath(path: string): ResourcePath | undefined {
  const segments = path.split('/')
  const isCore = segments[1] === 'api'
  if (segments[0] !== '' || (!isCore && segments[1] !== 'apis')) return undefined
  const group = isCore ? '' : segments[2]
  const versionAt = isCore ? 2 : 3
  const version = segments[versionAt]
  if (group === undefined || (group === '' && !isCore) || !version) return undefined
  const namespace = segments[versionAt + 1] === 'namespaces' ? segments[versionAt + 2] : undefined
  const below = segments[versionAt + 3]
  const isNamespaced = namespace && below && !(isCore && namespaceSubresources.includes(below))
  const pluralAt = isNamespaced ? versionAt + 3 : versionAt + 1
  const plural = segments[pluralAt]
  if (!plural || segments.length > pluralAt + 3) return undefined
  const decodedNamespace = isNamespaced ? decode(namespace) : undefined
  // A slash would end the namespace in the object's key.
  if (decodedNamespace?.includes('/')) return undefined
  const name = segments[pluralAt + 1]
  const subresource = segments[pluralAt + 2]
  // Without the name it would be the collection.
  if (!name && subresource !== undefined) return undefined
  return {
    group: decode(group),
    version: decode(version),
    namespace: decodedNamespace,
    plural: decode(plural),
    // Ignores a trailing slash, as Kubernetes does.
    name: name ? decode(name) : undefined,
    subresource: subresource ? decode(subresource) : undefined,
  }
}

function decode(segment: string): string {
  return segment.includes('%') ? decodeURIComponent(segment) : segment
}

/** Returns the first value of a header. */
export function headerOf(headers: ApiRequest['headers'], name: string): string | undefined {
  const value = headers[name]
  return typeof value === 'string' ? value : value?.[0]
}
