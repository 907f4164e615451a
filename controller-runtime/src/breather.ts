import type { Clock } from './clock.ts'

/**
 * Keeps a long loop of short steps from holding up the process: `await breather.pause()` in each step lets others
 * run once `sliceMs` have passed since they last could.
 */
export class Breather {
  readonly #clock: Clock
  readonly #sliceMs: number
  #since: number

  /** @param sliceMs by default 10: a fifth of what people notice, and a thousand steps or more. */
  constructor(clock: Clock, sliceMs = 10) {
    this.#clock = clock
    this.#sliceMs = sliceMs
    this.#since = clock.monotonic()
  }

  /** A loop begins: what went before it held up nobody. */
  begin(): void {
    this.#since = this.#clock.monotonic()
  }

  /** Undefined, without waiting, as long as the slice has not passed. */
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
