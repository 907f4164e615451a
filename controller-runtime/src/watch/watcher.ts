import { errorMessage } from '../api/error-message.ts'
import { ApiError, isExpired } from '../api/errors.ts'
import { groupResource } from '../api/group-resource.ts'
import { type KeysOf, refuseUnknownKeys } from '../api/known-keys.ts'
import type { Model } from '../api/model.ts'
import { type ApiObject, initialEventsEndAnnotation } from '../api/object.ts'
import { objectKey } from '../api/object-key.ts'
import { refuseNonModel } from '../api/refuse-non-model.ts'
import { compareVersions } from '../api/version.ts'
import { closeCodes, type WatchEvent } from '../api/watch-event.ts'
import { Backoff } from '../backoff.ts'
import type { SelectorOptions, WatchOptions, WatchStream } from '../client/client.ts'
import { MalformedEventError } from '../client/decode.ts'
import { InactivityTimer } from '../client/inactivity-timer.ts'
import { AddressError } from '../client/paths.ts'
import { failureFields, isServerAway, retryAfterMs } from '../client/server-away.ts'
import { TransportError } from '../client/transport.ts'
import { type Clock, sleep, systemClock } from '../clock.ts'
import { type Logger, silentLogger } from '../logger.ts'
import { unlessAborted } from '../unless-aborted.ts'
import { Yielder } from '../yielder.ts'

/** Times of a watcher, in ms, as in client-go and kube-rs. */
export const watcherDefaults = Object.freeze({
  /** Upper bound of the first delay before reconnecting. client-go's reflector starts at 800 ms. */
  backoffBaseMs: 800,
  /** Upper bound of every delay. client-go's reflector ends at 30 s. */
  backoffMaxMs: 30_000,
  /**
   * Upper bound of the delays while the server cannot be reached. A longer one would only keep the cache stale after
   * the server is back. Equal to the retry period of leases.
   */
  awayMaxMs: 2_000,
  /** A connection that lasted this long was healthy: the back-off starts over. */
  healthyAfterMs: 10_000,
  /** Upper bound of the delay that a server's Retry-After may ask for. */
  retryAfterMaxMs: 300_000,
  /** Warns if the initial events have not ended after this long, as client-go's watch-list. */
  slowListWarningMs: 10_000,
  /** Warns if the server cannot be reached for this long. */
  awayWarningMs: 10_000,
  /** Warns of the same failure again after this long. In between it is logged at the level debug. */
  repeatedWarningMs: 60_000,
  /** Reconnects and lists again after this long without an initial event. */
  stalledListMs: 60_000,
})

/** What a watcher selects, and how it reconnects. */
export interface WatcherOptions extends SelectorOptions {
  /** Watches one object, which need not exist yet: its name, or `<namespace>/<name>` for a namespaced kind. */
  readonly name?: string
  /** Told of failures that last, of refusals and of new lists. Default: silent. */
  readonly log?: Logger
  readonly clock?: Clock
  /** Returns a number in [0, 1). Default `Math.random`. */
  readonly random?: () => number
  readonly backoffBaseMs?: number
  readonly backoffMaxMs?: number
  readonly healthyAfterMs?: number
}

const watcherKeys: KeysOf<WatcherOptions> = {
  labelSelector: true,
  fieldSelector: true,
  name: true,
  log: true,
  clock: true,
  random: true,
  backoffBaseMs: true,
  backoffMaxMs: true,
  healthyAfterMs: true,
}

/** Opens raw watches; a `Client` is one. */
export interface WatchSource<T extends ApiObject = ApiObject> {
  watch(model: Model<T>, options?: WatchOptions): Promise<WatchStream<T>>
}

/** An event of a watcher. `version` is the version up to which all changes have been reported. */
export type WatcherEvent<T extends ApiObject = ApiObject> =
  /**
   * The complete list at `version`: at the start, and again after the history was lost. Objects that it lacks are
   * deleted. `askedAt` is the monotonic time of the request: it contains all writes acknowledged before.
   */
  | {
      readonly type: 'replaced'
      readonly objects: readonly T[]
      readonly version: string
      readonly askedAt: number
    }
  /** Created or changed. */
  | { readonly type: 'applied'; readonly object: T; readonly version: string }
  /** Deleted; `object` is its last state. */
  | { readonly type: 'deleted'; readonly object: T; readonly version: string }
  /** No change up to `version`. */
  | { readonly type: 'bookmark'; readonly version: string }

