import { FairQueue } from './fair-queue.ts'

/**
 * Runs one piece of waiting work in each turn of the event loop: a TLS handshake, or a message of a WebSocket. However much
 * arrives at once, the rest of the server goes on in between. Callers take turns.
 */
export class Turns {
  readonly #waiting = new FairQueue<() => void>()
  #isScheduled = false

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
    setImmediate(() => {
      this.#isScheduled = false
      const work = this.#waiting.shift()
      this.#schedule()
      work?.()
    })
  }
}
