import { type Clock, type Condition, setCondition } from '@setpoint/controller-runtime'
import type { Delivery } from './delivery.ts'
import type { StatusPatch } from './progress.ts'
import type { SubscriptionObject } from './subscription.ts'

/** Characters of a message in the status. */
const messageLength = 500

/** What the status of a subscription says besides its cursors. */
export class Report {
  readonly #subscription: SubscriptionObject
  readonly #clock: Clock
  /** By resource: the problem of its watch, or undefined if it is open. */
  readonly #watches = new Map<string, string | undefined>()
  /** Deliveries whose last attempt has failed. */
  readonly #failing = new Set<Delivery>()
  #conditions: readonly Condition[]
  #delivered: number
  #lastDelivery: Pick<StatusPatch, 'lastDeliveryTime'> = {}
  #lastError: Pick<StatusPatch, 'lastError'> = {}
  #hasRoom = true

  constructor(subscription: SubscriptionObject, clock: Clock) {
    this.#subscription = subscription
    this.#clock = clock
    this.#conditions = subscription.status?.conditions ?? []
    this.#delivered = subscription.status?.delivered ?? 0
  }

  /** The subscription cannot be served as it is. */
  refused(reason: string, message: string): void {
    this.#set('Ready', 'False', reason, message)
  }

  /** The watch of a resource is open, or has a problem. @returns true if that is new */
  watched(resource: string, error: unknown): boolean {
    const text = error instanceof Error ? error.message : String(error)
    const problem = error === undefined ? undefined : text
    if (this.#watches.has(resource) && this.#watches.get(resource) === problem) return false
    this.#watches.set(resource, problem)
    const problems = [...this.#watches].filter(([, each]) => each !== undefined)
    const kinds = this.#subscription.spec.kinds.length
    if (problems.length > 0)
      this.#set(
        'Ready',
        'False',
        'WatchFailed',
        problems.map(([name, each]) => `${name}: ${each}`).join('; '),
      )
    else if (this.#watches.size === kinds) this.#set('Ready', 'True', 'Watching', 'all kinds are watched')
    return true
  }

  delivered(delivery: Delivery): void {
    this.#delivered++
    this.#lastDelivery = { lastDeliveryTime: this.#now() }
    this.settled(delivery)
  }

  /** @returns true if it is the first one that fails */
  failed(delivery: Delivery, message: string): boolean {
    const isFirst = this.#failing.size === 0
    this.#failing.add(delivery)
    this.#lastError = { lastError: { time: this.#now(), message, object: delivery.object } }
    this.#judge()
    return isFirst
  }

  /** A dead letter could be stored, or not. */
  room(hasRoom: boolean): void {
    this.#hasRoom = hasRoom
    this.#judge()
  }

  settled(delivery: Delivery): void {
    this.#failing.delete(delivery)
    this.#judge()
  }

  status(pending: number, oldestSince: number | undefined): StatusPatch {
    const lagMs = oldestSince === undefined ? 0 : this.#clock.monotonic() - oldestSince
    return {
      observedGeneration: this.#subscription.metadata.generation,
      delivered: this.#delivered,
      pending,
      lagSeconds: Math.floor(lagMs / 1000),
      ...this.#lastDelivery,
      ...this.#lastError,
      conditions: this.#conditions,
    }
  }

  #judge(): void {
    const count = this.#failing.size
    if (count === 0) this.#set('Delivering', 'True', 'Accepted', 'no delivery is failing')
    else if (this.#hasRoom)
      this.#set('Delivering', 'False', 'Retrying', 'deliveries are failing and are retried')
    else {
      const message = `there are ${this.#subscription.spec.maxDeadLetters} dead letters: further failing deliveries are retried until some are deleted`
      this.#set('Delivering', 'False', 'DeadLettersFull', message)
    }
  }

  #set(type: 'Ready' | 'Delivering', status: 'True' | 'False', reason: string, message: string): void {
    const observedGeneration = this.#subscription.metadata.generation
    const condition = { type, status, reason, message: message.slice(0, messageLength), observedGeneration }
    this.#conditions = setCondition(this.#conditions, condition, this.#clock)
  }

  #now(): string {
    return new Date(this.#clock.now()).toISOString()
  }
}
