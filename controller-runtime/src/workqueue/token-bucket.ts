/**
 * An overall rate with room for bursts. Reservations as in `golang.org/x/time/rate`, on which client-go's bucket
 * rests: whoever comes when the bucket is empty goes into debt and is told how long to wait, so that the debt has no
 * bound and callers queue up in time, in the order in which they came.
 */
export class TokenBucket {
  readonly #ratePerMs: number
  readonly #burst: number
  #tokens: number
  #at = Number.NEGATIVE_INFINITY

  /**
   * @param rate tokens a second, above 0
   * @param burst tokens that a full bucket holds, from 1
   * @throws TypeError for anything else.
   */
  constructor(rate: number, burst: number) {
    if (!(rate > 0 && rate < Number.POSITIVE_INFINITY))
      throw new TypeError(`rate must be above 0, is ${rate}`)
    if (!(burst >= 1)) throw new TypeError(`burst must be at least 1, is ${burst}`)
    this.#ratePerMs = rate / 1000
    this.#burst = burst
    this.#tokens = burst
  }

  /** Takes a token, of the future where none is left. Answers in how many ms it is there; `now` is monotonic ms. */
  reserve(now: number): number {
    if (now > this.#at) {
      this.#tokens = Math.min(this.#burst, this.#tokens + (now - this.#at) * this.#ratePerMs)
      this.#at = now
    }
    this.#tokens--
    return this.#tokens >= 0 ? 0 : -this.#tokens / this.#ratePerMs
  }
}
