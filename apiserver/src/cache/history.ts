import { systemClock } from '@setpoint/controller-runtime'
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
 * nothing. What has gone is not referred to any more, so that its memory goes with it.
 */
export class History {
  #kept: (Kept | undefined)[] = []
  /** Index of the oldest event in `#kept`; those before it are gone. */
  #start = 0
  #bytes = 0
  #floor: Revision
  readonly #limits: HistoryLimits
  readonly #now: () => number

  /** @param now milliseconds on a clock that never goes back */
  constructor(floor: Revision, now: () => number = systemClock.monotonic, limits = historyDefaults) {
    this.#floor = floor
    this.#now = now
    this.#limits = limits
  }

  /** Changes at or below this revision are not kept. */
  get floor(): Revision {
    return this.#floor
  }

  get size(): number {
    return this.#kept.length - this.#start
  }

  push(event: CacheEvent): void {
    this.#kept.push({ event, at: this.#now() })
    this.#bytes += bytesOf(event)
    this.trim()
  }

  /** Lets go of what is over the bounds now. Whoever only pushes would keep a burst for as long as nothing follows it. */
  trim(): void {
    const { minEvents, maxEvents, maxAgeMs, maxBytes } = this.#limits
    const oldest = this.#now() - maxAgeMs
    while (
      this.size > maxEvents ||
      (this.#bytes > maxBytes && this.size > 1) ||
      (this.size > minEvents && (this.#kept[this.#start]?.at ?? oldest) < oldest)
    ) {
      this.#evict()
    }
    if (this.#start > compactAfter && this.#start * 2 > this.#kept.length) {
      this.#kept = this.#kept.slice(this.#start)
      this.#start = 0
    }
  }

  /**
   * Puts older events before those that are kept: all that there were above `floor` and up to the present floor. They
   * take the room that there is and no more; of too many the newest, and the floor is then where they begin.
   */
  prepend(events: readonly CacheEvent[], floor: Revision): void {
    const { maxEvents, maxBytes } = this.#limits
    const at = this.#now()
    const joined: Kept[] = []
    let newFloor = floor
    let bytes = this.#bytes
    for (const event of events.toReversed()) {
      bytes += bytesOf(event)
      if (this.size + joined.length >= maxEvents || bytes > maxBytes) {
        newFloor = event.revision
        break
      }
      this.#bytes = bytes
      joined.push({ event, at })
    }
    this.#kept = [...joined.reverse(), ...this.#kept.slice(this.#start)]
    this.#start = 0
    this.#floor = newFloor
  }

  /** Position of the first event after `revision`, for `at`; undefined where some of them are gone. */
  positionAfter(revision: Revision): number | undefined {
    if (revision < this.#floor) return undefined
    let low = this.#start
    let high = this.#kept.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((this.#kept[middle]?.event.revision ?? 0) <= revision) low = middle + 1
      else high = middle
    }
    return low
  }

  /** The first event after `revision`, or undefined at the end. The caller has checked `floor`. */
  next(revision: Revision): CacheEvent | undefined {
    const position = this.positionAfter(revision)
    return position === undefined ? undefined : this.#kept[position]?.event
  }

  #evict(): void {
    const oldest = this.#kept[this.#start]
    if (oldest === undefined) return
    this.#floor = oldest.event.revision
    this.#bytes -= bytesOf(oldest.event)
    this.#kept[this.#start] = undefined
    this.#start++
  }
}

interface Kept {
  readonly event: CacheEvent
  /** When it came, by the history's clock. */
  readonly at: number
}

/** Empty places at the front of the array from which on they are cut off, once they are more than half of it. */
const compactAfter = 1024

/** Bytes that an event alone keeps alive: its new content. The previous one was the next of an earlier event, or is small change. */
export function bytesOf(event: CacheEvent): number {
  return (event.next ?? event.previous)?.bytes.length ?? 0
}
