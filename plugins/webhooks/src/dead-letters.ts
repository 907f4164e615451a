import { createHash } from 'node:crypto'
import {
  type Client,
  escapeSelectorValue,
  isAlreadyExists,
  isApiError,
  setControllerReference,
} from '@setpoint/controller-runtime'
import { DeadLetter, sealedContent } from './dead-letter.ts'
import type { Delivery } from './delivery.ts'
import type { SigningKeys } from './signature.ts'
import type { SubscriptionObject } from './subscription.ts'

/** Creates the dead letters of one subscription, up to its bound. */
export class DeadLetters {
  readonly #client: Client
  readonly #subscription: SubscriptionObject
  readonly #keys: SigningKeys
  /** Letters are created one after another, so that the count is right. */
  #last: Promise<unknown> = Promise.resolve()

  constructor(client: Client, subscription: SubscriptionObject, keys: SigningKeys) {
    this.#client = client
    this.#subscription = subscription
    this.#keys = keys
  }

  /**
   * Creates the dead letter of a delivery. Its name follows from the delivery, so there is never a second one.
   * @returns false if there is no room
   * @throws ApiError or TransportError
   */
  add(delivery: Delivery, attempts: number, reason: string): Promise<boolean> {
    const added = this.#last.then(() => this.#add(delivery, attempts, reason))
    this.#last = added.catch(() => {})
    return added
  }

  async #add({ id, object, version, body }: Delivery, attempts: number, reason: string): Promise<boolean> {
    const { name: subscription, uid } = this.#subscription.metadata
    const { total = 0 } = await this.#client.list(DeadLetter, {
      fieldSelector: `spec.subscription=${escapeSelectorValue(subscription)}`,
      page: 1,
      size: 1,
    })
    if (total >= this.#subscription.spec.maxDeadLetters) return false
    const name = `letter-${createHash('sha256').update(`${uid} ${id}`).digest('hex').slice(0, 32)}`
    const payload: unknown = JSON.parse(body)
    const seal = this.#keys.seal(this.#subscription.spec.signingKey, sealedContent(uid, id, payload))
    const create = async (content: object) => {
      const spec = { subscription, id, object, version, attempts, reason, ...content }
      await this.#client.create(
        DeadLetter,
        setControllerReference(this.#subscription, { metadata: { name }, spec }),
      )
    }
    try {
      await create({ payload, seal }).catch((error: unknown) => {
        if (!isApiError(error, 'RequestEntityTooLarge')) throw error
        return create({})
      })
    } catch (error) {
      if (!isAlreadyExists(error)) throw error
    }
    return true
  }
}
