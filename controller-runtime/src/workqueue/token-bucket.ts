/**
 * An overall rate limit with bursts. Reservations as in `golang.org/x/time/rate`, which client-go's bucket uses: when
 * the bucket is empty, callers get rising delays in the order of their calls. The debt is unbounded.
 */
export class TokenBucket {
  readonly #ratePerMs: number
  readonly #burst: number
  #tokens: number
  #at = Number.NEGATIVE_INFINITY

  /**
   * @param rate tokens per second, above 0
   * @param burst capacity of the bucket in tokens, from 1
   * @throws TypeError for other values.
   */
  constructor(rate: number, burst: number) {
    if (!(rate > 0 && rate < Number.POSITIVE_INFINITY))
      throw new TypeError(`rate must be above 0, is ${rate}`)
    if (!(burst >= 1)) throw new TypeError(`burst must be at least 1, is ${burst}`)
    this.#ratePerMs = rate / 1000
    this.#burst = burst
    this.#tokens = burst
  }

  /** Reserves a token and returns the ms until it is available. `now` is monotonic ms. */
  reserve(now: number): number {
    if (now > this.#at) {
      this.#tokens = Math.min(this.#burst, this.#tokens + (now - this.#at) * this.#ratePerMs)
      this.#at = now
    }
    this.#tokens--
    return this.#tokens >= 0 ? 0 : -this.#tokens / this.#ratePerMs
  }
}
