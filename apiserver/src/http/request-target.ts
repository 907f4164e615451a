import type { IncomingMessage } from 'node:http'
import { ApiError } from '@setpoint/controller-runtime/api'

/** What a request is about, as it was sent: nothing is decoded or resolved. */
export interface RequestTarget {
  /** Begins with a slash. */
  readonly path: string
  /** Without its question mark. */
  readonly query: string
}

/**
 * Reads a request's target, `/path?query` or with `http://host` before it, and checks that it is for one host only:
 * what guards the server by its name must not be shown another than a proxy before it has seen.
 * @throws ApiError 400
 */
export function readTarget({ url = '', headers, rawHeaders, httpVersion }: IncomingMessage): RequestTarget {
  // The parser also takes 0.9, which has no headers, and 2.0, which is another protocol.
  if (httpVersion !== '1.1' && httpVersion !== '1.0')
    throw new ApiError('BadRequest', `HTTP/${httpVersion} is not served on this connection, only HTTP/1.1 is`)
  let hosts = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]
    if (name?.length === 4 && name.toLowerCase() === 'host') hosts++
  }
  if (hosts > 1) throw new ApiError('BadRequest', 'the request has several Host headers')
  if (hosts === 0 && httpVersion === '1.1') throw new ApiError('BadRequest', 'the request has no Host header')
  return splitTarget(url.startsWith('/') ? url : pathOfUrl(url, headers.host))
}

/** @throws ApiError 400 for a target with a fragment, or with a query that is not properly percent-encoded */
export function splitTarget(target: string): RequestTarget {
  if (target.includes('#')) throw new ApiError('BadRequest', 'the target of the request has a fragment')
  const at = target.indexOf('?')
  if (at < 0) return { path: target, query: '' }
  const query = target.slice(at + 1)
  checkQuery(query)
  return { path: target.slice(0, at), query }
}

/** What is read of a query puts another character for bytes that are none, and lets a `%` stand that encodes nothing. */
function checkQuery(query: string): void {
  if (!query.includes('%')) return
  try {
    decodeURIComponent(query)
  } catch {
    throw new ApiError('BadRequest', 'the query is not properly percent-encoded')
  }
}

function pathOfUrl(url: string, host: string | undefined): string {
  const match = /^https?:\/\/([^/?#]*)(.*)$/i.exec(url)
  const [, authority = '', rest = ''] = match ?? []
  if (match === null || !URL.canParse(url))
    throw new ApiError('BadRequest', 'the target of the request is neither a path nor a well-formed URL')
  if (host !== undefined && authority.toLowerCase() !== host.toLowerCase())
    throw new ApiError('BadRequest', 'the target of the request names another host than the Host header')
  return rest.startsWith('/') ? rest : `/${rest}`
}
