import { createHash } from 'node:crypto'
import type { ChangeType, Selector } from '@setpoint/controller-runtime/api'
import type { CacheEvent, Entry } from '../cache/index.ts'
import type { ServedModel } from '../model/served-model.ts'
import { matchesEntry, testWork } from '../query/index.ts'
import type { Subscription } from './subscription.ts'
import { bookmarkEvent, type ChangeEvents, type WireEvent } from './wire-event.ts'

export const audienceDefaults = Object.freeze({
  /** Bytes of events that wait for the end of the tick at most: what one write to a socket is at most, or one event. */
  pendingBytes: 256 * 1024,
})

/** What subscriptions have in common that get the same events. */
export interface Interest {
  /** One object, which may not exist yet; undefined for the collection. */
  readonly name: string | undefined
  readonly selector: Selector
}

/** The bytes of one tick by codec: made once, sent to everyone of that codec. */
export type SharedBytes = Map<string, Buffer>

/**
 * The subscriptions of one model that are interested in the same: each change is judged once for all of them, and what
 * happens within one tick of the event loop is sent to each in one write.
 *
 *     change ──> judged ──> pending ──end of tick, or too much──> encoded once per codec ──> one write per subscription
 *
 * Only live subscriptions are here; one that still catches up takes its events from the history by itself.
 */
export class Audience {
  readonly interest: Interest
  /** The last change that was looked at, for whoever finds this audience in several ways. */
  seen: CacheEvent | undefined
  /** Subscriptions of this interest, live or not. */
  members = 0
  /** Entries that testing a change counts as. */
  readonly testWork: number
  readonly #served: ServedModel
  readonly #live = new Set<Subscription>()
  #pending: WireEvent[] = []
  #pendingBytes = 0

  constructor(served: ServedModel, interest: Interest) {
    this.#served = served
    this.interest = interest
    this.testWork = testWork(interest.selector)
  }

  get isLive(): boolean {
    return this.#live.size > 0
  }

  /** From the next change on. What is pending, the subscription has read from the history already. */
  join(subscription: Subscription): void {
    subscription.skip = this.#pending.length
    this.#live.add(subscription)
  }

  leave(subscription: Subscription): void {
    this.#live.delete(subscription)
  }

  /** Takes in a change for those that are live. Answers whether something is pending now that was not before. */
  changed(events: ChangeEvents): boolean {
    const type = this.typeOf(events.change)
    if (type === undefined) return false
    const event = events.of(type)
    this.#pending.push(event)
    this.#pendingBytes += event.object.length
    if (this.#pendingBytes > audienceDefaults.pendingBytes) {
      this.flush()
      return false
    }
    return this.#pending.length === 1
  }

  /** Sends what is pending. */
  flush(): void {
    if (this.#pending.length === 0) return
    const events = this.#pending
    this.#pending = []
    this.#pendingBytes = 0
    const shared: SharedBytes = new Map()
    for (const subscription of this.#live) subscription.deliver(events, shared)
  }

  /** Everything up to `revision` has been sent. */
  bookmark(revision: Parameters<typeof bookmarkEvent>[1]): void {
    this.flush()
    const events = [bookmarkEvent(this.#served, revision)]
    const shared: SharedBytes = new Map()
    for (const subscription of this.#live) subscription.deliverBookmark(events, shared)
  }

  /** What a change is to this audience: what comes to match is ADDED and what ceases to match DELETED. */
  typeOf({ previous, next }: CacheEvent): ChangeType | undefined {
    const before = previous !== undefined && this.concerns(previous)
    const after = next !== undefined && this.concerns(next)
    if (after) return before ? 'MODIFIED' : 'ADDED'
    return before ? 'DELETED' : undefined
  }

  concerns(entry: Entry): boolean {
    const { name, selector } = this.interest
    return (name === undefined || entry.name === name) && matchesEntry(entry, selector, this.#served.indexes)
  }
}

/** Equal for interests with the same terms, in any order. A long key is replaced by its hash. */
export function interestKey({ name, selector }: Interest): string {
  const sorted = (terms: Selector['labels']) =>
    terms.map(({ key, operator, values }) => JSON.stringify([key, operator, [...values].sort()])).sort()
  const key = JSON.stringify([name, sorted(selector.labels), sorted(selector.fields)])
  return key.length <= longestKey ? key : createHash('sha256').update(key).digest('base64')
}

const longestKey = 256
