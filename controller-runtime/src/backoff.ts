/** How long to wait before the next connection: exponential with full jitter, so that many clients do not return together. */
export class Backoff {
  readonly #baseMs: number
  readonly #maxMs: number
  readonly #random: () => number
  #failures = 0

  constructor(options: { baseMs: number; maxMs: number; random: () => number }) {
    this.#baseMs = options.baseMs
    this.#maxMs = options.maxMs
    this.#random = options.random
  }

  /**
   * A delay in ms: anything from 0 to `baseMs * 2^n` at the n-th failure after the first, at most `maxMs`. Where the
   * server said how long, that plus up to `baseMs`.
   */
  next(retryAfterMs?: number): number {
    const jitter = this.#random()
    const ceilingMs = Math.min(this.#maxMs, this.#baseMs * 2 ** this.#failures)
    this.#failures++
    return retryAfterMs === undefined ? jitter * ceilingMs : retryAfterMs + jitter * this.#baseMs
  }

  reset(): void {
    this.#failures = 0
  }
}
