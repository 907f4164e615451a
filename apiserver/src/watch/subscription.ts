import { ApiError, isApiError, type Revision } from '@setpoint/controller-runtime'
import { closeCodes, laterRevision, toRevision, type WatchEnd } from '@setpoint/controller-runtime/internal'
import type { Entry, ModelCache } from '../cache/index.ts'
import type { WorkTurns } from '../scheduling/index.ts'
import type { Audience, AudienceMember, Interest, SharedBytes } from './audience.ts'
import { encodeAll, type FrameCodec } from './codec.ts'
import { initialEntries } from './initial-entries.ts'
import { Lookahead } from './lookahead.ts'
import { Preparations } from './preparations.ts'
import { ShownEntries } from './shown-entries.ts'
import { bookmarkEvent, ChangeEvents, errorEvent, shownEntry, type WireEvent } from './wire-event.ts'

export const watchDefaults = Object.freeze({
  /** Unsent bytes of one client; above this, initial events and old changes wait. */
  paceBytes: 128 * 1024,
  /** Bytes of initial events or old changes in one write. */
  writeBytes: 64 * 1024,
  /**
   * Bytes written to clients that cost as much as one entry of `WorkTurns`: they are encoded, and the kernel copies
   * them at once. So 512 KiB in one turn, about a millisecond.
   */
  bytesOfEntry: 128,
  /**
   * Milliseconds that a client has to read `paceBytes`, so 2 KiB a second are enough. A client that reads nothing is
   * cut off.
   */
  stallMs: 60_000,
  /** Unsent bytes of one client; above this it is too slow for live changes and is cut off. */
  backlogBytes: 4 * 1024 * 1024,
  /** The lifetime of a watch without `timeoutSeconds`, random so that clients do not return together. */
  minLifetimeMs: 30 * 60_000,
  maxLifetimeMs: 60 * 60_000,
  /** Bytes of objects that a webhook is asked to convert together, ahead of what is sent. */
  convertedBytes: 256 * 1024,
  /** The time between bookmarks, so the client of a quiet kind can resume after compaction (contract: a minute). */
  bookmarkMs: 45_000,
})

/** The end of a watch whose client reads too slowly. */
export const tooSlow: WatchEnd = Object.freeze({
  code: closeCodes.tryAgainLater,
  reason: 'too slow: resume from the last version',
})

/** The request of a watch. */
export interface WatchRequest extends Interest {
  /** The version to resume from; undefined starts with the present state. */
  readonly after: Revision | undefined
  /** A version that the present state must have reached, if any. */
  readonly notBefore?: Revision
  /** Whether the present state comes first, as ADDED events and a BOOKMARK. */
  readonly initialEvents: boolean
  /** Whether to send bookmarks, including the one that ends the initial events. */
  readonly bookmarks: boolean
  /** The lifetime of the watch in milliseconds. */
  readonly lifetimeMs: number
}

/** Sends a subscription's events to its client. */
export interface WatchSink {
  readonly codec: FrameCodec
  /** Bytes written but not yet sent. */
  readonly backlog: number
  /** Writes one or more whole events, encoded by `codec`. The bytes are shared and must not be changed. */
  write(bytes: Buffer): void
  /** Ends the watch. No write follows. */
  end(end: WatchEnd): void
}

/**
 * The state of a subscription.
 *
 *     initial ──all sent──▶ catching up ──history exhausted──▶ live (in its audience)
 *        │                      │  │  ▲ ──a webhook must convert──┤
 *        │    stalled: 1013 ◀───┘  └─── history lost: 410       ├── backlog too large: 1013
 *        └──────────────────────▶ ended ◀───────────────────────┘
 *
 * In the first two the client sets the pace: `pump` goes on whenever the client has read what was sent. It also waits
 * there for conversions by webhooks.
 */
type State =
  | { phase: 'initial'; entries: Lookahead; revision: Revision }
  | { phase: 'catching up' }
  | { phase: 'live' }
  | { phase: 'ended' }

export interface SubscriptionParts {
  readonly cache: ModelCache
  readonly request: WatchRequest
  readonly audience: Audience
  readonly sink: WatchSink
  readonly pace: WorkTurns
  /** The user who watches, for the pace. */
  readonly caller?: string
  /** Default: shared with no other subscription. */
  readonly preparations?: Preparations
  /** A revision that the cache has reached. */
  readonly present: Revision
  /** Called with the number of events of each write. */
  readonly onSent?: (events: number) => void
  /** Called once, before the sink's `end`. */
  readonly onEnd?: (end: WatchEnd) => void
  /** Milliseconds, monotonic. */
  readonly now?: () => number
}

