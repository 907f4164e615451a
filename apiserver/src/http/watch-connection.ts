import type { Duplex } from 'node:stream'
import type { WatchEnd } from '@setpoint/controller-runtime/internal'
import type { WebSocket } from 'ws'
import type { Turns } from '../scheduling/index.ts'

export const socketDefaults = Object.freeze({
  /** Milliseconds between pings: below the usual idle time-outs of load balancers (50 to 60 s). */
  pingMs: 25_000,
  /** Bytes of the largest message from a client: room for a subscription with long selectors. */
  maxMessageBytes: 128 * 1024,
  /** Frames of one message. */
  maxFragments: 64,
  /** Reads of the network for one frame: 128 bytes each for the largest message. */
  maxChunks: 1_024,
  /**
   * The server stops reading from a client with more unsent bytes, because every message causes a reply. Above the
   * socket's high-water mark, so that 'drain' follows.
   */
  answersBytes: 128 * 1024,
  /**
   * Messages of one caller that may wait. When there are more, the next message resets its connection, if
   * `waitingPerConnection` of them are of that connection. Pausing the socket would not help at once, because ws still
   * emits the messages of the 64 KiB that Node has read.
   */
  waitingPerCaller: 16_384,
  waitingPerConnection: 64,
  /** Of all messages together. Without pauses, a flood of them made the p99 of others' reads six times as long. */
  pace: Object.freeze({ burstMs: 2, pauseMs: 6 }),
  /** Bytes of the reason in a close frame (RFC 6455: 123). */
  maxReason: 120,
})

/**
 * The WebSocket of one or more watches. Events are complete frames, encoded once for all subscribers, and are written
 * straight to the socket: without compression, `ws` has no queue of its own. `ws` handles control frames and the close.
 */
export class WatchConnection {
  readonly #client: WebSocket
  readonly #socket: Duplex
  readonly #drained = new Set<() => void>()
  /** Messages that wait for their turn. Meanwhile the socket is paused. */
  #waiting = 0
  #isCorked = false
  /** True if the client has shown a sign of life since the last ping. */
  #isAlive = true
  /**
   * True if bytes were unsent at the last ping. If the kernel takes them now, the client has acknowledged earlier ones.
   */
  #wasBackedUp = false

  constructor(client: WebSocket, socket: Duplex) {
    this.#client = client
    this.#socket = socket
    client.on('pong', () => {
      this.#isAlive = true
    })
    socket.on('drain', () => {
      if (this.#wasBackedUp) this.#isAlive = true
      this.#resume()
      for (const drained of this.#drained) drained()
    })
    // ws closes the socket after an error, and 'close' follows.
    client.on('error', () => {})
  }

  /** Bytes that were written and not yet sent. */
  get backlog(): number {
    return this.#socket.writableLength
  }

  /** Writes complete frames. Joins the writes of one turn of the event loop. */
  write(frames: Buffer): void {
    // Nothing may follow a close frame, and the one that ws sent in reply may still be unsent.
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

  /** Calls back whenever all written bytes have been sent. */
  onDrained(drained: () => void): () => void {
    this.#drained.add(drained)
    return () => this.#drained.delete(drained)
  }

  /**
   * Calls back with the text of each message, undefined for a binary one, in the order of arrival and in a turn of its
   * caller. Meanwhile the others wait in the socket, except for the 64 KiB that may have been read.
   */
  onMessage(turns: Turns, caller: string, received: (text: string | undefined) => void): void {
    const isOpen = () => this.#client.readyState === this.#client.OPEN
    this.#client.on('message', (data, isBinary) => {
      // ws emits the messages that it has read also after the end.
      if (!isOpen()) return
      // A pong may wait behind further messages.
      this.#isAlive = true
      const { waitingPerCaller, waitingPerConnection } = socketDefaults
      if (this.#waiting >= waitingPerConnection && turns.sizeOf(caller) >= waitingPerCaller) {
        this.terminate()
        return
      }
      this.#waiting++
      this.#client.pause()
      turns.wait(caller, () => {
        this.#waiting--
        if (isOpen()) received(isBinary ? undefined : String(data))
        this.#resume()
      })
    })
  }

  #resume(): void {
    const mayRead = this.#waiting === 0 && this.backlog <= socketDefaults.answersBytes
    if (mayRead && this.#client.isPaused) this.#client.resume()
  }

  onClose(closed: () => void): void {
    this.#client.once('close', closed)
  }

  close({ code, reason }: WatchEnd): void {
    this.#client.close(code, reason.slice(0, socketDefaults.maxReason))
  }

  /** Pings the client. Terminates the connection if the last ping got neither a pong nor progress in sending. */
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
