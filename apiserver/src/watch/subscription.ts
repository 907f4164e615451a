import {
  ApiError,
  type ChangeType,
  closeCodes,
  laterRevision,
  type Revision,
  type Selector,
  type WatchEnd,
} from '@setpoint/controller-runtime'
import type { Entry, ModelCache } from '../cache/index.ts'
import { matchesEntry, runQuery } from '../query/index.ts'
import { bookmarkFrame, ChangeFrames, changeFrame, errorFrame } from './frames.ts'

export const watchDefaults = Object.freeze({
  /** Bytes on their way to one client above which the initial events and old changes wait for it. */
  paceBytes: 256 * 1024,
  /** Bytes on their way to one client above which it is too slow for live changes and is cut off. */
  backlogBytes: 4 * 1024 * 1024,
  /** A watch without `timeoutSeconds` ends between these two, spread so that clients do not return together. */
  minLifetimeMs: 30 * 60_000,
  maxLifetimeMs: 60 * 60_000,
  /** A bookmark at least this often, so that the client of a quiet kind can resume after compaction (contract: a minute). */
  bookmarkMs: 45_000,
})

/** How a watch ends whose client does not take the live changes. */
export const tooSlow: WatchEnd = Object.freeze({
  code: closeCodes.tryAgainLater,
  reason: 'too slow: resume from the last version',
})

/** What a client asked to watch. */
export interface WatchRequest {
  /** One object, which may not exist yet; undefined for the collection. */
  readonly name: string | undefined
  readonly selector: Selector
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

/** Where a subscription's frames go: one client's end of a connection. */
export interface WatchSink {
  /** Bytes that were sent and that the client has not taken yet. */
  readonly backlog: number
  /** `version` is what a client that has this frame can resume from; initial events and errors have none. */
  send(frame: Buffer, version: Revision | undefined): void
  /** Nothing is sent after this. */
  end(end: WatchEnd): void
}

/**
 * The state of a subscription.
 *
 *     initial ──all sent──▶ catching up ──history exhausted──▶ live
 *        │                      ▲  │                            │
 *        │        resumed ──────┘  └──── history lost: 410      ├── backlog too large: 1013
 *        └──────────────────────── closed ◀─────────────────────┘
 *
 * In the first two the client sets the pace: `pump` goes on whenever it has taken some of what was sent.
 */
type State =
  | { phase: 'initial'; entries: Iterator<Entry>; revision: Revision }
  | { phase: 'catching up' }
  | { phase: 'live' }
  | { phase: 'ended' }

/**
 * One watch of one client, over whichever transport. Sends every change after its position that its selector
 * concerns, in order, each once; what comes to match is ADDED and what ceases to match DELETED.
 */
export class Subscription {
  readonly #cache: ModelCache
  readonly #request: WatchRequest
  readonly #sink: WatchSink
  #state: State
  /** Every change up to here has been sent, or did not concern this subscription. */
  #position: Revision

  /** `present` is a revision whose state the cache has. */
  constructor(cache: ModelCache, request: WatchRequest, sink: WatchSink, present: Revision) {
    this.#cache = cache
    this.#request = request
    this.#sink = sink
    this.#position = request.after ?? present
    this.#state = { phase: 'catching up' }
    if (request.initialEvents) {
      const revision = laterRevision(cache.revision, present)
      this.#position = revision
      this.#state = { phase: 'initial', entries: this.#presentEntries(), revision }
    }
  }

  get live(): boolean {
    return this.#state.phase === 'live'
  }

  get ended(): boolean {
    return this.#state.phase === 'ended'
  }

  /** Sends what is due as far as the client keeps up. Called at the start and whenever the client has taken something. */
  pump(): void {
    while (this.#state.phase === 'initial' && this.#hasRoom()) {
      const { entries, revision } = this.#state
      const { done, value } = entries.next()
      if (!done) {
        this.#sink.send(changeFrame('ADDED', value.bytes), undefined)
        continue
      }
      if (this.#request.bookmarks)
        this.#sink.send(bookmarkFrame(this.#cache.served, revision, true), revision)
      this.#state = { phase: 'catching up' }
    }
    while (this.#state.phase === 'catching up' && this.#hasRoom()) {
      const { history, served } = this.#cache
      if (this.#position < history.floor) {
        this.expire()
        return
      }
      const event = history.next(this.#position)
      if (event === undefined) this.#state = { phase: 'live' }
      else this.#deliver(new ChangeFrames(served, event))
    }
  }

  /** A change that the cache has just taken in. */
  changed(frames: ChangeFrames): void {
    if (this.#state.phase !== 'live') return
    this.#deliver(frames)
    if (this.#sink.backlog > watchDefaults.backlogBytes) this.end(tooSlow)
  }

  /** Everything up to `revision` has been sent. */
  bookmark(revision: Revision): void {
    if (this.#state.phase !== 'live' || revision < this.#position) return
    this.#position = revision
    if (this.#request.bookmarks) this.#sink.send(bookmarkFrame(this.#cache.served, revision), revision)
  }

  /** Ends with a 410: what comes next is no longer known, or `why` says otherwise. */
  expire(why = `the changes after version ${this.#position} are no longer kept: list again`): void {
    if (this.ended) return
    const error = new ApiError('Expired', why)
    this.#sink.send(errorFrame(error.toStatus()), undefined)
    this.end({ code: closeCodes.expired, reason: 'Expired' })
  }

  end(end: WatchEnd): void {
    if (this.ended) return
    this.#state = { phase: 'ended' }
    this.#sink.end(end)
  }

  #hasRoom(): boolean {
    return this.#sink.backlog < watchDefaults.paceBytes
  }

  #presentEntries(): Iterator<Entry> {
    const { name, selector } = this.#request
    const { store } = this.#cache
    if (name === undefined)
      return runQuery(store.snapshot(), { selector, ...everythingByName }).items.values()
    const entry = store.get(name)
    return (entry !== undefined && this.#concerns(entry) ? [entry] : []).values()
  }

  #deliver(frames: ChangeFrames): void {
    const { event } = frames
    if (event.revision <= this.#position) return
    this.#position = event.revision
    const type = this.#typeOf(event.previous, event.next)
    if (type !== undefined) this.#sink.send(frames.of(type), event.revision)
  }

  #typeOf(previous: Entry | undefined, next: Entry | undefined): ChangeType | undefined {
    const before = previous !== undefined && this.#concerns(previous)
    const after = next !== undefined && this.#concerns(next)
    if (after) return before ? 'MODIFIED' : 'ADDED'
    return before ? 'DELETED' : undefined
  }

  #concerns(entry: Entry): boolean {
    const { name, selector } = this.#request
    return (
      (name === undefined || entry.name === name) && matchesEntry(entry, selector, this.#cache.served.indexes)
    )
  }
}

/** All of a collection, ascending by name. */
const everythingByName = {
  sort: [],
  paging: { kind: 'chunk', limit: undefined, after: undefined },
  at: { kind: 'any' },
} as const
