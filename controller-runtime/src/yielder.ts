import type { Clock } from './clock.ts'

/**
 * Keeps a long loop of short steps from blocking the event loop: `await yielder.pause()` in each step yields to it once
 * `sliceMs` have passed since the last yield.
 */
export class Yielder {
  readonly #clock: Clock
  readonly #sliceMs: number
  #since: number

  /** @param sliceMs default 10: well below the 50 ms that users notice, and long enough for a thousand steps. */
  constructor(clock: Clock, sliceMs = 10) {
    this.#clock = clock
    this.#sliceMs = sliceMs
    this.#since = clock.monotonic()
  }

  /** Starts the first slice; call it at the start of a loop. */
  begin(): void {
    this.#since = this.#clock.monotonic()
  }

  /** Returns undefined, without waiting, until the slice has passed. */
  pause(): Promise<void> | undefined {
    if (this.#clock.monotonic() - this.#since < this.#sliceMs) return undefined
    return new Promise(resolve => {
      setImmediate(() => {
        this.#since = this.#clock.monotonic()
        resolve()
      })
    })
  }
}