/**
 * One watch of one client, over any transport. Sends every change after its position that concerns its audience, in
 * order, each once.
 */
export class Subscription implements AudienceMember {
  /** Pending events of the audience that this subscription has already sent. Set by the audience. */
  skip = 0
  readonly #cache: ModelCache
  readonly #request: WatchRequest
  readonly #audience: Audience
  readonly #sink: WatchSink
  readonly #pace: WorkTurns
  readonly #shown: ShownEntries
  readonly #caller: string
  readonly #goOn = () => this.pump()
  readonly #onSent: (events: number) => void
  readonly #onEnd: (end: WatchEnd) => void
  readonly #now: () => number
  #state: State
  /** Every change up to here was sent or did not concern this subscription. While live, the audience is ahead of it. */
  #position: Revision
  /** When the client last read something, or had nothing to read. */
  #tookAt: number

  constructor(parts: SubscriptionParts) {
    const {
      cache,
      request,
      audience,
      sink,
      pace,
      preparations = new Preparations(cache),
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
    this.#shown = new ShownEntries(cache, audience.version, preparations, this.#goOn)
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
      this.#state = {
        phase: 'initial',
        entries: new Lookahead(initialEntries(cache.store, audience)),
        revision,
      }
    }
  }

  get audience(): Audience {
    return this.#audience
  }

  /** The user who watches. */
  get caller(): string {
    return this.#caller
  }

  /** Bytes written but not yet sent. */
  get backlog(): number {
    return this.#sink.backlog
  }

  get isLive(): boolean {
    return this.#state.phase === 'live'
  }

  get hasEnded(): boolean {
    return this.#state.phase === 'ended'
  }

  /** Sends what is due, as far as the client keeps up. Called at the start and when the client has read something. */
  pump(): void {
    this.#tookAt = this.#now()
    while (this.#state.phase === 'initial' || this.#state.phase === 'catching up') {
      const { unknownVersion } = this.#cache
      if (unknownVersion !== undefined && this.#audience.selectsDeclared) {
        this.fail(unknownVersion)
        return
      }
      if (this.#shown.isWaiting || !this.#hasRoom()) return
      if (this.#pace.isSpent) {
        this.#pace.wait(this.#caller, this.#goOn)
        return
      }
      if (this.#state.phase === 'initial') this.#sendInitial(this.#state)
      else this.#catchUp()
    }
  }

  /** Sends the audience's events. */
  deliver(events: readonly WireEvent[], shared: SharedBytes): void {
    const { skip } = this
    this.skip = 0
    if (this.#state.phase !== 'live' || skip === events.length) return
    // These events are not in the backlog yet, so the client had time to read it.
    if (this.#sink.backlog > watchDefaults.backlogBytes) {
      this.end(tooSlow)
      return
    }
    this.#position = events.at(-1)?.version ?? this.#position
    if (skip > 0) this.#write(events.slice(skip))
    else this.#writeShared(events, shared)
  }

  /** Sends the audience's bookmark. */
  deliverBookmark(events: readonly WireEvent[], shared: SharedBytes): void {
    const revision = events[0]?.version
    if (this.#state.phase !== 'live' || revision === undefined || revision < this.#position) return
    this.#position = revision
    if (this.#request.bookmarks) this.#writeShared(events, shared)
  }

  /** Sends a last bookmark before the end. */
  bookmark(revision: Revision): void {
    this.#audience.flush()
    this.deliverBookmark([bookmarkEvent(this.#audience.version, revision)], new Map())
  }

  /** Ends the watch if its client sets the pace and reads nothing. To be called from time to time. */
  checkStall(): void {
    if (this.isLive || this.hasEnded || this.#hasRoom()) return
    if (this.#now() - this.#tookAt > watchDefaults.stallMs) this.end(tooSlow)
  }

  /** Ends with 410, because the next changes are no longer kept or for the reason `why`. */
  expire(why?: string): void {
    if (this.isLive) this.#audience.flush()
    if (this.hasEnded) return
    const text = why ?? `the changes after version ${this.#position} are no longer kept: list again`
    this.#write([errorEvent(new ApiError('Expired', text).toStatus())])
    this.end({ code: closeCodes.expired, reason: 'Expired' })
  }

  /** Ends with an ERROR, because an object cannot be shown or the client may no longer watch. */
  fail(error: ApiError): void {
    if (this.hasEnded) return
    this.#write([errorEvent(error.toStatus())])
    this.end({ code: failureCodes[error.code] ?? closeCodes.internalError, reason: error.reason })
  }

  end(end: WatchEnd): void {
    if (this.hasEnded) return
    this.#state = { phase: 'ended' }
    this.#pace.cancel(this.#caller, this.#goOn)
    this.#audience.leave(this)
    this.#onEnd(end)
    this.#sink.end(end)
  }

  /** Goes on from a change that a webhook must convert first. The audience has sent everything before it. */
  fallBehind(revision: Revision): void {
    if (this.#state.phase !== 'live') return
    this.#audience.leave(this)
    this.#position = laterRevision(this.#position, toRevision(revision - 1))
    this.#state = { phase: 'catching up' }
    this.pump()
  }

  /** Sends initial events: one write, or what the pace allows. */
  #sendInitial({ entries, revision }: State & { phase: 'initial' }): void {
    const events: WireEvent[] = []
    let bytes = 0
    let failure: ApiError | undefined
    while (bytes < watchDefaults.writeBytes && !this.#pace.isSpent) {
      const value = entries.peek()
      if (value === undefined) {
        if (this.#request.bookmarks) events.push(bookmarkEvent(this.#audience.version, revision, true))
        this.#state = { phase: 'catching up' }
        break
      }
      if (typeof value === 'number') this.#pace.spend(value)
      else {
        const upcoming = () => entries.upcoming(watchDefaults.convertedBytes)
        const object = this.#shown.show(value, bytesOf => bytesOf(), upcoming)
        if (object === undefined) break
        if (isApiError(object)) {
          failure = object
          break
        }
        events.push({ type: 'ADDED', object, version: undefined })
        bytes += object.length
      }
      entries.take()
    }
    this.#pace.spend(bytes / watchDefaults.bytesOfEntry)
    this.#write(events)
    if (failure !== undefined) this.fail(failure)
  }

  /** Sends old changes: one write, or what the pace allows. */
  #catchUp(): void {
    const { history } = this.#cache
    if (this.#position < history.floor) {
      this.expire()
      return
    }
    const events: WireEvent[] = []
    let bytes = 0
    let hasAll = false
    let failure: ApiError | undefined
    while (bytes < watchDefaults.writeBytes && !this.#pace.isSpent) {
      const change = history.next(this.#position)
      hasAll = change === undefined
      if (change === undefined) break
      this.#pace.spend(this.#audience.testWork)
      const type = this.#audience.typeOf(change)
      if (type !== undefined) {
        const event = this.#shown.show(
          shownEntry(change, type),
          bytesOf => new ChangeEvents({ bytesOf }, change).of(type, this.#audience.version),
          () => this.#upcoming(),
        )
        if (event === undefined) break
        if (isApiError(event)) {
          failure = event
          break
        }
        events.push(event)
        bytes += event.object.length
      }
      this.#position = change.revision
    }
    this.#pace.spend(bytes / watchDefaults.bytesOfEntry)
    this.#write(events)
    if (failure !== undefined) this.fail(failure)
    if (!hasAll) return
    this.#state = { phase: 'live' }
    this.#audience.join(this)
  }

  /** Returns what the next changes show. */
  #upcoming(): Entry[] {
    const { history } = this.#cache
    const entries: Entry[] = []
    let bytes = 0
    let change = history.next(this.#position)
    while (change !== undefined && bytes < watchDefaults.convertedBytes && !this.#pace.isSpent) {
      const type = this.#audience.typeOf(change)
      this.#pace.spend(this.#audience.testWork)
      if (type !== undefined) {
        const entry = shownEntry(change, type)
        entries.push(entry)
        bytes += entry.bytes.length
      }
      change = history.next(change.revision)
    }
    return entries
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

/** The close codes of errors, by their HTTP status. */
const failureCodes: Readonly<Record<number, number>> = Object.freeze({
  403: closeCodes.policyViolation,
  503: closeCodes.tryAgainLater,
})
