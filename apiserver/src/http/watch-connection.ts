import type { Duplex } from 'node:stream'
import type { WatchEnd } from '@setpoint/controller-runtime/internal'
import type { WebSocket } from 'ws'

export const socketDefaults = Object.freeze({
  /** Milliseconds between pings: below the idle time-outs of ordinary load balancers (50 to 60 s). */
  pingMs: 25_000,
  /** Bytes of one message from a client: room for a subscription with long selectors. */
  maxMessageBytes: 128 * 1024,
  /**
   * Bytes on their way to a client above which nothing more is heard from it until it has taken them: whatever it says is
   * answered, and one that only talks would fill the memory. Above what a socket takes at once, so that 'drain' follows.
   */
  answersBytes: 128 * 1024,
  /** Bytes of the reason in a close frame (RFC 6455: 123). */
  maxReason: 120,
})

/**
 * One WebSocket as watches use it. Events come as whole frames, made once for all subscribers, and go past `ws` straight
 * to the socket: with compression off it adds nothing to them, and keeps no order of its own. Control frames and the
 * close are its business.
 */
export class WatchConnection {
  readonly #client: WebSocket
  readonly #socket: Duplex
  readonly #drained = new Set<() => void>()
  #isCorked = false
  /** Whether it has shown itself since the last ping. */
  #isAlive = true
  /** Whether more was on its way at the last ping than the kernel took: what it takes now, it acknowledges. */
  #wasBackedUp = false

  constructor(client: WebSocket, socket: Duplex) {
    this.#client = client
    this.#socket = socket
    client.on('pong', () => {
      this.#isAlive = true
    })
    socket.on('drain', () => {
      if (this.#wasBackedUp) this.#isAlive = true
      if (client.isPaused) client.resume()
      for (const drained of this.#drained) drained()
    })
    // A broken frame or connection: ws closes the socket itself and 'close' follows.
    client.on('error', () => {})
  }

  /** Bytes that were written and that the client has not taken yet. */
  get backlog(): number {
    return this.#socket.writableLength
  }

  /** Whole frames. What several subscriptions write in one turn of the event loop leaves in one piece. */
  write(frames: Buffer): void {
    // Nothing may follow a close frame, also not that which answers the client's and may be long on its way.
    if (this.#client.readyState !== this.#client.OPEN || !this.#socket.writable) return
    if (!this.#isCorked) {
      this.#isCorked = true
      this.#socket.cork()
      process.nextTick(() => {
        this.#isCorked = false
        this.#socket.uncork()
      })
    }
    this.#socket.write(frames)
  }

  /** Calls back whenever everything that was written has been taken. */
  onDrained(drained: () => void): () => void {
    this.#drained.add(drained)
    return () => this.#drained.delete(drained)
  }

  onMessage(received: (text: string | undefined) => void): void {
    this.#client.on('message', (data, isBinary) => {
      received(isBinary ? undefined : String(data))
      if (this.backlog > socketDefaults.answersBytes) this.#client.pause()
    })
  }

  onClose(closed: () => void): void {
    this.#client.once('close', closed)
  }

  close({ code, reason }: WatchEnd): void {
    this.#client.close(code, reason.slice(0, socketDefaults.maxReason))
  }

  /** Drops a connection that has not answered the last ping, unless it has taken some of what the ping waits behind. */
  ping(): void {
    if (!this.#isAlive) {
      this.#client.terminate()
      return
    }
    this.#isAlive = false
    this.#wasBackedUp = this.backlog > 0
    if (this.#client.readyState === this.#client.OPEN) this.#client.ping()
  }

  terminate(): void {
    this.#client.terminate()
  }
}
