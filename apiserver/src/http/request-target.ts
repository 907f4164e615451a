import type { IncomingMessage } from 'node:http'
import { ApiError } from '@setpoint/controller-runtime/api'
import { quote } from '../model/index.ts'

/** The target of a request, not decoded. */
export interface RequestTarget {
  /** Starts with a slash. */
  readonly path: string
  /** Without its question mark. */
  readonly query: string
}

/**
 * Parses a request's target, with or without `http://host` before the path, and checks that it names one host only: a
 * proxy that filters by host must see the same host as this server. Also rejects versions and transfer codings that are
 * not supported.
 * @throws ApiError 400
 */
export function readTarget({ url = '', headers, rawHeaders, httpVersion }: IncomingMessage): RequestTarget {
  // Node's parser also accepts 0.9, which has no headers, and 2.0, which is another protocol.
  if (httpVersion !== '1.1' && httpVersion !== '1.0')
    throw new ApiError('BadRequest', `HTTP/${httpVersion} is not supported here, only HTTP/1.1`)
  const coding = headers['transfer-encoding']
  if (coding !== undefined && coding.toLowerCase() !== 'chunked')
    throw new ApiError('BadRequest', `the transfer coding ${quote(coding)} is not supported, only chunked`)
  let hosts = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]
    if (name?.length === 4 && name.toLowerCase() === 'host') hosts++
  }
  if (hosts > 1) throw new ApiError('BadRequest', 'the request has more than one Host header')
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

/** Rejects malformed encodings, which URLSearchParams would replace or keep silently. */
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
    throw new ApiError('BadRequest', 'the target and the Host header of the request name different hosts')
  return rest.startsWith('/') ? rest : `/${rest}`
}
