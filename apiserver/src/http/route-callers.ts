import type { UserInfo } from '@setpoint/controller-runtime'

/**
 * The callers of plugins' routes and actions that wait for their response. A plugin may act for them, and only for
 * them: it gets the user object, cannot make another one, and can use it until the response has been sent.
 */
export class RouteCallers {
  /** The callbacks for the end of each response. */
  readonly #present = new WeakMap<UserInfo, Set<() => void>>()

  /** Returns a copy of the user for the handler of one request. */
  enter(user: UserInfo): UserInfo {
    const copy = Object.freeze({ ...user })
    this.#present.set(copy, new Set())
    return copy
  }

  /** To be called with the copy when the response has been sent, or is ready. */
  leave(user: UserInfo): void {
    const observers = this.#present.get(user) ?? []
    this.#present.delete(user)
    for (const left of observers) left()
  }

  has(user: UserInfo): boolean {
    return this.#present.has(user)
  }

  /** Calls back once the response to the caller has been sent. Returns a function that unsubscribes. */
  onLeave(user: UserInfo, left: () => void): () => void {
    const observers = this.#present.get(user)
    observers?.add(left)
    return () => observers?.delete(left)
  }
}
