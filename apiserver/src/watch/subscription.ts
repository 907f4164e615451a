import {
  ApiError,
  closeCodes,
  laterRevision,
  type Revision,
  type WatchEnd,
} from '@setpoint/controller-runtime'
import type { Entry, ModelCache } from '../cache/index.ts'
import type { Audience, Interest, SharedBytes } from './audience.ts'
import { encodeAll, type FrameCodec } from './codec.ts'
import { initialEntries } from './initial-entries.ts'
import type { WatchPace } from './watch-pace.ts'
import { bookmarkEvent, ChangeEvents, errorEvent, type WireEvent } from './wire-event.ts'

export const watchDefaults = Object.freeze({
  /** Bytes on their way to one client above which the initial events and old changes wait for it. */
  paceBytes: 128 * 1024,
  /** Bytes of initial events or old changes that go out in one write. */
  writeBytes: 64 * 1024,
  /**
   * Milliseconds in which a client that sets the pace must have taken what is on its way (`paceBytes`: 2 KiB a second
   * are enough); one that takes nothing at all is cut off.
   */
  stallMs: 60_000,
  /** Bytes on their way to one client above which it is too slow for live changes and is cut off. */
  backlogBytes: 4 * 1024 * 1024,
  /** A watch without `timeoutSeconds` ends between these two, spread so that clients do not return together. */
  minLifetimeMs: 30 * 60_000,
  maxLifetimeMs: 60 * 60_000,
  /** A bookmark at least this often, so that the client of a quiet kind can resume after compaction (contract: a minute). */
  bookmarkMs: 45_000,
})

/** How a watch ends whose client does not take what it is sent. */
export const tooSlow: WatchEnd = Object.freeze({
  code: closeCodes.tryAgainLater,
  reason: 'too slow: resume from the last version',
})

/** What a client asked to watch. */
export interface WatchRequest extends Interest {
  /** Changes after this; undefined starts with the present state. */
  readonly after: Revision | undefined
  /** A version that the present state must have reached; undefined takes it as it is. */
  readonly notBefore?: Revision | undefined
  /** Whether the present state comes first, as ADDED events and a BOOKMARK. */
  readonly initialEvents: boolean
  /** Whether bookmarks are wanted, the one that ends the initial events included. */
  readonly bookmarks: boolean
  /** Milliseconds after which the watch ends. */
  readonly lifetimeMs: number
}

/** Where a subscription's events go: one client's end of a connection. */
export interface WatchSink {
  readonly codec: FrameCodec
  /** Bytes that were written and that the client has not taken yet. */
  readonly backlog: number
  /** One event or several, whole, as `codec` writes them. The bytes are shared: nobody may change them. */
  write(bytes: Buffer): void
  /** Nothing is written after this. */
  end(end: WatchEnd): void
}

/**
 * The state of a subscription.
 *
 *     initial ──all sent──▶ catching up ──history exhausted──▶ live (in its audience)
 *        │                      │  │                            │
 *        │    stalled: 1013 ◀───┘  └─── history lost: 410       ├── backlog too large: 1013
 *        └──────────────────────▶ ended ◀───────────────────────┘
 *
 * In the first two the client sets the pace: `pump` goes on whenever it has taken what was sent.
 */
type State =
  | { phase: 'initial'; entries: Iterator<Entry | number>; revision: Revision }
  | { phase: 'catching up' }
  | { phase: 'live' }
  | { phase: 'ended' }

export interface SubscriptionParts {
  readonly cache: ModelCache
  readonly request: WatchRequest
  readonly audience: Audience
  readonly sink: WatchSink
  readonly pace: WatchPace
  /** The user who watches, for the pace. */
  readonly caller?: string
  /** A revision whose state the cache has. */
  readonly present: Revision
  /** Told the number of events of each write. */
  readonly onSent?: (events: number) => void
  /** Told once, before the sink is. */
  readonly onEnd?: (end: WatchEnd) => void
  /** Milliseconds, monotonic. */
  readonly now?: () => number
}

/**
 * One watch of one client, over whichever transport. Sends every change after its position that its audience is
 * concerned with, in order, each once.
 */
export class Subscription {
  /** Events of the audience's pending ones that this subscription has had already. Kept by the audience. */
  skip = 0
  readonly #cache: ModelCache
  readonly #request: WatchRequest
  readonly #audience: Audience
  readonly #sink: WatchSink
  readonly #pace: WatchPace
  readonly #caller: string
  readonly #goOn = () => this.pump()
  readonly #onSent: (events: number) => void
  readonly #onEnd: (end: WatchEnd) => void
  readonly #now: () => number
  #state: State
  /** Every change up to here has been sent, or did not concern this subscription; while live, the audience knows better. */
  #position: Revision
  /** When the client last took what it was sent, or needed to take nothing. */
  #tookAt: number

  constructor(parts: SubscriptionParts) {
    const {
      cache,
      request,
      audience,
      sink,
      pace,
      caller = '',
      present,
      onSent = () => {},
      onEnd = () => {},
      now = () => performance.now(),
    } = parts
    this.#cache = cache
    this.#request = request
    this.#audience = audience
    this.#sink = sink
    this.#pace = pace
    this.#caller = caller
    this.#onSent = onSent
    this.#onEnd = onEnd
    this.#now = now
    this.#tookAt = now()
    this.#position = request.after ?? present
    this.#state = { phase: 'catching up' }
    if (request.initialEvents) {
      const revision = laterRevision(cache.revision, present)
      this.#position = revision
      this.#state = { phase: 'initial', entries: initialEntries(cache.store, audience), revision }
    }
  }

