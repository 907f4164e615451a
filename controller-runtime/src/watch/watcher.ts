import { ApiError, isExpired } from '../api/errors.ts'
import type { Model } from '../api/model.ts'
import { type ApiObject, initialEventsEndAnnotation } from '../api/object.ts'
import { compareVersions } from '../api/version.ts'
import { closeCodes, type WatchEvent } from '../api/watch-event.ts'
import { Backoff } from '../backoff.ts'
import { Breather } from '../breather.ts'
import type { SelectorOptions, WatchOptions, WatchStream } from '../client/client.ts'
import { MalformedEventError } from '../client/decode.ts'
import { InactivityTimer } from '../client/inactivity-timer.ts'
import { failureFields, isServerAway } from '../client/server-away.ts'
import { TransportError } from '../client/transport.ts'
import { type Clock, sleep, systemClock } from '../clock.ts'
import { type Logger, silentLogger } from '../logger.ts'
import { unlessAborted } from '../unless-aborted.ts'

/** Times of a watcher, as client-go and kube-rs have them. */
export const watcherDefaults = Object.freeze({
  /** Ceiling of the first delay before a new connection. client-go's reflector begins with 800 ms. */
  backoffBaseMs: 800,
  /** Ceiling of any delay. client-go's reflector ends at 30 s. */
  backoffMaxMs: 30_000,
  /**
   * Ceiling of the delays while there is no server: nobody is spared by a longer one, and who works with the copy would
   * stay behind for it once the server is back. As long as between two attempts at a lease.
   */
  awayMaxMs: 2_000,
  /** A connection that has lived so long was a good one: the next delay begins anew. */
  healthyAfterMs: 10_000,
  /** The longest that a server's Retry-After is believed. */
  retryAfterMaxMs: 300_000,
  /** When initial events that have not ended are worth a warning. As in client-go's watch-list. */
  slowListWarningMs: 10_000,
  /** A server that starts or is away answers soon; when it has not for so long, that is worth a warning. */
  awayWarningMs: 10_000,
  /** Initial events of which none has come for so long will not end: they are asked for anew. */
  stalledListMs: 60_000,
})

/** What a watcher follows, and how it comes back. */
export interface WatcherOptions extends SelectorOptions {
  /** Watch one object, which need not exist yet. */
  readonly name?: string
  readonly log?: Logger
  readonly clock?: Clock
  /** From 0 up to, but not including, 1. Default `Math.random`. */
  readonly random?: () => number
  readonly backoffBaseMs?: number
  readonly backoffMaxMs?: number
  readonly healthyAfterMs?: number
}

/** Where a watcher gets its connections: a client, or what stands before one. */
export interface WatchSource<T extends ApiObject = ApiObject> {
  watch(model: Model<T>, options?: WatchOptions): Promise<WatchStream<T>>
}

/** What a watcher tells. `version` is the state of the store that has been told completely. */
export type WatcherEvent<T extends ApiObject = ApiObject> =
  /**
   * The whole of what there is, at `version`: at the start, and again after history was lost. What is not in it is
   * gone. `askedAt` is the monotonic time at which the server was asked: writes acknowledged before are in it.
   */
  | {
      readonly type: 'replaced'
      readonly objects: readonly T[]
      readonly version: string
      readonly askedAt: number
    }
  /** Created or changed. */
  | { readonly type: 'applied'; readonly object: T; readonly version: string }
  /** Gone; `object` is its last state. */
  | { readonly type: 'deleted'; readonly object: T; readonly version: string }
  /** Nothing happened up to `version`. */
  | { readonly type: 'bookmark'; readonly version: string }

interface Connection<T> {
  readonly stream: WatchStream<T>
  readonly events: AsyncIterator<WatchEvent<T>>
  readonly openedAt: number
  /** Undefined where it began with everything. */
  readonly resumedFrom: string | undefined
}

