import type { IncomingHttpHeaders } from 'node:http'
import { ApiError } from '@setpoint/controller-runtime/api'

/** What stands before the token in a sub-protocol: how a browser, which can set no header, shows it (as in Kubernetes). */
const protocolPrefix = 'base64url.bearer.authorization.k8s.io.'

/**
 * The token of a request: of the header `Authorization`, or of a WebSocket's sub-protocols.
 * @returns undefined where there is none.
 * @throws ApiError 400 for a sub-protocol with a token that stands alone, or that is not base64url.
 */
export function bearerTokenOf(headers: IncomingHttpHeaders): string | undefined {
  const { authorization } = headers
  if (authorization !== undefined) return /^Bearer +(\S+) *$/i.exec(authorization)?.[1]
  const offered = offeredProtocols(headers)
  const carrier = offered.find(protocol => protocol.startsWith(protocolPrefix))
  if (carrier === undefined) return undefined
  if (realProtocols(headers).length === 0) {
    throw new ApiError(
      'BadRequest',
      'a sub-protocol with a token needs a real one beside it: a browser wants to see that chosen',
    )
  }
  const encoded = carrier.slice(protocolPrefix.length)
  if (!/^[A-Za-z0-9_-]+$/.test(encoded))
    throw new ApiError('BadRequest', 'the token in the sub-protocol is not base64url without padding')
  return Buffer.from(encoded, 'base64url').toString()
}

/** The sub-protocols that a client offers, without those that carry a token: they are never answered. */
export function realProtocols(headers: IncomingHttpHeaders): string[] {
  return offeredProtocols(headers).filter(protocol => !protocol.startsWith(protocolPrefix))
}

function offeredProtocols(headers: IncomingHttpHeaders): string[] {
  const offered = headers['sec-websocket-protocol']?.split(',') ?? []
  return offered.map(protocol => protocol.trim()).filter(protocol => protocol !== '')
}
