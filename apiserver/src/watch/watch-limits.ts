import { ApiError } from '@setpoint/controller-runtime/api'

/** How many connections may watch. One connection of several watches counts as one. */
export interface WatchLimits {
  /** Of all callers together. */
  readonly connections: number
  /** Of one caller. */
  readonly connectionsPerUser: number
}

export const watchLimitDefaults: WatchLimits = Object.freeze({
  /** An idle one costs some 7 KB of the process and as much of the system: 300 MB for all together. */
  connections: 20_000,
  /** Half of all: whoever leaks watches leaves room for others. */
  connectionsPerUser: 10_000,
})

/** Seconds after which one that was refused for want of room may ask again. */
const retryAfterSeconds = 5

/** Counts the connections that watch, and refuses those that would be too many. */
export class WatchConnections {
  readonly #limits: WatchLimits
  readonly #byUser = new Map<string, number>()
  #open = 0

  constructor(limits: WatchLimits = watchLimitDefaults) {
    this.#limits = limits
  }

  get open(): number {
    return this.#open
  }

  /**
   * Counts one more, until the function that is answered is called, once or more often.
   * @throws ApiError 429 when there would be too many.
   */
  admit(user: string): () => void {
    const { connections, connectionsPerUser } = this.#limits
    const ofUser = this.#byUser.get(user) ?? 0
    if (ofUser >= connectionsPerUser) throw tooMany(`${ofUser} connections of ${user} watch already`)
    if (this.#open >= connections) throw tooMany(`${this.#open} connections watch already`)
    this.#open++
    this.#byUser.set(user, ofUser + 1)
    let released = false
    return () => {
      if (released) return
      released = true
      this.#open--
      const left = (this.#byUser.get(user) ?? 1) - 1
      if (left > 0) this.#byUser.set(user, left)
      else this.#byUser.delete(user)
    }
  }
}

export function tooMany(what: string): ApiError {
  return new ApiError('TooManyRequests', `${what}, which is as many as may be`, { retryAfterSeconds })
}
