import type { Revision } from '@setpoint/controller-runtime/api'
import type { Entry } from './entry.ts'

/** One change of one object: what it was and what it became. */
export interface CacheEvent {
  readonly revision: Revision
  /** Absent where the object was created. */
  readonly previous: Entry | undefined
  /** Absent where the object was removed. */
  readonly next: Entry | undefined
}

/** Bounds of one model's history. */
export interface HistoryLimits {
  readonly minEvents: number
  readonly maxEvents: number
  readonly maxAgeMs: number
  readonly maxBytes: number
}

export const historyDefaults: HistoryLimits = Object.freeze({
  /** Events kept however old they are, so that a quiet kind can be resumed (Kubernetes' lower bound). */
  minEvents: 100,
  /** Events kept at most (Kubernetes' upper bound). */
  maxEvents: 102_400,
  /** Milliseconds that an event is kept if there is room: as long as the store keeps its own history. */
  maxAgeMs: 5 * 60_000,
  /** Bytes of events kept at most for one model. */
  maxBytes: 64 * 1024 * 1024,
})

/**
 * The recent changes of one model, oldest first: every one above `floor`, so that a watch resumed from there misses
 * nothing.
 */
export class History {
  #events: CacheEvent[] = []
  #times: number[] = []
  /** Index of the oldest event in `#events`; those before it are gone. */
  #start = 0
  #bytes = 0
  #floor: Revision
  readonly #limits: HistoryLimits
  readonly #now: () => number

  constructor(floor: Revision, now: () => number = Date.now, limits = historyDefaults) {
    this.#floor = floor
    this.#now = now
    this.#limits = limits
  }

  /** Changes at or below this revision are not kept. */
  get floor(): Revision {
    return this.#floor
  }

  get size(): number {
    return this.#events.length - this.#start
  }

  push(event: CacheEvent): void {
    const now = this.#now()
    this.#events.push(event)
    this.#times.push(now)
    this.#bytes += bytesOf(event)
    const { minEvents, maxEvents, maxAgeMs, maxBytes } = this.#limits
    while (
      this.size > maxEvents ||
      (this.#bytes > maxBytes && this.size > 1) ||
      (this.size > minEvents && now - (this.#times[this.#start] ?? now) > maxAgeMs)
    ) {
      this.#evict()
    }
  }

  /**
   * Puts older events before those that are kept: all that there were above `floor` and up to the present floor.
   * They may take the room that there is and no more.
   */
  prepend(events: readonly CacheEvent[], floor: Revision): void {
    const { maxEvents, maxBytes } = this.#limits
    const bytes = events.reduce((sum, event) => sum + bytesOf(event), 0)
    if (this.size + events.length > maxEvents || this.#bytes + bytes > maxBytes) return
    const now = this.#now()
    this.#events = [...events, ...this.#events.slice(this.#start)]
    this.#times = [...events.map(() => now), ...this.#times.slice(this.#start)]
    this.#start = 0
    this.#bytes += bytes
    this.#floor = floor
  }

  /** Position of the first event after `revision`, for `at`; undefined where some of them are gone. */
  positionAfter(revision: Revision): number | undefined {
    if (revision < this.#floor) return undefined
    let low = this.#start
    let high = this.#events.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((this.#events[middle]?.revision ?? 0) <= revision) low = middle + 1
      else high = middle
    }
    return low
  }

  /** The first event after `revision`, or undefined at the end. The caller has checked `floor`. */
  next(revision: Revision): CacheEvent | undefined {
    const position = this.positionAfter(revision)
    return position === undefined ? undefined : this.#events[position]
  }

  #evict(): void {
    const event = this.#events[this.#start]
    if (event === undefined) return
    this.#floor = event.revision
    this.#bytes -= bytesOf(event)
    this.#start++
    if (this.#start > 1024 && this.#start * 2 > this.#events.length) {
      this.#events = this.#events.slice(this.#start)
      this.#times = this.#times.slice(this.#start)
      this.#start = 0
    }
  }
}

/** Bytes that an event alone keeps alive: its new content. The previous one was the next of an earlier event, or is small change. */
function bytesOf(event: CacheEvent): number {
  return (event.next ?? event.previous)?.bytes.length ?? 0
}
