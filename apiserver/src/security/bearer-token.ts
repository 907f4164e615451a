import type { IncomingHttpHeaders } from 'node:http'
import { ApiError } from '@setpoint/controller-runtime/api'

/** Prefix of a WebSocket subprotocol with a token, as in Kubernetes: browsers cannot set headers there. */
const protocolPrefix = 'base64url.bearer.authorization.k8s.io.'

/**
 * Returns the token in the `Authorization` header or in the subprotocols of a WebSocket, or undefined.
 * @throws ApiError 400 if the token in a subprotocol is not base64url, or if no other subprotocol is offered.
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
      'the subprotocol with the token is the only one; also offer a real one, which the server can select',
    )
  }
  const encoded = carrier.slice(protocolPrefix.length)
  if (!/^[A-Za-z0-9_-]+$/.test(encoded))
    throw new ApiError('BadRequest', 'the token in the subprotocol is not base64url without padding')
  return Buffer.from(encoded, 'base64url').toString()
}

/** Returns the offered subprotocols without those that carry a token, which the server never selects. */
export function realProtocols(headers: IncomingHttpHeaders): string[] {
  return offeredProtocols(headers).filter(protocol => !protocol.startsWith(protocolPrefix))
}

function offeredProtocols(headers: IncomingHttpHeaders): string[] {
  const offered = headers['sec-websocket-protocol']?.split(',') ?? []
  return offered.map(protocol => protocol.trim()).filter(protocol => protocol !== '')
}
