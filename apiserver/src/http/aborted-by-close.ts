import type { IncomingMessage, ServerResponse } from 'node:http'
import { ApiError } from '@setpoint/controller-runtime/api'

/**
 * Returns a controller that aborts when the connection of a request closes before the response has been sent. Read its
 * signal only when needed: creating one takes about 3 µs.
 */
export function abortedByClose(message: IncomingMessage, response: ServerResponse): AbortController {
  const gone = new AbortController()
  const { socket } = message
  const closed = () => {
    if (socket.destroyed && !response.writableFinished)
      gone.abort(new ApiError('Timeout', 'the client closed the connection'))
  }
  response.once('close', closed)
  // The response of a pipelined request has no socket yet, so only the request hears of the close. A request also
  // closes when its body has been read.
  message.once('close', closed)
  return gone
}
