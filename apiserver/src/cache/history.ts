import { systemClock } from '@setpoint/controller-runtime'
import type { Revision } from '@setpoint/controller-runtime/api'
import type { Entry } from './entry.ts'

/** One change of one object, with the object before and after it. */
export interface CacheEvent {
  readonly revision: Revision
  /** Undefined for a creation. */
  readonly previous: Entry | undefined
  /** Undefined for a deletion. */
  readonly next: Entry | undefined
}

/** The bounds of one model's history. */
interface HistoryLimits {
  readonly minEvents: number
  readonly maxEvents: number
  readonly maxAgeMs: number
  readonly maxBytes: number
}

export const historyDefaults: HistoryLimits = Object.freeze({
  /** Events kept whatever their age, so that watches of a quiet kind can resume. The lower bound of Kubernetes. */
  minEvents: 100,
  /** Most events kept. The upper bound of Kubernetes. */
  maxEvents: 102_400,
  /** Milliseconds that an event is kept if there is room, as long as the store keeps its own history. */
  maxAgeMs: 5 * 60_000,
  /** Most bytes of events kept for one model. */
  maxBytes: 64 * 1024 * 1024,
})

/**
 * The recent changes of one model, oldest first. Every change above `floor` is in it, so a watch that resumes from
 * there misses nothing.
 */
export class History {
  #kept: (Kept | undefined)[] = []
  /** Index of the oldest event in `#kept`. The places before it are empty. */
  #start = 0
  #bytes = 0
  #floor: Revision
  /** The first floor. The events above it were pushed. */
  readonly #origin: Revision
  readonly #limits: HistoryLimits
  readonly #now: () => number

  /** @param now returns milliseconds of a monotonic clock */
  constructor(floor: Revision, now: () => number = systemClock.monotonic, limits = historyDefaults) {
    this.#floor = floor
    this.#origin = floor
    this.#now = now
    this.#limits = limits
  }

  /** Changes at or below this revision have been evicted. */
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

  /**
   * Evicts events that exceed the bounds. Call it regularly, so that a burst ages out on a kind that has fallen quiet.
   */
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
   * Prepends every event above `floor` up to the present floor. If there is no room for all of them, only the newest
   * are kept and the new floor is higher than `floor`.
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

  /** Returns the position of the first event after `revision`, or undefined if some of those events were evicted. */
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

  /** Returns the first event after `revision`, or undefined at the end. The caller must have checked `floor`. */
  next(revision: Revision): CacheEvent | undefined {
    const position = this.positionAfter(revision)
    return position === undefined ? undefined : this.#kept[position]?.event
  }

  /**
   * Returns the events after a revision up to another, latest first. Undefined if some of them were evicted, or
   * prepended: in those, the first event of an object does not know the version of its previous state.
   */
  latestFirst(after: Revision, until: Revision): Iterable<CacheEvent> | undefined {
    const from = after < this.#origin ? undefined : this.positionAfter(after)
    return from === undefined
      ? undefined
      : eventsOf(this.#kept.slice(from, this.positionAfter(until)).reverse())
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

function* eventsOf(kept: readonly (Kept | undefined)[]): Generator<CacheEvent> {
  for (const one of kept) if (one !== undefined) yield one.event
}

interface Kept {
  readonly event: CacheEvent
  /** When it was pushed, by the history's clock. */
  readonly at: number
}

/** The array is copied when it has more empty places at its front than this, and they are more than half of it. */
const compactAfter = 1024

/**
 * Bytes of one of several values in an index: its text, and for a label also its entry in `labels`. Measured with 1,000
 * short labels, whose JSON is a tenth of that.
 */
const valueBytes = 128

/**
 * Returns the bytes that an event keeps in memory. The previous content is usually kept by an earlier event already.
 */
export function bytesOf(event: CacheEvent): number {
  const entry = event.next ?? event.previous
  return entry === undefined ? 0 : bytesOfEntry(entry)
}

/** Returns the bytes that an entry takes in memory, besides those of each entry. */
export function bytesOfEntry(entry: Entry): number {
  let bytes = entry.bytes.length
  for (const values of entry.values)
    if (Array.isArray(values) && values.length > 1) bytes += values.length * valueBytes
  return bytes
}
