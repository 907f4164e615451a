import type { Entry } from './entry.ts'
import type { Slot } from './index-tree.ts'
import { ModelSnapshot } from './model-snapshot.ts'
import { PartialIndex, type PartialSpec } from './partial-index.ts'
import type { Candidate, OrderView } from './sort-order.ts'
import type { Turns } from './turns.ts'
import type { Work } from './work.ts'

export const partialDefaults = Object.freeze({
  /** Partial indexes of a model at most: every write is shown to each, and moves an object in it for some 2 µs. */
  indexes: 12,
  /** Microseconds that a page must cost for its list to get an index at once, and where it was asked for not long ago. */
  cost: 4_000,
  repeatedCost: 400,
  /** Lists that are remembered to have been asked for. */
  asked: 128,
  /**
   * Places in all partial indexes of a model together, for each of its objects: about 24 bytes each, so that they add
   * less than a tenth to objects of 1 KiB.
   */
  placesPerObject: 4,
  /** Trims (one every half minute) without being asked for, after which an index is let go of: as long as snapshots. */
  idleTrims: 10,
  /** Writes and snapshots that wait until an index that is being made has been filled: more, and it is for old states only. */
  pending: 200_000,
})

/** An index that is being made. */
interface Building {
  readonly cost: number
  readonly index: PartialIndex
  readonly abort: AbortController
  /** Snapshots that it will have been captured for in the end. */
  readonly covered: WeakSet<ModelSnapshot>
  /** What has happened since its snapshot, in this order; undefined where it is for old snapshots alone. */
  pending: (Change | ModelSnapshot)[] | undefined
  done: Promise<void>
  waiting: number
}

interface Change {
  readonly slot: Slot
  readonly next: Entry | undefined
  readonly previous: Entry | undefined
}

interface Kept {
  readonly index: PartialIndex
  /** Whether it takes in writes; otherwise it is for one old snapshot. */
  readonly live: boolean
  /** Microseconds that it spares a page. */
  readonly cost: number
  usedAt: number
  /** The one with the least goes first (GreedyDual: see `#evict`). */
  credit: number
}

/**
 * The partial indexes of one model. One is made when a page is asked for that costs much without it, by turns, while
 * reads and writes go on, and is kept up to date for as long as it is asked for.
 *
 *     obtain ──▶ filled from a snapshot ──▶ catching up with the writes since ──▶ live ──not asked for, or too many──▶ gone
 *
 * Writes and snapshots that come in between wait in their order, so that each of these snapshots gets the index as it
 * was in it. An old snapshot gets one of its own, which takes in no writes.
 *
 * Invariant (query.oracle.test.ts; bounds and costs: query-work.test.ts): what an index is in a snapshot is what
 * selecting and sorting the objects of the snapshot gives.
 */
export class PartialIndexes {
  /** By id. */
  readonly #kept = new Map<string, Kept>()
  readonly #building = new Map<string, Building>()
  /** Ids of lists without an index that have been asked for, the last one at the end. */
  readonly #asked = new Set<string>()
  /** The credit of the last index that had to go. */
  #credit = 0
  /** The present state, if it has been taken. */
  #present: ModelSnapshot | undefined
  /** Trims so far. */
  #trims = 0
  readonly #objects: () => number

  /** @param objects how many the model has */
  constructor(objects: () => number) {
    this.#objects = objects
  }

  /** Number of indexes that are there. */
  get size(): number {
    return this.#kept.size
  }

