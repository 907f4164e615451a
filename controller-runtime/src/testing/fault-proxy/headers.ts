import type { IncomingMessage } from 'node:http'
import { ApiError } from '../../api/errors.ts'

/**
 * Returns the raw headers of a request to the server: the client's, with the proxy's changes. `legible`: the response
 * will be parsed, so it must not be compressed.
 */
export function headersFor(
  { rawHeaders, headers }: IncomingMessage,
  target: URL,
  legible: boolean,
): string[] {
  const isUpgrade = headers.upgrade !== undefined
  const result = ['Host', target.host]
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? ''
    const lower = name.toLowerCase()
    if (!isUpgrade && ['connection', 'keep-alive'].includes(lower)) continue
    if (legible && lower === 'accept-encoding') continue
    if (['host', 'expect', 'sec-websocket-extensions'].includes(lower)) continue
    result.push(name, rawHeaders[at + 1] ?? '')
  }
  return result
}

/** Returns the body of an error response with that code. */
export function statusBody(code: number): string {
  return JSON.stringify({ ...ApiError.fromResponse(code, undefined).toStatus(), code })
}
