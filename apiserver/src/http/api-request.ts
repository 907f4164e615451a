import type { UserInfo } from '@setpoint/controller-runtime'

/** Who makes a request, as the security room has found. */
export interface Caller {
  readonly user: UserInfo
  /** Name of the plugin whose client it is. */
  readonly plugin: string | undefined
}

/** The parts of `/apis/<group>/<version>/<plural>[/<name>[/<subresource>]]`, decoded. */
export interface ResourcePath {
  readonly group: string
  readonly version: string
  readonly plural: string
  readonly name: string | undefined
  readonly subresource: string | undefined
}

/** A request for objects, whichever way it came in: over HTTP, or from a client in this process. */
export interface ApiRequest {
  readonly method: string
  readonly path: ResourcePath
  readonly query: URLSearchParams
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly caller: Caller
  /** Reads the whole body. @throws ApiError 413 above the limit. */
  readBody(): Promise<Buffer>
  /** Aborted when the client no longer wants the answer. */
  readonly signal?: AbortSignal | undefined
}

export interface ApiResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[]>>
  /** The body, whole or in parts to be sent one after another. */
  readonly body: Buffer | readonly Buffer[]
  /** To be called once the body has been sent or is no longer wanted. */
  readonly release?: () => void
}

export const requestLimits = Object.freeze({
  /** Bytes of a request's body (Kubernetes' limit). */
  bodyBytes: 3 * 1024 * 1024,
  /** Bytes of a request's line and headers together: room for a long selector, which is then refused by name. */
  headerBytes: 256 * 1024,
  /** Bytes taken off a connection after a refusal, so that the client gets to read it. */
  discardedBytes: 16 * 1024 * 1024,
  /** Milliseconds that this may take. */
  discardMs: 1000,
})

/**
 * Takes a path apart. Segments are decoded one by one, so that an encoded slash stays part of its segment.
 * @returns undefined when it does not begin with /apis/<group>/<version>/<plural>, or goes deeper than a subresource.
 * @throws URIError when a segment is not decodable.
 */
export function parseResourcePath(path: string): ResourcePath | undefined {
  const [root, apis, group, version, plural, name, subresource, ...deeper] = path.split('/')
  if (root !== '' || apis !== 'apis' || !group || !version || !plural || deeper.length > 0) return undefined
  return {
    group: decode(group),
    version: decode(version),
    plural: decode(plural),
    // A slash at the end is forgiven, as Kubernetes does.
    name: name ? decode(name) : undefined,
    subresource: subresource ? decode(subresource) : undefined,
  }
}

function decode(segment: string): string {
  return segment.includes('%') ? decodeURIComponent(segment) : segment
}

/** The value of a header that may not be repeated. */
export function headerOf(headers: ApiRequest['headers'], name: string): string | undefined {
  const value = headers[name]
  return typeof value === 'string' ? value : value?.[0]
}
