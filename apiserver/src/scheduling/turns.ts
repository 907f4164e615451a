import { type Clock, systemClock } from '@setpoint/controller-runtime'
import { FairQueue } from './fair-queue.ts'

/** When waiting work pauses. */
export interface Pace {
  /** Milliseconds of turns, with all that others do in them, before a pause. */
  readonly burstMs: number
  readonly pauseMs: number
}

/**
 * Runs one piece of waiting work in each turn of the event loop: a TLS handshake, or a message of a WebSocket. However
 * much arrives at once, the rest of the server goes on in between. Callers take turns. With a pace, a pause follows
 * each burst of turns, so that work which never ends does not lengthen every turn of others.
 */
export class Turns {
  readonly #pace: Pace | undefined
  readonly #clock: Clock
  readonly #waiting = new FairQueue<() => void>()
  #isScheduled = false
  #burstBegan = 0
  #servedAt = 0

  constructor(pace?: Pace, clock: Clock = systemClock) {
    this.#pace = pace
    this.#clock = clock
  }

  /** Runs the work in a later turn, after the work of its caller that waits already. */
  wait(caller: string, work: () => void): void {
    this.#waiting.push(caller, work)
    this.#schedule()
  }

  /** Forgets work that waits. */
  cancel(caller: string, work: () => void): void {
    this.#waiting.delete(caller, work)
  }

  /** Returns how much work of a caller waits. */
  sizeOf(caller: string): number {
    return this.#waiting.sizeOf(caller)
  }

  #schedule(): void {
    if (this.#isScheduled || this.#waiting.size === 0) return
    this.#isScheduled = true
    if (this.#pace === undefined) {
      setImmediate(this.#serve)
      return
    }
    const { burstMs, pauseMs } = this.#pace
    const now = this.#clock.monotonic()
    // Work that arrives after a while begins a burst.
    if (now - this.#servedAt >= pauseMs) this.#burstBegan = now
    if (now - this.#burstBegan < burstMs) setImmediate(this.#serve)
    else this.#clock.setTimeout(this.#beginBurst, pauseMs)
  }

  readonly #beginBurst = () => {
    this.#burstBegan = this.#clock.monotonic()
    // Not here: the turn that a timer ends has room for a second piece.
    setImmediate(this.#serve)
  }

  readonly #serve = () => {
    this.#isScheduled = false
    this.#servedAt = this.#clock.monotonic()
    const work = this.#waiting.shift()
    this.#schedule()
    work?.()
  }
}
