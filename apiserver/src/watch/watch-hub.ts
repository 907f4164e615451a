import { ApiError, isApiError, type Revision } from '@setpoint/controller-runtime'
import type { Model } from '@setpoint/controller-runtime/api'
import {
  closeCodes,
  laterRevision,
  retryAfterSeconds,
  unlessAborted,
  type WatchEnd,
} from '@setpoint/controller-runtime/internal'
import {
  convertAgain,
  type HistoryReplay,
  type LogFollower,
  type ModelCache,
  type ReadGate,
  tooLargeVersion,
} from '../cache/index.ts'
import type { Logger } from '../log/index.ts'
import type { ServedModel } from '../model/index.ts'
import { readsDeclared } from '../query/index.ts'
import { WorkTurns } from '../scheduling/index.ts'
import { ModelWatches, type WatchTally } from './model-watches.ts'
import { type Subscription, type WatchRequest, type WatchSink, watchDefaults } from './subscription.ts'
import { type WatchesByCaller, watchesByCaller } from './watches-by-caller.ts'

export const hubDefaults = Object.freeze({
  /** Milliseconds between two checks for stalled clients. */
  stallCheckMs: 10_000,
  /** Milliseconds until bookmarks are retried after a failure: clients expect one a minute. */
  bookmarkRetryMs: 1_000,
  /** Watches that a draining server ends each second at least: Kubernetes' rate. */
  drainPerSecond: 200,
  /** Milliseconds between two steps of draining. */
  drainStepMs: 50,
})

/** An open watch, as its transport sees it. */
export interface Watch {
  /** The client has read something. */
  drained(): void
  /** The client has gone. */
  close(): void
  /** The client's credentials are no longer valid. */
  revoke(): void
  /** The client may no longer watch. The error is the last event. */
  forbid(error: ApiError): void
}

/** The end of a watch whose client's credentials are no longer valid. */
export const revoked: WatchEnd = Object.freeze({
  code: closeCodes.policyViolation,
  reason: 'the credentials are no longer valid',
})

/** The end of the watches of a draining server. */
export const goingAway: WatchEnd = Object.freeze({
  code: closeCodes.goingAway,
  reason: 'the server is shutting down',
})

/** The end of the watches of a kind that is not served at the moment. */
export const notServed: WatchEnd = Object.freeze({
  code: closeCodes.tryAgainLater,
  reason: 'the kind is not served at the moment',
})

/** Counts for one kind since the server's start, with its names. */
interface KindTally extends Pick<Model, 'group' | 'version' | 'plural' | 'kind'> {
  readonly tally: WatchTally
}

/** All watches of this server: opens them, sends their bookmarks and ends them. */
export class WatchHub {
  readonly #gate: ReadGate
  readonly #replay: HistoryReplay
  readonly #follower: LogFollower
  readonly #log: Logger
  readonly #models = new Map<ModelCache, ModelWatches>()
  readonly #pace = new WorkTurns()
  /** By resource. Kept while a model is not served, because a counter must not fall. */
  readonly #tallies = new Map<string, KindTally>()
  readonly #stallChecks: NodeJS.Timeout
  #bookmarks: NodeJS.Timeout
  /** The watches of this process's controllers, which end by themselves. */
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

