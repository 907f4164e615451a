/** Exponential back-off with full jitter, so that many clients do not return at the same time. */
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
   * Returns a delay in whole ms: between 0 and `baseMs * 2^n` at the n-th call after the first, at most `maxMs`. With
   * `retryAfterMs`, that plus up to `baseMs`.
   */
  next(retryAfterMs?: number): number {
    const jitter = this.#random()
    const ceilingMs = Math.min(this.#maxMs, this.#baseMs * 2 ** this.#failures)
    this.#failures++
    return Math.round(retryAfterMs === undefined ? jitter * ceilingMs : retryAfterMs + jitter * this.#baseMs)
  }

  reset(): void {
    this.#failures = 0
  }
}
