import { STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { type ApiResponse, requestLimits } from './api-request.ts'

/** Writes a response to a socket without a ServerResponse, and ends it. */
export function endWith(socket: Duplex, { status, headers, body }: ApiResponse): void {
  const bytes = Buffer.isBuffer(body) ? body : Buffer.concat([...body])
  const lines = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'Error'}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    `content-length: ${bytes.length}`,
    'connection: close',
  ]
  socket.write(Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`), bytes]))
  discardRest(socket)
}

/**
 * Ends a socket that carries no more requests. The HTTP server no longer limits it, and the client may never close its
 * half. Its bytes are read and dropped, because a reset would destroy the response.
 */
export function discardRest(socket: Duplex): void {
  socket.end()
  const timer = setTimeout(() => socket.destroy(), requestLimits.discardMs)
  socket.once('close', () => clearTimeout(timer))
  socket.resume()
}
