import type { Socket } from 'node:net'
import type { Logger } from '../log/index.ts'

/**
 * Bounds the number of connections, so that descriptors remain for files and the store. At the bound a new connection
 * replaces the one that has been idle the longest; if none is idle, it is closed.
 */
export class ConnectionBound {
  readonly #limit: number
  readonly #log: Logger
  /** Open TCP connections, including those that no longer speak HTTP. */
  #open = 0
  /** The longest idle first. */
  readonly #idle = new Set<Socket>()

  /** @param limit the largest number of open connections */
  constructor(limit: number, log: Logger) {
    this.#limit = limit
    this.#log = log
  }

  /** Counts a new connection, and makes room for it. Destroys it if there is no room. */
  accept(socket: Socket): void {
    if (this.#open >= this.#limit) {
      const [longestIdle = socket] = this.#idle
      longestIdle.destroy()
      this.#idle.delete(longestIdle)
      this.#log.warn(
        { connections: this.#open },
        longestIdle === socket
          ? 'too many connections, closed a new one'
          : 'too many connections, closed the longest idle one',
      )
      if (longestIdle === socket) return
    }
    this.#open++
    socket.once('close', () => this.#open--)
  }

  /** Allows a connection to be replaced: it waits for its client, for example for a request or to read a response. */
  markIdle(socket: Socket): void {
    this.#idle.add(socket)
  }

  /** Keeps a connection from being replaced. To be called also when it has closed. */
  markInUse(socket: Socket): void {
    this.#idle.delete(socket)
  }
}
