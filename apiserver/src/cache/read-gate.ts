import { ApiError, type Revision } from '@setpoint/controller-runtime/api'
import { retryAfterSeconds } from '@setpoint/controller-runtime/internal'
import { type Storage, StoreUnavailableError } from '../storage/index.ts'
import type { LogFollower } from './log-follower.ts'

export const gateDefaults = Object.freeze({
  /** Milliseconds that a read waits for the cache to catch up, as in Kubernetes. */
  waitMs: 3000,
})

/**
 * Makes reads consistent: a read passes once the cache has every write that any server acknowledged before the read
 * began. The gate asks the store for its latest revision. Waiting reads share one request, but a read joins only a
 * request that is sent after the read arrived.
 */
export class ReadGate {
  readonly #storage: Storage
  readonly #follower: LogFollower
  #asking = false
  /** The request that is sent after the one in flight. */
  #next: Promise<Revision> | undefined

  constructor(storage: Storage, follower: LogFollower) {
    this.#storage = storage
    this.#follower = follower
  }

  /**
   * Resolves with the revision of the caches' state, which is not older than the call.
   * @throws ApiError 503 if the store does not respond or the caches do not catch up in time.
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
    // Sent in a later turn, so that all reads of this turn share it, and never two at a time.
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
        throw unavailable(this.#follower.trouble ?? 'the cache did not catch up with the store in time')
      })
    }
    this.#follower.confirm(head.current)
    return head.current
  }
  #waiting: (() => void)[] = []
}

/** The error for a request that needs at least a version which no write has reached. */
export function tooLargeVersion(asked: Revision, current: Revision): ApiError {
  return new ApiError('Timeout', `Too large resource version: ${asked}, current: ${current}`, {
    retryAfterSeconds,
    causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }],
  })
}

function unavailable(why: string, cause?: unknown): ApiError {
  return new ApiError(
    'ServiceUnavailable',
    `the state cannot be read now: ${why}`,
    { retryAfterSeconds },
    { cause },
  )
}
