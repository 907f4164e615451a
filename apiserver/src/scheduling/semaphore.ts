import { ApiError } from '@setpoint/controller-runtime/api'
import { retryAfterSeconds } from '@setpoint/controller-runtime/internal'
import { FairQueue } from './fair-queue.ts'
import type { WorkOwner } from './work.ts'

interface SemaphoreLimits {
  /** Holders at once, and the weight that they hold together. */
  readonly holders: number
  readonly weight: number
  /** The same for one caller. */
  readonly holdersPerCaller: number
  readonly weightPerCaller: number
  /** Requests that wait; one more is refused with 429. */
  readonly waiting: number
  readonly waitingPerCaller: number
}

export interface SemaphoreRequest {
  readonly caller: string
  readonly weight: number
  /** Called once, when the request is admitted: within `request`, or later. */
  readonly admitted: () => void
}

/**
 * A weighted semaphore that is fair between callers. Requests beyond a bound wait; callers are served round-robin, and
 * the requests of one caller in order.
 *
 *     request ──▶ waiting ──▶ admitted ──release──▶ gone
 *                    └────────withdraw─────────────▶ gone
 *
 * A request that is heavier than a bound is admitted alone. A heavy request is not overtaken by lighter ones of other
 * callers, unless its own caller's bound holds it back.
 */
export class Semaphore {
  readonly #what: string
  readonly #limits: SemaphoreLimits
  readonly #waiting = new FairQueue<SemaphoreRequest>()
  readonly #held = new Map<string, { holders: number; weight: number }>()
  #holders = 0
  #weight = 0

  /** @param what names the requests in the refusal, as in "too many long lists" */
  constructor(what: string, limits: SemaphoreLimits) {
    this.#what = what
    this.#limits = limits
  }

  get waiting(): number {
    return this.#waiting.size
  }

  /** Weight that is held. */
  get weight(): number {
    return this.#weight
  }

  /** @throws ApiError 429 when too many requests wait. */
  request(request: SemaphoreRequest): void {
    const { caller } = request
    const { waiting, waitingPerCaller } = this.#limits
    const ofCaller = this.#waiting.sizeOf(caller) >= waitingPerCaller
    if (ofCaller || this.#waiting.size >= waiting) {
      const whose = ofCaller ? ` of ${caller}` : ''
      throw new ApiError('TooManyRequests', `too many ${this.#what}${whose} at once`, {
        retryAfterSeconds,
      })
    }
    this.#waiting.push(caller, request)
    this.#admit()
  }

  /**
   * Waits until it is admitted. Returns the function that releases the weight, which may be called repeatedly.
   * @throws ApiError 429; the reason of the owner's signal
   */
  acquire(weight: number, { caller, signal }: WorkOwner): Promise<() => void> {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted()
      let isHeld = false
      const request: SemaphoreRequest = {
        caller,
        weight,
        admitted: () => {
          isHeld = true
          signal?.removeEventListener('abort', abort)
          resolve(() => {
            if (isHeld) this.release(request)
            isHeld = false
          })
        },
      }
      const abort = () => {
        this.withdraw(request)
        reject(signal?.reason)
      }
      signal?.addEventListener('abort', abort, { once: true })
      this.request(request)
    })
  }

  /** Takes back a request that waits; does nothing if it does not. */
  withdraw(request: SemaphoreRequest): void {
    if (this.#waiting.delete(request.caller, request)) this.#admit()
  }

  /** To be called once for each request that was admitted. */
  release({ caller, weight }: SemaphoreRequest): void {
    this.#holders--
    this.#weight -= weight
    const held = this.#held.get(caller)
    if (held !== undefined) {
      held.holders--
      held.weight -= weight
      if (held.holders === 0) this.#held.delete(caller)
    }
    this.#admit()
  }

  #admit(): void {
    for (;;) {
      const next = this.#waiting.peek(caller => this.#mayHoldMore(caller))
      if (next === undefined || !this.#fits(next)) return
      const { caller, weight } = next
      this.#waiting.delete(caller, next)
      this.#holders++
      this.#weight += weight
      const held = this.#held.get(caller)
      if (held === undefined) this.#held.set(caller, { holders: 1, weight })
      else {
        held.holders++
        held.weight += weight
      }
      next.admitted()
    }
  }

  #mayHoldMore(caller: string): boolean {
    const held = this.#held.get(caller)
    if (held === undefined) return true
    const { holdersPerCaller, weightPerCaller } = this.#limits
    return held.holders < holdersPerCaller && held.weight < weightPerCaller
  }

  #fits({ weight }: SemaphoreRequest): boolean {
    return (
      this.#holders < this.#limits.holders &&
      (this.#weight === 0 || this.#weight + weight <= this.#limits.weight)
    )
  }
}