interface Connection<T> {
  readonly stream: WatchStream<T>
  readonly events: AsyncIterator<WatchEvent<T>>
  readonly openedAt: number
  /** The version it resumed from; undefined if it started with a list. */
  readonly resumedFrom: string | undefined
}

/**
 * The state of a watcher.
 *
 *              opened                  initial-events-end
 *      empty ──────────> listing ─────────────────────────> live ──┐ event above its version
 *       ^ ^                 │           (replaced)           │ ^ ^─┘ (applied, deleted, bookmark)
 *       │ └── ended, error ─┘                                │ │
 *       │                                  ended, error, bad frame │ opened at its version
 *       │              410 at opening                        v │
 *       ├────────────────────────────────────────────────  detached
 *       └── 410 as event or close code, or a bad frame right after resuming ── (from live)
 *
 * Every way back to `empty` and `detached` passes through a back-off. Invariant of `live` and `detached`: all events up
 * to `version` were reported, none above it. `listing` reports nothing, so an interrupted list has no effect.
 */
type State<T> =
  | { readonly phase: 'empty' }
  | {
      readonly phase: 'listing'
      readonly connection: Connection<T>
      readonly objects: Map<string, T>
      readonly askedAt: number
    }
  | { readonly phase: 'live'; readonly connection: Connection<T>; readonly version: string }
  | { readonly phase: 'detached'; readonly version: string }

/** The next state, and the event to report on the way. */
type Step<T extends ApiObject> = readonly [State<T>, WatcherEvent<T>?]

/**
 * A stream of all changes to a model's objects that survives disconnects.
 *
 * Guarantees
 * - One `replaced` with all objects, then every change exactly once, in rising versions. After a disconnect it resumes
 *   from the last version; if the server has compacted the history, another complete `replaced` follows.
 * - No error ends it, neither an unreachable server nor an undecodable frame. It ends when aborted. Only if the name
 *   lacks the namespace of a namespaced kind, `events` throws at once, because no request can be made.
 *
 * Assumptions
 * - The transport detects dead connections, as `HttpTransport` does.
 *
 * Caveats
 * - A `replaced` may skip intermediate states. An object that was deleted and recreated meanwhile has another uid.
 * - Without `log` nobody learns that it cannot reach the server.
 *
 * To watch the objects of one namespace, give it a client of that namespace:
 *
 *     new Watcher(client.inNamespace('team-a'), Job, { log })
 */
export class Watcher<T extends ApiObject = ApiObject> {
  readonly #client: WatchSource<T>
  readonly #model: Model<T>
  readonly #options: WatcherOptions
  readonly #log: Logger
  readonly #clock: Clock
  /** Used after the server responded. */
  readonly #backoff: Backoff
  /** Used while the server cannot be reached. */
  readonly #awayBackoff: Backoff
  readonly #yielder: Yielder
  readonly #counts = { opened: 0, replaced: 0, malformed: 0, outOfDate: 0 }
  /** Monotonic ms since when every attempt has found the server unreachable. */
  #awaySince: number | undefined
  /** The latest failure that was logged as a warning, and its monotonic ms. */
  #warned: { readonly text: string; readonly at: number } | undefined

  /**
   * @throws TypeError for an unknown option, since a misspelled selector would select every object, and without a
   * client or model.
   */
  constructor(client: WatchSource<NoInfer<T>>, model: Model<T>, options: WatcherOptions = {}) {
    refuseUnknownKeys(options, watcherKeys, 'the options of the watcher')
    refuseNonModel(model)
    if (typeof client?.watch !== 'function')
      throw new TypeError('expected a client, which createClient returns, as the first argument of a watcher')
    this.#client = client
    this.#model = model
    this.#options = options
    this.#log = (options.log ?? silentLogger).child({ watch: groupResource(model) })
    this.#clock = options.clock ?? systemClock
    this.#yielder = new Yielder(this.#clock)
    const baseMs = options.backoffBaseMs ?? watcherDefaults.backoffBaseMs
    const maxMs = options.backoffMaxMs ?? watcherDefaults.backoffMaxMs
    const random = options.random ?? Math.random
    this.#backoff = new Backoff({ baseMs, maxMs, random })
    this.#awayBackoff = new Backoff({ baseMs, maxMs: Math.min(maxMs, watcherDefaults.awayMaxMs), random })
  }