  /** Objects in all of them. */
  get places(): number {
    let places = 0
    for (const { index } of this.#kept.values()) places += index.size
    return places
  }

  /** An index as it is in a snapshot, if there is one. */
  find(spec: PartialSpec, snapshot: ModelSnapshot): OrderView | undefined {
    return this.#use(spec.id, snapshot) ?? this.#use(idOfOld(spec, snapshot), snapshot)
  }

  /** Whether a list whose page costs so many microseconds should get an index, now that it is asked for. */
  isWorth({ id }: PartialSpec, cost: number): boolean {
    if (cost >= partialDefaults.cost || this.#kept.has(id)) return true
    if (cost < partialDefaults.repeatedCost) return false
    const again = this.#asked.delete(id)
    this.#asked.add(id)
    for (const oldest of this.#asked) {
      if (this.#asked.size <= partialDefaults.asked) break
      this.#asked.delete(oldest)
    }
    return again
  }

  /**
   * As `find`, making the index if there is none; all who ask for one wait for the same.
   * @param cost microseconds that the index spares a page
   * @param fill the objects that are selected, in order
   * @param signal stops waiting; the index is not made further once nobody waits
   * @returns undefined where so much was written meanwhile that it was not made for this snapshot
   */
  async obtain(
    spec: PartialSpec,
    snapshot: ModelSnapshot,
    cost: number,
    fill: () => Work<readonly Candidate[]>,
    turns: Turns,
    signal?: AbortSignal,
  ): Promise<OrderView | undefined> {
    const there = this.find(spec, snapshot)
    if (there !== undefined) return there
    const live = snapshot === this.#present || this.#building.get(spec.id)?.covered.has(snapshot)
    const id = live ? spec.id : idOfOld(spec, snapshot)
    const building = this.#building.get(id) ?? this.#build(id, spec, snapshot, cost, fill, turns)
    building.waiting++
    try {
      await unlessAborted(building.done, signal)
    } finally {
      building.waiting--
      if (building.waiting === 0 && this.#building.get(id) === building) {
        this.#building.delete(id)
        building.abort.abort()
      }
    }
    return building.index.viewOf(snapshot)
  }

  /** A write has been made. */
  changed(slot: Slot, next: Entry | undefined, previous: Entry | undefined): void {
    this.#present = undefined
    for (const { index, live } of this.#kept.values()) if (live) index.change(slot, next, previous)
    this.#note({ slot, next, previous })
  }

  /** A snapshot of the present state has been taken. */
  captured(snapshot: ModelSnapshot): void {
    this.#present = snapshot
    for (const { index, live } of this.#kept.values()) if (live) index.capture(snapshot)
    this.#note(snapshot)
  }

  /** Lets go of what nobody has asked for in a while, and of what there is too much of. */
  trim(): void {
    this.#trims++
    for (const [id, { usedAt }] of this.#kept) {
      if (this.#trims - usedAt > partialDefaults.idleTrims) this.#kept.delete(id)
    }
    this.#evict()
  }

  #use(id: string, snapshot: ModelSnapshot): OrderView | undefined {
    const kept = this.#kept.get(id)
    const view = kept?.index.viewOf(snapshot)
    if (kept === undefined || view === undefined) return undefined
    kept.usedAt = this.#trims
    kept.credit = this.#credit + kept.cost
    return view
  }

  #build(
    id: string,
    spec: PartialSpec,
    base: ModelSnapshot,
    cost: number,
    fill: () => Work<readonly Candidate[]>,
    turns: Turns,
  ): Building {
    const building: Building = {
      cost,
      index: new PartialIndex(spec),
      abort: new AbortController(),
      covered: new WeakSet([base]),
      pending: base === this.#present ? [] : undefined,
      done: Promise.resolve(),
      waiting: 0,
    }
    this.#building.set(id, building)
    building.done = turns.run(this.#make(id, building, base, fill), building.abort.signal)
    return building
  }

  *#make(
    id: string,
    building: Building,
    base: ModelSnapshot,
    fill: () => Work<readonly Candidate[]>,
  ): Work<void> {
    const { index } = building
    yield* index.fill(yield* fill())
    index.capture(base)
    while (building.pending !== undefined && building.pending.length > 0) {
      const batch = building.pending
      building.pending = []
      for (const one of batch) {
        if (one instanceof ModelSnapshot) index.capture(one)
        else index.change(one.slot, one.next, one.previous)
        yield changeWork
      }
    }
    // Nothing can come in between the last write taken in and this.
    this.#building.delete(id)
    this.#asked.delete(id)
    const { cost, pending } = building
    const credit = this.#credit + cost
    this.#kept.set(id, { index, live: pending !== undefined, cost, usedAt: this.#trims, credit })
    this.#evict(id)
  }

  #note(one: Change | ModelSnapshot): void {
    for (const building of this.#building.values()) {
      if (building.pending === undefined) continue
      if (building.pending.length >= partialDefaults.pending) {
        building.pending = undefined
        continue
      }
      building.pending.push(one)
      if (one instanceof ModelSnapshot) building.covered.add(one)
    }
  }

  /**
   * Makes room, but not at the expense of the one that was just made. What goes is what has gone unused for longest in
   * proportion to what it spares: an index has its cost as credit above that of the last one to go, anew with each use.
   */
  #evict(made?: string): void {
    const places = partialDefaults.placesPerObject * this.#objects()
    while (this.#kept.size > partialDefaults.indexes || this.places > places) {
      let least: [id: string, credit: number] | undefined
      for (const [id, { credit }] of this.#kept) {
        if (id !== made && credit < (least?.[1] ?? Infinity)) least = [id, credit]
      }
      if (least === undefined) return
      const [id, credit] = least
      this.#credit = credit
      this.#kept.delete(id)
    }
  }
}

/** What taking in a write costs, in entries handled: two searches of a tree, and copies of some nodes. */
const changeWork = 16

function idOfOld({ id }: PartialSpec, { written }: ModelSnapshot): string {
  return `${id}@${written}`
}

/** @throws the signal's reason once aborted. */
async function unlessAborted(promise: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  if (signal === undefined) return promise
  let stop = () => {}
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason)
    if (signal.aborted) stop()
    else signal.addEventListener('abort', stop, { once: true })
  })
  try {
    await Promise.race([promise, aborted])
  } finally {
    signal.removeEventListener('abort', stop)
  }
}
