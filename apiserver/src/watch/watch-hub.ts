import {
  ApiError,
  closeCodes,
  isApiError,
  laterRevision,
  type Revision,
  type WatchEnd,
} from '@setpoint/controller-runtime'
import type { CacheEvent, HistoryReplay, LogFollower, ModelCache, ReadGate } from '../cache/index.ts'
import type { Logger } from '../log.ts'
import type { ServedModel } from '../model/served-model.ts'
import { ChangeFrames } from './frames.ts'
import { Subscription, tooSlow, type WatchRequest, type WatchSink, watchDefaults } from './subscription.ts'

/** A watch that is under way, as its transport sees it. */
export interface Watch {
  /** The client has taken some of what was sent. */
  drained(): void
  /** The client has gone. */
  close(): void
}

/** The watches of one model in numbers, since the server's start. */
export interface WatchTally {
  /** Watches that are open. */
  open: number
  /** Events sent to all of them, bookmarks included. */
  sent: number
  /** Watches that were ended because their clients were too slow. */
  tooSlow: number
}

/** The subscriptions of one model: each change is encoded once and handed to all of them. */
class ModelWatches {
  readonly subscriptions = new Set<Subscription>()
  readonly #cache: ModelCache
  readonly stop: () => void

  constructor(cache: ModelCache) {
    this.#cache = cache
    this.stop = cache.observe({ changed: event => this.#changed(event), reset: () => this.#reset() })
  }

  #changed(event: CacheEvent): void {
    if (this.subscriptions.size === 0) return
    const frames = new ChangeFrames(this.#cache.served, event)
    for (const subscription of this.subscriptions) subscription.changed(frames)
  }

  #reset(): void {
    for (const subscription of this.subscriptions) subscription.expire()
  }
}

/** Every watch of this server. Gives each its start, its bookmarks and its end. */
export class WatchHub {
  readonly #gate: ReadGate
  readonly #replay: HistoryReplay
  readonly #follower: LogFollower
  readonly #log: Logger
  readonly #models = new Map<ModelCache, ModelWatches>()
  /** Stay when a model is not served for a while: a counter must not fall. */
  readonly #tallies = new Map<ServedModel, WatchTally>()
  readonly #bookmarks: NodeJS.Timeout
  #draining = false

  constructor(options: { gate: ReadGate; replay: HistoryReplay; follower: LogFollower; log: Logger }) {
    this.#gate = options.gate
    this.#replay = options.replay
    this.#follower = options.follower
    this.#log = options.log
    this.#bookmarks = setInterval(() => void this.#sendBookmarks(), watchDefaults.bookmarkMs)
    this.#bookmarks.unref()
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

  /**
   * Waits until the cache is new enough for the request to be answered exactly, and reaches far enough back.
   * @returns a revision whose state the cache has.
   * @throws ApiError 503 when it is not, in time; 504 when the state asked for has not been reached.
   */
  async admit(cache: ModelCache, request: WatchRequest, signal?: AbortSignal): Promise<Revision> {
    if (this.#draining)
      throw new ApiError('ServiceUnavailable', 'the server is shutting down', { retryAfterSeconds: 1 })
    const present = await this.#gate.pass(signal)
    if (request.notBefore !== undefined && request.notBefore > present) {
      throw new ApiError('Timeout', `Too large resource version: ${request.notBefore}, current: ${present}`, {
        retryAfterSeconds: 1,
        causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }],
      })
    }
    if (request.after !== undefined) await this.#replay.reach(cache, request.after)
    return present
  }

  /** Opens a watch on a cache; `present` is what `admit` answered. */
  open(cache: ModelCache, request: WatchRequest, sink: WatchSink, present: Revision): Watch {
    const watches = this.#watchesOf(cache)
    const tally = this.#tallyOf(cache.served)
    const ended: WatchSink = {
      get backlog() {
        return sink.backlog
      },
      send: (frame, version) => {
        tally.sent++
        sink.send(frame, version)
      },
      end: end => {
        tally.open--
        if (end === tooSlow) tally.tooSlow++
        clearTimeout(lifetime)
        watches.subscriptions.delete(subscription)
        sink.end(end)
      },
    }
    const subscription = new Subscription(cache, request, ended, present)
    const lifetime = setTimeout(() => {
      subscription.bookmark(this.#follower.known)
      subscription.end({ code: closeCodes.normal, reason: 'timeout' })
    }, request.lifetimeMs)
    lifetime.unref()
    watches.subscriptions.add(subscription)
    tally.open++
    const latest = laterRevision(present, this.#follower.known)
    if (request.after !== undefined && request.after > latest) {
      subscription.expire(
        `version ${request.after} has not been reached, the present one is ${latest}: list again`,
      )
    } else subscription.pump()
    return {
      drained: () => subscription.pump(),
      close: () => subscription.end({ code: closeCodes.normal, reason: 'closed by the client' }),
    }
  }

  /** Ends every watch of a model that is no longer served. */
  remove(cache: ModelCache): void {
    const watches = this.#models.get(cache)
    if (watches === undefined) return
    watches.stop()
    this.#models.delete(cache)
    for (const subscription of watches.subscriptions) {
      subscription.end({ code: closeCodes.tryAgainLater, reason: 'the kind is not served at the moment' })
    }
  }

  /** Takes no new watches and ends those that are open, each with a last bookmark. */
  drain(end: WatchEnd = { code: closeCodes.goingAway, reason: 'the server is shutting down' }): void {
    this.#draining = true
    clearInterval(this.#bookmarks)
    for (const { subscriptions } of this.#models.values()) {
      for (const subscription of subscriptions) {
        subscription.bookmark(this.#follower.known)
        subscription.end(end)
      }
    }
  }

  #watchesOf(cache: ModelCache): ModelWatches {
    const known = this.#models.get(cache)
    if (known !== undefined) return known
    const watches = new ModelWatches(cache)
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

  async #sendBookmarks(): Promise<void> {
    try {
      const present = await this.#gate.pass()
      for (const { subscriptions } of this.#models.values()) {
        for (const subscription of subscriptions) subscription.bookmark(present)
      }
    } catch (error) {
      if (!isApiError(error)) throw error
      this.#log.debug({ err: error }, 'no bookmarks while the store cannot be asked')
    }
  }
}