/**
 * Where a watcher stands.
 *
 *              opened                  initial-events-end
 *      empty ──────────> listing ─────────────────────────> live ──┐ event above its version
 *       ^ ^                 │           (replaced)           │ ^ ^─┘ (applied, deleted, bookmark)
 *       │ └── ended, error ─┘                                │ │
 *       │                                  ended, error, bad frame │ opened at its version
 *       │              410 at opening                        v │
 *       ├────────────────────────────────────────────────  detached
 *       └── 410 in-band or as close code, or a bad frame at the very version that was resumed from ── (from live)
 *
 * Every way back to `empty` and to `detached` leads through a back-off. Invariant of `live` and `detached`: everything
 * up to `version` was told, nothing above it. `listing` tells nothing, so that a list that breaks off leaves no trace.
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

/** A state, and what is to be told on the way into it. */
type Step<T extends ApiObject> = readonly [State<T>, WatcherEvent<T>?]

/**
 * A view of a model's objects that outlives connections.
 *
 * Guarantees
 * - First one `replaced` with everything, then each change after it: none left out, none twice, versions rising.
 *   After a disconnection it resumes where it was; where the server no longer knows the changes, the next event is
 *   again a `replaced`, complete.
 * - No error ends it: not a server that is away or refuses, not a frame that cannot be read. It ends when aborted.
 *
 * Assumptions
 * - The transport notices a dead connection. `HttpTransport` does.
 *
 * Caveats
 * - Changes between two states of an object may be left out after a `replaced`; an object that was deleted and made
 *   again meanwhile has another uid.
 */
export class Watcher<T extends ApiObject = ApiObject> {
  readonly #client: WatchSource<T>
  readonly #model: Model<T>
  readonly #options: WatcherOptions
  readonly #log: Logger
  readonly #clock: Clock
  /** After what a server has answered. */
  readonly #backoff: Backoff
  /** After no answer. */
  readonly #awayBackoff: Backoff
  readonly #breather: Breather
  readonly #counts = { opened: 0, replaced: 0, malformed: 0, outOfDate: 0 }
  /** Since when every attempt has found the server starting or away. */
  #awaySince: number | undefined

  constructor(client: WatchSource<NoInfer<T>>, model: Model<T>, options: WatcherOptions = {}) {
    this.#client = client
    this.#model = model
    this.#options = options
    this.#log = (options.log ?? silentLogger).child({ watch: `${model.plural}.${model.group}` })
    this.#clock = options.clock ?? systemClock
    this.#breather = new Breather(this.#clock)
    const baseMs = options.backoffBaseMs ?? watcherDefaults.backoffBaseMs
    const maxMs = options.backoffMaxMs ?? watcherDefaults.backoffMaxMs
    const random = options.random ?? Math.random
    this.#backoff = new Backoff({ baseMs, maxMs, random })
    this.#awayBackoff = new Backoff({ baseMs, maxMs: Math.min(maxMs, watcherDefaults.awayMaxMs), random })
  }

