import { systemClock } from '@setpoint/controller-runtime'
import { ApiError, isApiError } from '@setpoint/controller-runtime/api'
import { Yielder } from '@setpoint/controller-runtime/internal'
import { type Authorizer, authorizeAs, type Identity, type ResourceTarget } from '../security/index.ts'

export const watchPermissionDefaults = Object.freeze({
  /** Milliseconds for checking watches in one turn of the event loop, after a change of the roles. */
  sliceMs: 2,
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
   * Calls `lost` once when the caller may no longer watch. To be called in the turn that opens the watch, because the
   * roles may have changed since the request was authorized. Returns a function that ends the supervision.
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
    const yielder = new Yielder(systemClock, watchPermissionDefaults.sliceMs)
    while (this.#isStale) {
      this.#isStale = false
      for (const held of [...this.#held]) {
        const pause = yielder.pause()
        if (pause !== undefined) await pause
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