  /** Number of open watches. */
  get size(): number {
    let size = 0
    for (const { subscriptions } of this.#models.values()) size += subscriptions.size
    return size
  }

  /** Every kind that has been watched and not been forgotten. */
  tallies(): Iterable<KindTally> {
    return this.#tallies.values()
  }

  /** Forgets the tallies of kinds that are gone. @param isKnown takes `<group>/<plural>` */
  keepTallies(isKnown: (resource: string) => boolean): void {
    for (const resource of this.#tallies.keys()) if (!isKnown(resource)) this.#tallies.delete(resource)
  }

  /** Returns the open watches by caller and kind. */
  byCaller(): WatchesByCaller {
    return watchesByCaller(
      Array.from(this.#models, ([{ served }, { subscriptions }]) => [served.title, subscriptions] as const),
    )
  }

  /** To be called for clients of other processes. @throws ApiError 503 once the server drains */
  checkOpen(): void {
    if (this.#draining)
      throw new ApiError('ServiceUnavailable', 'the server is shutting down', { retryAfterSeconds })
  }

  /**
   * Waits until the cache is new enough for the request, and its history goes back far enough. What webhooks have not
   * converted to the hub has no values for a selector: it is tried again first.
   * @returns a revision that the cache has reached
   * @throws ApiError 503 if that takes too long, or objects are stored in a version that this server does not know; 504 if the requested version has not been reached; ConversionError
   */
  async admit(cache: ModelCache, request: WatchRequest, signal?: AbortSignal): Promise<Revision> {
    const present = await this.#gate.pass(signal)
    if (request.notBefore !== undefined && request.notBefore > present)
      throw tooLargeVersion(request.notBefore, present)
    const selectsDeclared = readsDeclared(request, cache.served.indexes)
    if (selectsDeclared && cache.unknownVersion !== undefined) throw cache.unknownVersion
    if (selectsDeclared && cache.unconverted.size > 0) {
      const failure = await unlessAborted(convertAgain(cache), signal)
      if (failure !== undefined) throw failure
    }
    if (request.after !== undefined) await this.#replay.reach(cache, request.after, signal)
    // The cache was dropped while this request waited.
    if (this.#follower.cacheOf(cache.served) !== cache)
      throw new ApiError('ServiceUnavailable', `${cache.served.resource} is being read again`, {
        retryAfterSeconds,
      })
    return present
  }

  /**
   * Opens a watch on a cache. `present` is the result of `admit`. An internal watch, of a controller in this process,
   * stays open while the server drains.
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
      forbid: error => subscription.fail(error),
    }
  }

  /**
   * Refuses new watches from outside and ends the open ones, each with a last bookmark. Ends them one after another, at
   * `drainPerSecond` or as fast as `graceMs` demands, because their clients turn to another server. Resolves when all
   * have ended.
   */
  async drain(graceMs: number): Promise<void> {
    this.#draining = true
    let left = this.#all().filter(subscription => !this.#internal.has(subscription))
    const { drainPerSecond, drainStepMs } = hubDefaults
    const steps = Math.max(1, Math.floor(graceMs / drainStepMs))
    const atOnce = Math.max(Math.ceil((drainPerSecond * drainStepMs) / 1000), Math.ceil(left.length / steps))
    while (left.length > 0) {
      for (const subscription of left.slice(0, atOnce)) this.#end(subscription, goingAway)
      // Watches whose clients left by themselves take no time.
      left = left.filter(({ hasEnded }) => !hasEnded)
      if (left.length > 0) await new Promise(resolve => setTimeout(resolve, drainStepMs))
    }
  }

  /** Ends the watches of a cache that is no longer served, each with a last bookmark. */
  drop(cache: ModelCache): void {
    const watches = this.#models.get(cache)
    if (watches === undefined) return
    for (const subscription of [...watches.subscriptions]) this.#end(subscription, notServed)
    watches.stop()
    this.#models.delete(cache)
  }

  /** Ends all watches at once and refuses new ones. */
  close(): void {
    this.#draining = true
    this.#closed = true
    clearInterval(this.#stallChecks)
    clearTimeout(this.#bookmarks)
    for (const subscription of this.#all()) this.#end(subscription, goingAway)
    for (const watches of this.#models.values()) watches.stop()
    this.#models.clear()
  }

  /** Ends a watch with a last bookmark, so its client can resume. */
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
    const { group, version, plural, kind } = served.model
    const tally = this.#tallies.get(served.resource)?.tally ?? { open: 0, sent: 0, tooSlow: 0 }
    this.#tallies.set(served.resource, { group, version, plural, kind, tally })
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
      this.#log.debug({ err: error }, 'failed to send bookmarks, retrying')
      next = hubDefaults.bookmarkRetryMs
    }
    if (!this.#closed) this.#bookmarks = this.#bookmarksAfter(next)
  }
}
