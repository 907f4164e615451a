import { type IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { discardRest } from './raw-response.ts'

/**
 * The response to a WebSocket handshake. Node hands over only the socket; with a response, a handshake passes the same
 * chain as every other request. A handshake that succeeds takes the socket, and `close` is emitted when that closes.
 * Any other response ends the connection.
 */
export class HandshakeResponse extends ServerResponse<IncomingMessage> {
  /** The bytes that have arrived behind the handshake. */
  readonly head: Buffer
  /** The connection, also after `take`. */
  readonly connectionSocket: Socket
  #isTaken = false

  constructor(message: IncomingMessage, head: Buffer) {
    super(message)
    const { socket } = message
    this.head = head
    this.connectionSocket = socket
    // Until ws listens, an error of the socket would end the process.
    socket.on('error', () => {})
    // Nothing parses what follows on the socket.
    this.shouldKeepAlive = false
    this.assignSocket(socket)
    this.once('finish', () => discardRest(socket))
  }

  /** True if the handshake has succeeded. */
  get isTaken(): boolean {
    return this.#isTaken
  }

  /** Gives the socket to a WebSocket. */
  take(): void {
    const socket = this.connectionSocket
    this.#isTaken = true
    this.detachSocket(socket)
    socket.once('close', () => {
      this.destroyed = true
      this.emit('close')
    })
  }
}
