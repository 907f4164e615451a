import { createHash } from 'node:crypto'
import {
  type ApiError,
  type ChangeType,
  isApiError,
  type KeyParts,
  type ObjectKey,
  type Revision,
  type Selector,
  splitObjectKey,
} from '@setpoint/controller-runtime/api'
import type { CacheEvent, Entry } from '../cache/index.ts'
import { ConversionNeeded, type ServedModel, type ServedVersion } from '../model/index.ts'
import { matchesEntry, readsDeclared, testWork } from '../query/index.ts'
import { bookmarkEvent, type ChangeEvents, type WireEvent } from './wire-event.ts'

export const audienceDefaults = Object.freeze({
  /** Bytes of events that wait for the end of the tick. Bounds one write to a socket, unless one event is larger. */
  pendingBytes: 256 * 1024,
})

/** What a subscription selects. Subscriptions with equal interests get the same events. */
export interface Interest {
  /** The key of one object, which may not exist yet; undefined for the collection. */
  readonly key: ObjectKey | undefined
  readonly selector: Selector
  /** The version of the objects. Default: the hub. */
  readonly version?: ServedVersion
}

/** The bytes of one tick by codec, encoded once for all subscriptions with that codec. */
export type SharedBytes = Map<string, Buffer>

/** What an audience needs to know of a subscription. */
export interface AudienceMember {
  /** Pending events that it has already sent. */
  skip: number
  deliver(events: readonly WireEvent[], shared: SharedBytes): void
  deliverBookmark(events: readonly WireEvent[], shared: SharedBytes): void
  /** Leaves the audience and goes on by itself, from the change at `revision`. */
  fallBehind(revision: Revision): void
  /** Ends with an ERROR. */
  fail(error: ApiError): void
}

/**
 * The subscriptions of one model with equal interests. Each change is tested once for all of them, and the events of
 * one tick of the event loop go to each in one write.
 *
 *     change ──> tested ──> pending ──end of tick, or too much──> encoded once per codec ──> one write per subscription
 *
 * Only live subscriptions join. One that still catches up reads its events from the history. If a webhook must convert
 * an object first, the subscriptions leave and catch up.
 */
export class Audience {
  readonly interest: Interest
  /** The version of its objects. */
  readonly version: ServedVersion
  /** The last change that found this audience, which may be found in several ways. */
  seen: CacheEvent | undefined
  /** Subscriptions of this interest, live or not. */
  members = 0
  /** Entries that testing a change counts as. */
  readonly testWork: number
  /** True if it selects by an index that the model declares. */
  readonly selectsDeclared: boolean
  readonly #served: ServedModel
  /** The object's name and namespace, if the interest is in one. */
  readonly #one: KeyParts | undefined
  readonly #live = new Set<AudienceMember>()
  #pending: WireEvent[] = []
  #pendingBytes = 0

  constructor(served: ServedModel, interest: Interest) {
    this.#served = served
    this.interest = interest
    this.#one = interest.key === undefined ? undefined : splitObjectKey(interest.key)
    this.version = interest.version ?? served.hub
    this.testWork = testWork(interest.selector)
    this.selectsDeclared = readsDeclared(interest, served.indexes)
  }

  get isLive(): boolean {
    return this.#live.size > 0
  }

  /** Adds a subscription from the next change on. It has read the pending events from the history. */
  join(subscription: AudienceMember): void {
    subscription.skip = this.#pending.length
    this.#live.add(subscription)
  }

  leave(subscription: AudienceMember): void {
    this.#live.delete(subscription)
  }

  /** Queues a change for the live subscriptions. Returns true if it is the first pending event. */
  changed(events: ChangeEvents): boolean {
    const type = this.typeOf(events.change)
    if (type === undefined) return false
    let event: WireEvent
    try {
      event = events.of(type, this.version)
    } catch (error) {
      if (error instanceof ConversionNeeded) this.#fallBehind(events.change)
      else if (isApiError(error)) this.fail(error)
      else throw error
      return false
    }
    this.#pending.push(event)
    this.#pendingBytes += event.object.length
    if (this.#pendingBytes > audienceDefaults.pendingBytes) {
      this.flush()
      return false
    }
    return this.#pending.length === 1
  }

  /** Ends the live subscriptions, because they cannot get the next event. */
  fail(error: ApiError): void {
    this.flush()
    for (const subscription of [...this.#live]) subscription.fail(error)
  }

  /** Lets the live subscriptions wait for a conversion by themselves. Others are not held up. */
  #fallBehind({ revision }: CacheEvent): void {
    this.flush()
    for (const subscription of [...this.#live]) subscription.fallBehind(revision)
  }

  /** Sends the pending events. */
  flush(): void {
    if (this.#pending.length === 0) return
    const events = this.#pending
    this.#pending = []
    this.#pendingBytes = 0
    const shared: SharedBytes = new Map()
    for (const subscription of this.#live) subscription.deliver(events, shared)
  }

  /** Everything up to `revision` has been sent. */
  bookmark(revision: Revision): void {
    this.flush()
    const events = [bookmarkEvent(this.version, revision)]
    const shared: SharedBytes = new Map()
    for (const subscription of this.#live) subscription.deliverBookmark(events, shared)
  }

  /** The event of a change for this audience: ADDED if the object begins to match, DELETED if it ceases to. */
  typeOf({ previous, next }: CacheEvent): ChangeType | undefined {
    const before = previous !== undefined && this.matches(previous)
    const after = next !== undefined && this.matches(next)
    if (after) return before ? 'MODIFIED' : 'ADDED'
    return before ? 'DELETED' : undefined
  }

  matches(entry: Entry): boolean {
    return (this.#one === undefined || isAt(entry, this.#one)) && this.#matchesSelector(entry)
  }

  #matchesSelector(entry: Entry): boolean {
    return matchesEntry(entry, this.interest.selector, this.#served.indexes)
  }
}

function isAt(entry: Entry, { name, namespace }: KeyParts): boolean {
  return entry.name === name && entry.namespace === namespace
}

/** Equal for interests with the same terms, in any order. A long key is replaced by its hash. */
export function interestKey({ key: object, selector, version }: Interest): string {
  const sorted = (terms: Selector['labels']) =>
    terms.map(({ key, operator, values }) => JSON.stringify([key, operator, [...values].sort()])).sort()
  const key = JSON.stringify([object, sorted(selector.labels), sorted(selector.fields), version?.apiVersion])
  return key.length <= longestKey ? key : createHash('sha256').update(key).digest('base64')
}

const longestKey = 256
