import type { Logger } from '@setpoint/controller-runtime'

/**
 * Whether a store is full: from the first write that it refuses for lack of space until it takes one again. Deletions
 * say nothing, because a full store takes them too. Logs each change.
 */
export class Fullness {
  readonly #log: Logger | undefined
  #reason: string | undefined
  #refusals = 0

  constructor(log?: Logger) {
    this.#log = log
  }

  /** The store's reason, or undefined if it is not full. */
  get reason(): string | undefined {
    return this.#reason
  }

  /** Counts the refusals. A write takes it when it begins, for `accepted`. */
  get refusals(): number {
    return this.#refusals
  }

  /** The store has refused a write. */
  refused(reason: string): void {
    this.#refusals++
    if (this.#reason === undefined) this.#log?.error({ reason }, 'the store is full and takes only deletions')
    this.#reason = reason
  }

  /** The store has taken a put. One that began before the last refusal says nothing about the space that is left. */
  accepted(begunAt: number): void {
    if (this.#reason === undefined || begunAt !== this.#refusals) return
    this.#reason = undefined
    this.#log?.info({}, 'the store has space and takes writes again')
  }
}
