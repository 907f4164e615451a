import {
  ApiError,
  closeCodes,
  isApiError,
  laterRevision,
  type Revision,
  type WatchEnd,
} from '@setpoint/controller-runtime'
import type { HistoryReplay, LogFollower, ModelCache, ReadGate } from '../cache/index.ts'
import type { Logger } from '../log.ts'
import type { ServedModel } from '../model/served-model.ts'
import { ModelWatches, type WatchTally } from './model-watches.ts'
import { type Subscription, type WatchRequest, type WatchSink, watchDefaults } from './subscription.ts'
import { WatchPace } from './watch-pace.ts'

export const hubDefaults = Object.freeze({
  /** Milliseconds between two looks for clients that take nothing. */
  stallCheckMs: 10_000,
  /** Milliseconds after which bookmarks that could not be sent are tried again: a minute without one must not pass. */
  bookmarkRetryMs: 1_000,
  /** Watches that a draining server ends in a second at least: Kubernetes' rate. */
  drainPerSecond: 200,
  /** Milliseconds between two steps of draining. */
  drainStepMs: 50,
})

/** A watch that is under way, as its transport sees it. */
export interface Watch {
  /** The client has taken some of what was sent. */
  drained(): void
  /** The client has gone. */
  close(): void
  /** The client may not watch any more. */
  revoke(): void
}

/** How a watch ends whose client's credentials are no longer valid. */
export const revoked: WatchEnd = Object.freeze({
  code: closeCodes.policyViolation,
  reason: 'the credentials are no longer valid',
})

/** How the watches of a draining server end. */
export const goingAway: WatchEnd = Object.freeze({
  code: closeCodes.goingAway,
  reason: 'the server is shutting down',
})

/** Every watch of this server. Gives each its start, its bookmarks and its end. */
export class WatchHub {
  readonly #gate: ReadGate
  readonly #replay: HistoryReplay
  readonly #follower: LogFollower
  readonly #log: Logger
  readonly #models = new Map<ModelCache, ModelWatches>()
  readonly #pace = new WatchPace()
  /** Stay when a model is not served for a while: a counter must not fall. */
  readonly #tallies = new Map<ServedModel, WatchTally>()
  readonly #stallChecks: NodeJS.Timeout
  #bookmarks: NodeJS.Timeout
  /** Those of this process's own controllers, which end by themselves. */
  readonly #internal = new WeakSet<Subscription>()
  #draining = false
  #closed = false

  constructor(options: { gate: ReadGate; replay: HistoryReplay; follower: LogFollower; log: Logger }) {
    this.#gate = options.gate
    this.#replay = options.replay
    this.#follower = options.follower
    this.#log = options.log
    this.#stallChecks = setInterval(() => this.#checkStalls(), hubDefaults.stallCheckMs).unref()
    this.#bookmarks = this.#bookmarksAfter(watchDefaults.bookmarkMs)
  }

  /** Watches that are open. */
  get size(): number {
    let size = 0
    for (const { subscriptions } of this.#models.values()) size += subscriptions.size
    return size
  }

  /** Every model that has been watched. */
  tallies(): Iterable<readonly [ServedModel, Readonly<WatchTally>]> {
    return this.#tallies
  }

  /** To be called for clients from outside. @throws ApiError 503 once no new ones are taken. */
  checkOpen(): void {
    if (this.#draining)
      throw new ApiError('ServiceUnavailable', 'the server is shutting down', { retryAfterSeconds: 1 })
  }

  /**
   * Waits until the cache is new enough for the request to be answered exactly, and reaches far enough back.
   * @returns a revision whose state the cache has.
   * @throws ApiError 503 when it is not, in time; 504 when the state asked for has not been reached.
   */
  async admit(cache: ModelCache, request: WatchRequest, signal?: AbortSignal): Promise<Revision> {
    const present = await this.#gate.pass(signal)
    if (request.notBefore !== undefined && request.notBefore > present) {
      throw new ApiError('Timeout', `Too large resource version: ${request.notBefore}, current: ${present}`, {
        retryAfterSeconds: 1,
        causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }],
      })
    }
    if (request.after !== undefined) await this.#replay.reach(cache, request.after, signal)
    // Found to be wrong while this request waited: nobody is told what is in it.
    if (this.#follower.cacheOf(cache.served) !== cache)
      throw new ApiError('ServiceUnavailable', `${cache.served.resource} is being read again`, {
        retryAfterSeconds: 1,
      })
    return present
  }

  /**
   * Opens a watch on a cache; `present` is what `admit` answered. One that is internal, of a controller in this process,
   * lasts while the server drains.
   */
  open(
    cache: ModelCache,
    request: WatchRequest,
    sink: WatchSink,
    present: Revision,
    { internal = false, caller = '', onEnd = () => {} } = {},
  ): Watch {
    const subscription = this.#watchesOf(cache).add({
      request,
      sink,
      caller,
      present,
      onEnd: () => {
        clearTimeout(lifetime)
        onEnd()
      },
    })
    if (internal) this.#internal.add(subscription)
    const lifetime = setTimeout(
      () => this.#end(subscription, { code: closeCodes.normal, reason: 'timeout' }),
      request.lifetimeMs,
    )
    lifetime.unref()
    const latest = laterRevision(present, this.#follower.known)
    if (request.after !== undefined && request.after > latest) {
      subscription.expire(
        `version ${request.after} has not been reached, the present one is ${latest}: list again`,
      )
    } else subscription.pump()
    return {
      drained: () => subscription.pump(),
      close: () => subscription.end({ code: closeCodes.normal, reason: 'closed by the client' }),
      revoke: () => subscription.end(revoked),
    }
  }

