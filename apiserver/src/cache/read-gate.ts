import { ApiError, type Revision } from '@setpoint/controller-runtime/api'
import { type Storage, StoreUnavailableError } from '../storage/index.ts'
import type { LogFollower } from './log-follower.ts'

export const gateDefaults = Object.freeze({
  /** Milliseconds that a read waits for the cache to catch up (Kubernetes waits 3 s). */
  waitMs: 3000,
  retryAfterSeconds: 1,
})

/**
 * Lets a read through once the cache has seen every write that was acknowledged before the read began, by whichever
 * server. It asks the store where its log stands; everyone who is waiting shares one question, but a reader joins
 * only a question that is sent after it arrived.
 */
export class ReadGate {
  readonly #storage: Storage
  readonly #follower: LogFollower
  #asking = false
  /** The question that will be sent when the one on its way has been answered. */
  #next: Promise<Revision> | undefined

  constructor(storage: Storage, follower: LogFollower) {
    this.#storage = storage
    this.#follower = follower
  }

  /**
   * Resolves with a revision, not before the call, whose state the caches have.
   * @throws ApiError 503 when the store does not answer or the caches do not follow in time.
   */
  async pass(signal?: AbortSignal): Promise<Revision> {
    const { trouble } = this.#follower
    if (trouble !== undefined) throw unavailable(trouble)
    this.#next ??= this.#ask()
    try {
      await this.#next
    } catch (error) {
      if (error instanceof ApiError) throw error
      throw unavailable(
        error instanceof StoreUnavailableError ? 'the store cannot be reached' : 'the store did not answer',
        error,
      )
    }
    signal?.throwIfAborted()
    return this.#follower.known
  }

  async #ask(): Promise<Revision> {
    // Sent in a later turn, so that all requests of this turn share it, and not while another is on its way.
    await new Promise<void>(resolve => (this.#asking ? this.#waiting.push(resolve) : setImmediate(resolve)))
    this.#next = undefined
    this.#asking = true
    let head: { current: Revision; written: Revision }
    try {
      head = await this.#storage.head({ signal: AbortSignal.timeout(gateDefaults.waitMs) })
    } finally {
      this.#asking = false
      const waiting = this.#waiting
      this.#waiting = []
      for (const resolve of waiting) resolve()
    }
    this.#follower.expect(head.written)
    if (this.#follower.position < head.written || this.#follower.trouble !== undefined) {
      const deadline = AbortSignal.timeout(gateDefaults.waitMs)
      await this.#follower.reached(head.written, deadline).catch(() => {
        throw unavailable(this.#follower.trouble ?? 'the cache has not caught up with the store in time')
      })
    }
    this.#follower.confirm(head.current)
    return head.current
  }
  #waiting: (() => void)[] = []
}

function unavailable(why: string, cause?: unknown): ApiError {
  return new ApiError(
    'ServiceUnavailable',
    `the state cannot be read at the moment: ${why}`,
    { retryAfterSeconds: gateDefaults.retryAfterSeconds },
    { cause },
  )
}