  get audience(): Audience {
    return this.#audience
  }

  get isLive(): boolean {
    return this.#state.phase === 'live'
  }

  get hasEnded(): boolean {
    return this.#state.phase === 'ended'
  }

  /** Sends what is due as far as the client keeps up. Called at the start and whenever the client has taken something. */
  pump(): void {
    this.#tookAt = this.#now()
    if (this.#state.phase !== 'initial' && this.#state.phase !== 'catching up') return
    if (this.#pace.isSpent) {
      this.#pace.wait(this.#caller, this.#goOn)
      return
    }
    while (this.#state.phase === 'initial' && this.#hasRoom() && this.#sendInitial(this.#state));
    if (this.#state.phase === 'catching up' && this.#hasRoom()) this.#catchUp()
  }

  /** What the audience has for everyone who is live. */
  deliver(events: readonly WireEvent[], shared: SharedBytes): void {
    const { skip } = this
    this.skip = 0
    if (this.#state.phase !== 'live' || skip === events.length) return
    // What is over the bound now was so before these events: the client had its turn since.
    if (this.#sink.backlog > watchDefaults.backlogBytes) {
      this.end(tooSlow)
      return
    }
    this.#position = events.at(-1)?.version ?? this.#position
    if (skip > 0) this.#write(events.slice(skip))
    else this.#writeShared(events, shared)
  }

  /** A bookmark for everyone who is live. */
  deliverBookmark(events: readonly WireEvent[], shared: SharedBytes): void {
    const revision = events[0]?.version
    if (this.#state.phase !== 'live' || revision === undefined || revision < this.#position) return
    this.#position = revision
    if (this.#request.bookmarks) this.#writeShared(events, shared)
  }

  /** A last bookmark before the end: everything up to `revision` has been sent. */
  bookmark(revision: Revision): void {
    this.#audience.flush()
    this.deliverBookmark([bookmarkEvent(this.#cache.served, revision)], new Map())
  }

  /** Ends a watch whose client sets the pace and takes nothing. To be called from time to time. */
  checkStall(): void {
    if (this.isLive || this.hasEnded || this.#hasRoom()) return
    if (this.#now() - this.#tookAt > watchDefaults.stallMs) this.end(tooSlow)
  }

  /** Ends with a 410: what comes next is no longer known, or `why` says otherwise. */
  expire(why?: string): void {
    if (this.isLive) this.#audience.flush()
    if (this.hasEnded) return
    const text = why ?? `the changes after version ${this.#position} are no longer kept: list again`
    this.#write([errorEvent(new ApiError('Expired', text).toStatus())])
    this.end({ code: closeCodes.expired, reason: 'Expired' })
  }

  end(end: WatchEnd): void {
    if (this.hasEnded) return
    this.#state = { phase: 'ended' }
    this.#pace.cancel(this.#caller, this.#goOn)
    this.#audience.leave(this)
    this.#onEnd(end)
    this.#sink.end(end)
  }

  /** Sends some of the initial events. Returns false if the search for them goes on in a later turn. */
  #sendInitial({ entries, revision }: State & { phase: 'initial' }): boolean {
    const events: WireEvent[] = []
    let bytes = 0
    while (bytes < watchDefaults.writeBytes) {
      const { done, value } = entries.next()
      if (done) {
        if (this.#request.bookmarks) events.push(bookmarkEvent(this.#cache.served, revision, true))
        this.#state = { phase: 'catching up' }
        break
      }
      if (typeof value === 'number') {
        this.#pace.spend(value)
        if (!this.#pace.isSpent) continue
        this.#write(events)
        this.#pace.wait(this.#caller, this.#goOn)
        return false
      }
      events.push({ type: 'ADDED', object: value.bytes, version: undefined })
      bytes += value.bytes.length
    }
    this.#write(events)
    return true
  }

  /** Sends old changes, in turns with other subscriptions. */
  #catchUp(): void {
    const { history, served } = this.#cache
    if (this.#position < history.floor) {
      this.expire()
      return
    }
    let events: WireEvent[] = []
    let bytes = 0
    while (!this.#pace.isSpent) {
      const change = history.next(this.#position)
      if (change === undefined) {
        this.#write(events)
        this.#state = { phase: 'live' }
        this.#audience.join(this)
        return
      }
      this.#position = change.revision
      this.#pace.spend(this.#audience.testWork)
      const type = this.#audience.typeOf(change)
      if (type === undefined) continue
      const event = new ChangeEvents(served, change).of(type)
      events.push(event)
      bytes += event.object.length
      if (bytes < watchDefaults.writeBytes) continue
      this.#write(events)
      if (!this.#hasRoom()) return
      events = []
      bytes = 0
    }
    this.#write(events)
    this.#pace.wait(this.#caller, this.#goOn)
  }

  #hasRoom(): boolean {
    return this.#sink.backlog < watchDefaults.paceBytes
  }

  #write(events: readonly WireEvent[]): void {
    if (events.length === 0) return
    this.#onSent(events.length)
    this.#sink.write(encodeAll(this.#sink.codec, events))
  }

  #writeShared(events: readonly WireEvent[], shared: SharedBytes): void {
    const { codec } = this.#sink
    let bytes = shared.get(codec.key)
    if (bytes === undefined) {
      bytes = encodeAll(codec, events)
      shared.set(codec.key, bytes)
    }
    this.#onSent(events.length)
    this.#sink.write(bytes)
  }
}