  /** Totals: connections opened, lists completed, undecodable frames, and events not above the current version. */
  get counts(): Readonly<{ opened: number; replaced: number; malformed: number; outOfDate: number }> {
    return { ...this.#counts }
  }

  /**
   * Watches until `signal` is aborted or the iteration is left.
   * @throws TypeError if the name lacks a namespace that the kind needs.
   */
  async *events(signal: AbortSignal): AsyncGenerator<WatcherEvent<T>, void> {
    let state: State<T> = { phase: 'empty' }
    try {
      while (!signal.aborted) {
        const [next, event]: Step<T> = await this.#step(state, signal)
        state = next
        if (event !== undefined && !signal.aborted) yield event
      }
    } catch (error) {
      if (!signal.aborted) throw error
    } finally {
      if ('connection' in state) state.connection.stream.close()
    }
  }

  #step(state: State<T>, signal: AbortSignal): Promise<Step<T>> {
    switch (state.phase) {
      case 'empty':
      case 'detached':
        return this.#open(state, signal)
      case 'listing':
        return this.#list(state, signal)
      case 'live':
        return this.#follow(state, signal)
    }
  }

  async #open(state: State<T> & { phase: 'empty' | 'detached' }, signal: AbortSignal): Promise<Step<T>> {
    const { name, labelSelector, fieldSelector } = this.#options
    const askedAt = this.#clock.monotonic()
    const resumedFrom = state.phase === 'detached' ? state.version : undefined
    let stream: WatchStream<T>
    try {
      stream = await this.#client.watch(this.#model, {
        signal,
        name,
        labelSelector,
        fieldSelector,
        version: resumedFrom,
      })
    } catch (error) {
      if (signal.aborted || error instanceof AddressError) throw error
      return this.#retreat(isExpired(error) ? { phase: 'empty' } : state, error, signal)
    }
    this.#counts.opened++
    this.#awaySince = undefined
    const openedAt = this.#clock.monotonic()
    const connection = { stream, events: stream[Symbol.asyncIterator](), openedAt, resumedFrom }
    if (state.phase === 'detached') return [{ phase: 'live', connection, version: state.version }]
    return [{ phase: 'listing', connection, objects: new Map(), askedAt }]
  }

  async #list(state: State<T> & { phase: 'listing' }, signal: AbortSignal): Promise<Step<T>> {
    const { connection, objects, askedAt } = state
    const cancelWarning = this.#clock.setTimeout(() => {
      this.#log.warn({ objects: objects.size }, 'initial events have not ended yet')
    }, watcherDefaults.slowListWarningMs)
    let stalled: Error | undefined
    const guard = new InactivityTimer(this.#clock, watcherDefaults.stalledListMs, () => {
      stalled = new Error(`no initial event for ${watcherDefaults.stalledListMs} ms`)
      connection.stream.close()
    })
    try {
      for (;;) {
        const read = await this.#read(connection, signal)
        const event = stalled ?? read
        guard.seen()
        if (event instanceof Error) return await this.#retreat({ phase: 'empty' }, event, signal, connection)
        if (event.type === 'DELETED') {
          objects.delete(objectKey(event.object.metadata))
        } else if (event.type !== 'BOOKMARK') {
          objects.set(objectKey(event.object.metadata), event.object)
        } else if (event.object.metadata.annotations?.[initialEventsEndAnnotation] === 'true') {
          const { version } = event.object.metadata
          this.#counts.replaced++
          return [
            { phase: 'live', connection, version },
            { type: 'replaced', objects: [...objects.values()], version, askedAt },
          ]
        }
        await this.#yielder.pause()
      }
    } finally {
      cancelWarning()
      guard.cancel()
    }
  }

  async #follow(state: State<T> & { phase: 'live' }, signal: AbortSignal): Promise<Step<T>> {
    const { connection } = state
    const event = await this.#read(connection, signal)
    if (event instanceof Error) {
      // Resuming again would return the same frame; a new list may not contain it.
      const stuck = event instanceof MalformedEventError && connection.resumedFrom === state.version
      const next: State<T> =
        stuck || isExpired(event) ? { phase: 'empty' } : { phase: 'detached', version: state.version }
      return this.#retreat(next, event, signal, connection)
    }
    const { version } = event.object.metadata
    if (compareVersions(version, state.version) <= 0) {
      // A bookmark may repeat the version of the previous event; a change must not.
      if (event.type !== 'BOOKMARK') this.#counts.outOfDate++
      return [state]
    }
    const next: State<T> = { phase: 'live', connection, version }
    switch (event.type) {
      case 'BOOKMARK':
        return [next, { type: 'bookmark', version }]
      case 'DELETED':
        return [next, { type: 'deleted', object: event.object, version }]
      default:
        return [next, { type: 'applied', object: event.object, version }]
    }
  }

  /** Returns the next event, or an error: the server's, the end of the watch, or an undecodable frame. */
  async #read(
    connection: Connection<T>,
    signal: AbortSignal,
  ): Promise<Exclude<WatchEvent<T>, { type: 'ERROR' }> | ApiError | Error> {
    try {
      // Does not rely on the transport to end the iteration.
      const { done, value } = await unlessAborted(connection.events.next(), signal)
      if (done !== true) {
        return value.type === 'ERROR' ? ApiError.fromResponse(value.object.code, value.object) : value
      }
      const end = await connection.stream.end
      return end.code === closeCodes.expired
        ? new ApiError('Expired', end.reason || 'the version is no longer kept')
        : new WatchEnded(end.code, end.reason)
    } catch (error) {
      if (error instanceof MalformedEventError) this.#counts.malformed++
      return error instanceof Error ? error : new Error(String(error))
    }
  }

  /** Closes the connection and waits for the back-off. */
  async #retreat(
    next: State<T>,
    why: unknown,
    signal: AbortSignal,
    connection?: Connection<T>,
  ): Promise<Step<T>> {
    connection?.stream.close()
    signal.throwIfAborted()
    const healthyAfterMs = this.#options.healthyAfterMs ?? watcherDefaults.healthyAfterMs
    const healthy =
      connection !== undefined && this.#clock.monotonic() - connection.openedAt >= healthyAfterMs
    if (healthy) this.#backoff.reset()
    const ordinary = healthy && why instanceof WatchEnded && why.code === closeCodes.normal
    const unanswered = why instanceof TransportError
    if (!unanswered) this.#awayBackoff.reset()
    const backoff = unanswered ? this.#awayBackoff : this.#backoff
    const askedMs = retryAfterMs(why)
    const leastMs = askedMs && Math.min(askedMs, watcherDefaults.retryAfterMaxMs)
    const delayMs = ordinary ? 0 : backoff.next(leastMs)
    const fields = { ...failureFields(why), delayMs, next: next.phase }
    if (why instanceof WatchEnded) this.#log.debug(fields, 'watch closed, reopening')
    else if (next.phase === 'empty' && isExpired(why)) {
      this.#log.info(fields, 'watch expired, listing again')
    } else if (this.#isBrieflyAway(why)) this.#log.debug(fields, 'server is not ready, reopening the watch')
    else this.#log[this.#isRepeated(why) ? 'debug' : 'warn'](fields, 'watch failed, reopening')
    await sleep(this.#clock, delayMs, signal)
    return [next]
  }

  /** Returns true during the first seconds of an outage: a restart needs no warning. */
  #isBrieflyAway(why: unknown): boolean {
    const now = this.#clock.monotonic()
    this.#awaySince = isServerAway(why) ? (this.#awaySince ?? now) : undefined
    return this.#awaySince !== undefined && now - this.#awaySince < watcherDefaults.awayWarningMs
  }

  /** Returns true if the failure has been logged a short while ago. It may last, and fail every attempt. */
  #isRepeated(why: unknown): boolean {
    const now = this.#clock.monotonic()
    const failure = errorMessage(why)
    const { text, at } = this.#warned ?? {}
    if (text === failure && at !== undefined && now - at < watcherDefaults.repeatedWarningMs) return true
    this.#warned = { text: failure, at: now }
    return false
  }
}

/** The server or the network closed the watch. */
class WatchEnded extends Error {
  override readonly name = 'WatchEnded'
  readonly code: number

  constructor(code: number, reason: string) {
    super(`the watch was closed with ${code}${reason === '' ? '' : `: ${reason}`}`)
    this.code = code
  }
}