  /**
   * Takes no new watches from outside and ends those that are open, each with a last bookmark. They are ended one after
   * another, at `drainPerSecond` or as fast as `graceMs` demands: their clients all turn to another server. Resolves
   * when none is left.
   */
  async drain(graceMs: number): Promise<void> {
    this.#draining = true
    let left = this.#all().filter(subscription => !this.#internal.has(subscription))
    const { drainPerSecond, drainStepMs } = hubDefaults
    const steps = Math.max(1, Math.floor(graceMs / drainStepMs))
    const atOnce = Math.max(Math.ceil((drainPerSecond * drainStepMs) / 1000), Math.ceil(left.length / steps))
    while (left.length > 0) {
      for (const subscription of left.slice(0, atOnce)) this.#end(subscription, goingAway)
      // Those whose clients go by themselves need no time of their own.
      left = left.filter(({ hasEnded }) => !hasEnded)
      if (left.length > 0) await new Promise(resolve => setTimeout(resolve, drainStepMs))
    }
  }

  /** Ends all watches at once, and takes no new ones. */
  close(): void {
    this.#draining = true
    this.#closed = true
    clearInterval(this.#stallChecks)
    clearTimeout(this.#bookmarks)
    for (const subscription of this.#all()) this.#end(subscription, goingAway)
    for (const watches of this.#models.values()) watches.stop()
    this.#models.clear()
  }

  /** The normal ends: a client can resume from the bookmark. */
  #end(subscription: Subscription, end: WatchEnd): void {
    if (subscription.hasEnded) return
    if (subscription.isLive) subscription.bookmark(this.#follower.known)
    subscription.end(end)
  }

  #all(): Subscription[] {
    return [...this.#models.values()].flatMap(({ subscriptions }) => [...subscriptions])
  }

  #watchesOf(cache: ModelCache): ModelWatches {
    const known = this.#models.get(cache)
    if (known !== undefined) return known
    const watches = new ModelWatches(cache, this.#tallyOf(cache.served), this.#pace)
    this.#models.set(cache, watches)
    return watches
  }

  #tallyOf(served: ServedModel): WatchTally {
    const known = this.#tallies.get(served)
    if (known !== undefined) return known
    const tally = { open: 0, sent: 0, tooSlow: 0 }
    this.#tallies.set(served, tally)
    return tally
  }

  #checkStalls(): void {
    for (const { subscriptions } of this.#models.values()) {
      for (const subscription of subscriptions) subscription.checkStall()
    }
  }

  #bookmarksAfter(ms: number): NodeJS.Timeout {
    return setTimeout(() => void this.#sendBookmarks(), ms).unref()
  }

  async #sendBookmarks(): Promise<void> {
    let next: number = watchDefaults.bookmarkMs
    try {
      const present = await this.#gate.pass()
      for (const watches of this.#models.values()) watches.bookmark(present)
    } catch (error) {
      if (!isApiError(error)) throw error
      this.#log.debug({ err: error }, 'no bookmarks while the store cannot be asked')
      next = hubDefaults.bookmarkRetryMs
    }
    if (!this.#closed) this.#bookmarks = this.#bookmarksAfter(next)
  }
}
