import type { Socket } from 'node:net'

/**
 * The TLS handshakes in progress. After a handshake Node emits another socket than the one that it accepted, so the two
 * are matched by the client's address.
 */
export class TlsHandshakes {
  readonly #sockets = new Map<string, Socket>()

  begin(socket: Socket): void {
    const address = addressOf(socket)
    this.#sockets.set(address, socket)
    socket.once('close', () => {
      if (this.#sockets.get(address) === socket) this.#sockets.delete(address)
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
