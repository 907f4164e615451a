import type { Server, Socket } from 'node:net'
import { Turns } from '../scheduling/index.ts'
import { connectionDefaults } from './connection.ts'

/**
 * The TLS handshakes of a server. A handshake takes about a millisecond of processor time once the client's first bytes
 * are there. However many clients connect at once, one handshake begins in each turn of the event loop. Client
 * addresses take turns:
 *
 *     accepted ──first bytes──▶ waiting ──its turn──▶ in progress ──▶ complete
 *
 * After a handshake Node emits another socket than the one that it accepted, so the two are matched by the client's
 * address.
 */
export class TlsHandshakes {
  readonly #sockets = new Map<string, Socket>()
  readonly #turns = new Turns()
  readonly #start: (socket: Socket) => void

  /** Takes the place of the listener that begins handshakes. To be created before other listeners are added. */
  constructor(server: Server) {
    const listeners = server.listeners('connection')
    server.removeAllListeners('connection')
    this.#start = socket => {
      for (const listener of listeners) Reflect.apply(listener, server, [socket])
    }
  }

  begin(socket: Socket): void {
    const address = addressOf(socket)
    // Undefined once the socket is closed.
    const host = socket.remoteAddress ?? ''
    const start = () => this.#start(socket)
    this.#sockets.set(address, socket)
    socket.once('close', () => {
      this.#turns.cancel(host, start)
      if (this.#sockets.get(address) === socket) this.#sockets.delete(address)
    })
    const destroy = () => socket.destroy()
    // The secure socket has a time limit of its own, and does not notice an end or an error from before it exists.
    socket.setTimeout(connectionDefaults.handshakeMs, destroy)
    socket.once('error', destroy)
    socket.once('end', destroy)
    socket.once('readable', () => {
      socket.setTimeout(0, destroy)
      // Also emitted at the end.
      if (socket.readableLength === 0) socket.destroy()
      else this.#turns.wait(host, start)
    })
  }

  /** Returns the accepted socket of a secure one. */
  complete(secure: Socket): Socket | undefined {
    const address = addressOf(secure)
    const socket = this.#sockets.get(address)
    this.#sockets.delete(address)
    return socket
  }

  destroyAll(): void {
    for (const socket of this.#sockets.values()) socket.destroy()
  }
}

function addressOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`
}
