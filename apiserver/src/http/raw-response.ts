import { STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { type ApiResponse, requestLimits } from './api-request.ts'

/** Answers on a connection that Node's HTTP server has let go of, or has nothing to answer on, and ends it. */
export function endWith(socket: Duplex, { status, headers, body }: ApiResponse): void {
  const bytes = Buffer.isBuffer(body) ? body : Buffer.concat([...body])
  const lines = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'Error'}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    `content-length: ${bytes.length}`,
    'connection: close',
  ]
  socket.end(Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`), bytes]))
  // The HTTP server does not watch over this socket any more: a client that never closes its half would keep it open
  // for ever. What it still sends is taken off, so that the answer is not lost to a reset.
  const timer = setTimeout(() => socket.destroy(), requestLimits.discardMs)
  socket.once('close', () => clearTimeout(timer))
  socket.resume()
}
