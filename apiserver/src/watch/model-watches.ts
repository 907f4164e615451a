import type { Revision } from '@setpoint/controller-runtime/api'
import type { CacheEvent, ModelCache } from '../cache/index.ts'
import { WorkTurns } from '../scheduling/index.ts'
import { Audience } from './audience.ts'
import { AudienceIndex } from './audience-index.ts'
import { Preparations } from './preparations.ts'
import { Subscription, type SubscriptionParts, tooSlow } from './subscription.ts'
import { ChangeEvents } from './wire-event.ts'

/** The watches of one model in numbers, since the server's start. */
export interface WatchTally {
  /** Watches that are open. */
  open: number
  /** Events sent to all of them, bookmarks included. */
  sent: number
  /** Watches that ended because their clients were too slow. */
  tooSlow: number
}

/**
 * The subscriptions of one model, by interest. The changes of one tick of the event loop are sent at its end.
 */
export class ModelWatches {
  readonly tally: WatchTally
  readonly #cache: ModelCache
  readonly #pace: WorkTurns
  readonly #subscriptions = new Set<Subscription>()
  readonly #audiences: AudienceIndex
  readonly #preparations: Preparations
  readonly #stopObserving: () => void
  #dirty: Audience[] = []
  /** False once objects are in a version that this server does not know, see `unknownVersion` of the cache. */
  #canSelect = true
  #flush: NodeJS.Immediate | undefined

  constructor(cache: ModelCache, tally: WatchTally, pace: WorkTurns = new WorkTurns()) {
    this.#cache = cache
    this.#pace = pace
    this.tally = tally
    this.#preparations = new Preparations(cache)
    this.#audiences = new AudienceIndex(cache.served.indexes)
    this.#stopObserving = cache.observe({
      changed: change => this.#changed(change),
      reset: () => {
        for (const subscription of this.#subscriptions) subscription.expire()
      },
    })
  }

  get subscriptions(): ReadonlySet<Subscription> {
    return this.#subscriptions
  }

  /** Adds a subscription, which leaves when it ends. */
  add({
    onEnd,
    ...parts
  }: Omit<SubscriptionParts, 'cache' | 'audience' | 'preparations' | 'pace' | 'onSent'>): Subscription {
    const { served } = this.#cache
    const { key, selector, version = served.hub } = parts.request
    const interest = { key, selector, version }
    const audience = this.#audiences.ensure(interest, () => new Audience(served, interest))
    audience.members++
    const subscription: Subscription = new Subscription({
      ...parts,
      cache: this.#cache,
      pace: this.#pace,
      preparations: this.#preparations,
      audience,
      onSent: events => {
        this.tally.sent += events
      },
      onEnd: end => {
        if (end === tooSlow) this.tally.tooSlow++
        this.#remove(subscription)
        onEnd?.(end)
      },
    })
    this.#subscriptions.add(subscription)
    this.tally.open++
    return subscription
  }

  #remove(subscription: Subscription): void {
    this.#subscriptions.delete(subscription)
    this.tally.open--
    const { audience } = subscription
    audience.members--
    if (audience.members === 0) this.#audiences.remove(audience)
  }

  bookmark(revision: Revision): void {
    for (const audience of this.#audiences) audience.bookmark(revision)
  }

  stop(): void {
    this.#stopObserving()
    clearImmediate(this.#flush)
  }

  #changed(change: CacheEvent): void {
    if (this.#audiences.size === 0) return
    const { unknownVersion } = this.#cache
    if (unknownVersion !== undefined && this.#canSelect) {
      // From now on a subscription ends before it becomes live.
      this.#canSelect = false
      for (const audience of this.#audiences) if (audience.selectsDeclared) audience.fail(unknownVersion)
    }
    const events = new ChangeEvents(this.#cache, change)
    this.#audiences.visit(change, audience => {
      if (audience.isLive && audience.changed(events)) this.#dirty.push(audience)
    })
    if (this.#dirty.length > 0) this.#flush ??= setImmediate(() => this.#flushAll())
  }

  #flushAll(): void {
    this.#flush = undefined
    const dirty = this.#dirty
    this.#dirty = []
    for (const audience of dirty) audience.flush()
  }
}
