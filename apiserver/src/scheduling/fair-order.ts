/** One of several that share the processor: a class of requests, or an identity within a class. */
export interface Share {
  /** Milliseconds on the virtual clock of its order. Only the order sets it. */
  time: number
}

/**
 * Start-time fair queueing, as in Kubernetes' API Priority and Fairness: of the shares with waiting requests, the one
 * that has used the least time is next. A share without requests saves up nothing: it starts again at the present of
 * the virtual clock. The time of a request is charged afterwards, once it is known.
 *
 * Finding the next share visits all that have waiting requests. Their number is bounded by the requests that may wait.
 */
export class FairOrder<S extends Share> {
  /** The longest not served first, so that shares with equal times take turns. */
  readonly #waiting = new Set<S>()
  #present = 0

  /** The number of shares with waiting requests. */
  get size(): number {
    return this.#waiting.size
  }

  /** Enters a share that has waiting requests. */
  enter(share: S): void {
    if (this.#waiting.has(share)) return
    share.time = Math.max(share.time, this.#present)
    this.#waiting.add(share)
  }

  /** Removes a share without waiting requests. */
  leave(share: S): void {
    this.#waiting.delete(share)
  }

  /** Returns the share with the least time of those that have waiting requests. */
  next(): S | undefined {
    let least: S | undefined
    for (const share of this.#waiting) if (least === undefined || share.time < least.time) least = share
    return least
  }

  /** To be called when a request of a share is served. */
  served(share: S): void {
    this.#present = Math.max(this.#present, share.time)
    if (this.#waiting.delete(share)) this.#waiting.add(share)
  }

  charge(share: S, ms: number): void {
    share.time += ms
  }
}