  /** Since the start: connections opened, `replaced` told, frames that were no event, events not above the version. */
  get counts(): Readonly<{ opened: number; replaced: number; malformed: number; outOfDate: number }> {
    return { ...this.#counts }
  }

  /** Watches until `signal` is aborted or the iteration is left; then it returns. */
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
    let stream: WatchStream<T>
    try {
      stream = await this.#client.watch(this.#model, {
        signal,
        ...(name !== undefined && { name }),
        ...(labelSelector !== undefined && { labelSelector }),
        ...(fieldSelector !== undefined && { fieldSelector }),
        ...(state.phase === 'detached' && { version: state.version }),
      })
    } catch (error) {
      if (signal.aborted) throw error
      return this.#retreat(isExpired(error) ? { phase: 'empty' } : state, error, signal)
    }
    this.#counts.opened++
    this.#awaySince = undefined
    const openedAt = this.#clock.monotonic()
    const resumedFrom = state.phase === 'detached' ? state.version : undefined
    const connection = { stream, events: stream[Symbol.asyncIterator](), openedAt, resumedFrom }
    if (state.phase === 'detached') return [{ phase: 'live', connection, version: state.version }]
    return [{ phase: 'listing', connection, objects: new Map(), askedAt }]
  }

  async #list(state: State<T> & { phase: 'listing' }, signal: AbortSignal): Promise<Step<T>> {
    const { connection, objects, askedAt } = state
    const cancelWarning = this.#clock.setTimeout(() => {
      this.#log.warn({ objects: objects.size }, 'the initial events of the watch have not ended yet')
    }, watcherDefaults.slowListWarningMs)
    let stalled: Error | undefined
    const guard = new InactivityTimer(this.#clock, watcherDefaults.stalledListMs, () => {
      stalled = new Error(`no initial event for ${watcherDefaults.stalledListMs} ms, and no end of them`)
      connection.stream.close()
    })
    try {
      for (;;) {
        const read = await this.#read(connection, signal)
        const event = stalled ?? read
        guard.seen()
        if (event instanceof Error) return await this.#retreat({ phase: 'empty' }, event, signal, connection)
        if (event.type === 'DELETED') {
          objects.delete(event.object.metadata.name)
        } else if (event.type !== 'BOOKMARK') {
          objects.set(event.object.metadata.name, event.object)
        } else if (event.object.metadata.annotations?.[initialEventsEndAnnotation] === 'true') {
          const { version } = event.object.metadata
          this.#counts.replaced++
          return [
            { phase: 'live', connection, version },
            { type: 'replaced', objects: [...objects.values()], version, askedAt },
          ]
        }
        await this.#breather.pause()
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
      // Resuming there once more would meet the same frame again; a new list may do without it.
      const stuck = event instanceof MalformedEventError && connection.resumedFrom === state.version
      const next: State<T> =
        stuck || isExpired(event) ? { phase: 'empty' } : { phase: 'detached', version: state.version }
      return this.#retreat(next, event, signal, connection)
    }
    const { version } = event.object.metadata
    if (compareVersions(version, state.version) <= 0) {
      // A bookmark may repeat the version of the event before it; a change may not.
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

  /** The next event, or why there is none: the server's error, the end of the watch, or a frame that is no event. */
  async #read(
    connection: Connection<T>,
    signal: AbortSignal,
  ): Promise<Exclude<WatchEvent<T>, { type: 'ERROR' }> | ApiError | Error> {
    try {
      // A transport should end the iteration itself; a stop does not depend on it.
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

  /** Gives a connection up and waits before the next one. */
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
    const delayMs = ordinary ? 0 : backoff.next(retryAfterMs(why))
    const fields = { ...failureFields(why), delayMs, next: next.phase }
    if (why instanceof WatchEnded) this.#log.debug(fields, 'the watch ended; connecting again')
    else if (next.phase === 'empty' && isExpired(why)) {
      this.#log.info(fields, 'the watch lost its history; listing again')
    } else if (this.#isBrieflyAway(why)) this.#log.debug(fields, 'the server is not ready; connecting again')
    else this.#log.warn(fields, 'the watch failed; connecting again')
    await sleep(this.#clock, delayMs, signal)
    return [next]
  }

  /** Every server starts and restarts: for a short while that is no news. */
  #isBrieflyAway(why: unknown): boolean {
    const now = this.#clock.monotonic()
    this.#awaySince = isServerAway(why) ? (this.#awaySince ?? now) : undefined
    return this.#awaySince !== undefined && now - this.#awaySince < watcherDefaults.awayWarningMs
  }
}

/** The server, or the connection, ended a watch. */
class WatchEnded extends Error {
  override readonly name = 'WatchEnded'
  readonly code: number

  constructor(code: number, reason: string) {
    super(`the watch was closed with ${code}${reason === '' ? '' : `: ${reason}`}`)
    this.code = code
  }
}

function retryAfterMs(error: unknown): number | undefined {
  const seconds = error instanceof ApiError ? error.details?.retryAfterSeconds : undefined
  return seconds === undefined ? undefined : Math.min(seconds * 1000, watcherDefaults.retryAfterMaxMs)
}
