import type { Clock } from '@setpoint/controller-runtime'
import type { Metrics } from './metrics.ts'
import type { Post, PostResult } from './post.ts'
import type { SigningKeys } from './signature.ts'
import type { SubscriptionSpec } from './subscription.ts'
import type { TargetSlots } from './target-slots.ts'

/** When an attempt ends early. */
interface AttemptSignals {
  /** Aborts the wait for a slot. */
  readonly waiting: AbortSignal
  /** Aborts the request. */
  readonly sending: AbortSignal
}

/** Sends single attempts: signed, and within the bounds of concurrent requests. */
export class Courier {
  readonly keys: SigningKeys
  readonly #slots: TargetSlots
  readonly #post: Post
  readonly #clock: Clock
  readonly #metrics: Metrics

  constructor(parts: { keys: SigningKeys; slots: TargetSlots; post: Post; clock: Clock; metrics: Metrics }) {
    this.keys = parts.keys
    this.#slots = parts.slots
    this.#post = parts.post
    this.#clock = parts.clock
    this.#metrics = parts.metrics
  }

  /** @throws the reason of a signal that is or gets aborted; all other failures are results */
  async attempt(
    subscription: { readonly metadata: { readonly name: string }; readonly spec: SubscriptionSpec },
    message: { readonly id: string; readonly body: string },
    { waiting, sending }: AttemptSignals,
  ): Promise<PostResult> {
    const { url, signingKey, timeoutSeconds } = subscription.spec
    if (!this.keys.has(signingKey)) return { failure: `the setting signingKeys has no key ${signingKey}` }
    const release = await this.#slots.acquire(new URL(url).origin, waiting)
    const startedAt = this.#clock.monotonic()
    try {
      const seconds = Math.floor(this.#clock.now() / 1000)
      const headers = {
        'content-type': 'application/json',
        'user-agent': 'setpoint-webhooks',
        ...this.keys.sign(signingKey, message.id, seconds, message.body),
      }
      const timeoutMs = timeoutSeconds * 1000
      const result = await this.#post({ url, headers, body: message.body, timeoutMs }, sending)
      const name = subscription.metadata.name
      this.#metrics.attempts.inc({
        subscription: name,
        result: result.failure === undefined ? 'success' : 'failure',
      })
      this.#metrics.duration.observe((this.#clock.monotonic() - startedAt) / 1000)
      return result
    } finally {
      release()
    }
  }
}
