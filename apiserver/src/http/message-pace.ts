import { type Clock, systemClock } from '@setpoint/controller-runtime'
import { FairQueue } from '../scheduling/index.ts'

export const messagePaceDefaults = Object.freeze({
  /** Milliseconds for messages in one turn of the event loop. Those that arrive later in the turn wait. */
  turnMs: 2,
  /** Milliseconds for other work before the next turn that handles waiting messages. */
  pauseMs: 6,
  /** Bytes that count as a millisecond: what ws has done to read them, and the garbage that they leave. */
  bytesPerMs: 64 * 1024,
  /** Waiting messages that are handled in one turn: some 15 µs each at least. */
  messagesPerTurn: 128,
  /**
   * Messages of one caller that wait. From there on, a connection with `waitingPerConnection` of them is reset at its next: ws
   * emits the messages of the 64 KiB that Node has read, also while the socket is paused.
   */
  waitingPerCaller: 16_384,
  waitingPerConnection: 64,
})

interface WaitingMessage {
  readonly bytes: number
  readonly handle: () => void
}

/**
 * Shares the event loop between the messages that clients send on WebSockets. While a turn has time left, a message passes
 * after a check. Further messages wait for a later turn, with a pause before it. There the callers take turns, however many
 * sockets they have.
 */
export class MessagePace {
  readonly #clock: Clock
  readonly #waiting = new FairQueue<WaitingMessage>()
  /** When this turn has no time left; undefined before its first message. */
  #turnEnds: number | undefined
  /** True while messages wait. */
  #isPausing = false

  constructor(clock: Clock = systemClock) {
    this.#clock = clock
  }

  /** Returns true if a message of so many bytes may be handled at once. */
  passes(bytes: number): boolean {
    if (this.#isPausing || !this.#hasTime()) return false
    this.#charge(bytes)
    return true
  }

  /** Handles a message in a later turn, after those of its caller that wait already. */
  wait(caller: string, bytes: number, handle: () => void): void {
    this.#waiting.push(caller, { bytes, handle })
    if (!this.#isPausing) this.#pause()
  }

  /** Returns true if so many messages of a caller wait that a connection with many of them must be reset. */
  isFull(caller: string): boolean {
    return this.#waiting.sizeOf(caller) >= messagePaceDefaults.waitingPerCaller
  }

  #pause(): void {
    this.#isPausing = true
    this.#clock.setTimeout(this.#serveTurn, messagePaceDefaults.pauseMs)
  }

  /** Each message has a callback of its own, because Node runs what it resolves before the next callback. */
  readonly #serveTurn = () => {
    this.#turnEnds = undefined
    const messages = Math.min(this.#waiting.size, messagePaceDefaults.messagesPerTurn)
    for (let n = 0; n < messages; n++) setImmediate(this.#serveNext)
    setImmediate(this.#endTurn)
  }

  readonly #serveNext = () => {
    const message = this.#hasTime() ? this.#waiting.shift() : undefined
    if (message === undefined) return
    this.#charge(message.bytes)
    message.handle()
  }

  readonly #endTurn = () => {
    if (this.#waiting.size > 0) this.#pause()
    else this.#isPausing = false
  }

  #hasTime(): boolean {
    const now = this.#clock.monotonic()
    if (this.#turnEnds === undefined) {
      this.#turnEnds = now + messagePaceDefaults.turnMs
      // Runs in the next turn, before its messages.
      setImmediate(this.#turnIsOver)
    }
    return now < this.#turnEnds
  }

  readonly #turnIsOver = () => {
    this.#turnEnds = undefined
  }

  #charge(bytes: number): void {
    if (this.#turnEnds !== undefined) this.#turnEnds -= bytes / messagePaceDefaults.bytesPerMs
  }
}
