import { setImmediate } from 'node:timers/promises'
import { ApiError, isApiError } from '@setpoint/controller-runtime/api'
import { type Authorizer, authorizeAs, type Identity, type ResourceTarget } from '../security/index.ts'

export const watchPermissionDefaults = Object.freeze({
  /** Watches checked in one turn of the event loop, after a change of the roles: about a millisecond. */
  perTurn: 500,
})

interface Held {
  readonly identity: Identity
  readonly target: ResourceTarget
  readonly lost: (error: ApiError) => void
}

/** The permissions of the open watches. Checks all of them again after each change of the roles. */
export class WatchPermissions {
  readonly #authorizer: Authorizer
  readonly #held = new Set<Held>()
  #isStale = false
  #isChecking = false
  readonly #stopListening: () => void

  constructor(authorizer: Authorizer) {
    this.#authorizer = authorizer
    this.#stopListening = authorizer.onChange(() => {
      this.#isStale = true
      if (!this.#isChecking) void this.#check()
    })
  }

  /** @throws ApiError 403 */
  check(identity: Identity, target: ResourceTarget): void {
    authorizeAs(this.#authorizer, identity, 'watch', target)
  }

  /**
   * Calls `lost` once when the caller may no longer watch. To be called in the turn that opens the watch, because the roles may
   * have changed since the request was authorized. Returns a function that ends the supervision.
   * @throws ApiError 403
   */
  hold(identity: Identity, target: ResourceTarget, lost: (error: ApiError) => void): () => void {
    this.check(identity, target)
    const held = { identity, target, lost }
    this.#held.add(held)
    return () => this.#held.delete(held)
  }

  close(): void {
    this.#stopListening()
  }

  /** Never rejects. */
  async #check(): Promise<void> {
    this.#isChecking = true
    while (this.#isStale) {
      this.#isStale = false
      let checked = 0
      for (const held of [...this.#held]) {
        if (++checked % watchPermissionDefaults.perTurn === 0) await setImmediate()
        if (this.#held.has(held)) this.#checkOne(held)
      }
    }
    this.#isChecking = false
  }

  #checkOne(held: Held): void {
    try {
      this.check(held.identity, held.target)
    } catch (error) {
      this.#held.delete(held)
      held.lost(isApiError(error) ? error : new ApiError('Forbidden', 'the permission cannot be checked'))
    }
  }
}
