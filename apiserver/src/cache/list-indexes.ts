import { isApiError } from '@setpoint/controller-runtime/api'
import { unlessAborted } from '@setpoint/controller-runtime/internal'
import { LRUCache } from 'lru-cache'
import type { FairScheduler, Work, WorkOwner } from '../scheduling/index.ts'
import type { Entry } from './entry.ts'
import type { Slot } from './index-tree.ts'
import { ListIndex, type ListIndexSpec, type SnapshotState } from './list-index.ts'
import type { Candidate, OrderView } from './sort-order.ts'

export const listIndexDefaults = Object.freeze({
  /** List indexes of a model. Every write is checked against each, and moving an object in one takes some 2 µs. */
  indexes: 12,
  /** Indexes being built at once, in all and for one caller. Further lists run without an index. */
  building: 4,
  buildingPerCaller: 1,
  /** Microseconds that a page must cost for its list to get an index: at once, and at the second request. */
  cost: 4_000,
  repeatedCost: 400,
  /** Lists whose first request is remembered. */
  asked: 128,
  /**
   * Entries in all list indexes of a model, for each of its objects. An entry takes about 24 bytes, so the indexes add
   * less than a tenth to objects of 1 KiB.
   */
  entriesPerObject: 4,
  /** An index that is unused for this many trims (one every 30 seconds) is dropped: the lifetime of a snapshot. */
  idleTrims: 10,
  /** Writes and snapshots queued while an index is filled. Past this the index serves old states only. */
  pending: 200_000,
})

/** An index that is being built. */
interface Building {
  /** The caller whose list was the first to need it. */
  readonly caller: string
  readonly cost: number
  readonly index: ListIndex
  readonly abort: AbortController
  /** Snapshots that it will cover when it is complete. */
  readonly covered: WeakSet<SnapshotState>
  /** Writes and snapshots since its own snapshot, in order; undefined if it serves old snapshots only. */
  pending: (Change | SnapshotState)[] | undefined
  done: Promise<void>
  waiting: number
}

interface Change {
  readonly slot: Slot
  readonly next: Entry | undefined
  readonly previous: Entry | undefined
}

interface Kept {
  readonly caller: string
  readonly index: ListIndex
  /** Whether it follows writes; otherwise it serves one old snapshot. */
  readonly live: boolean
  /** Microseconds that it saves a page. */
  readonly cost: number
  usedAt: number
  /** The index with the least credit is evicted first (GreedyDual: see `#evict`). */
  credit: number
}

/**
 * The list indexes of one model. An expensive page makes the cache build one while reads and writes go on. The index is
 * kept up to date as long as it is used.
 *
 *     obtain ──▶ filled from a snapshot ──▶ catching up with the writes since ──▶ live ──unused, or too many──▶ evicted
 *
 * Writes and snapshots that arrive meanwhile are queued in order, so each of these snapshots sees its own state of the
 * index. An old snapshot gets an index of its own, which ignores writes.
 *
 * A caller builds few indexes at a time, and the caller who holds the most loses one first. So a caller with many
 * different lists displaces its own indexes.
 *
 * Invariant (query.oracle.test.ts; bounds and costs: query-work.test.ts): an index in a snapshot equals the snapshot's
 * objects, selected and sorted.
 */
export class ListIndexes {
  /** By id. */
  readonly #kept = new Map<string, Kept>()
  readonly #building = new Map<string, Building>()
  /** Ids of lists that were requested without an index. It allocates all of its space at once, which few kinds need. */
  #asked: LRUCache<string, true> | undefined
  /** The credit of the last evicted index. */
  #credit = 0
  /** The snapshot of the present state, if there is one. */
  #present: SnapshotState | undefined
  #trims = 0
  readonly #objects: () => number

  /** @param objects returns the number of the model's objects */
  constructor(objects: () => number) {
    this.#objects = objects
  }

  /** Number of complete indexes. */
  get size(): number {
    return this.#kept.size
  }

  /** Number of indexes that are being built. */
  get building(): number {
    return this.#building.size
  }

  /** Objects in all of them. */
  get entries(): number {
    let entries = 0
    for (const { index } of this.#kept.values()) entries += index.size
    return entries
  }

  /** Returns the index as of a snapshot, or undefined. */
  find(spec: ListIndexSpec, snapshot: SnapshotState): OrderView | undefined {
    return this.#use(spec.id, snapshot) ?? this.#use(idOfOld(spec, snapshot), snapshot)
  }

  /** Returns true if a list whose page costs this many microseconds should get an index. Remembers the request. */
  isWorth({ id }: ListIndexSpec, cost: number): boolean {
    if (cost >= listIndexDefaults.cost || this.#kept.has(id)) return true
    if (cost < listIndexDefaults.repeatedCost) return false
    this.#asked ??= new LRUCache({ max: listIndexDefaults.asked })
    const again = this.#asked.has(id)
    this.#asked.set(id, true)
    return again
  }

  /**
   * Returns the index as of a snapshot, and builds it if it is missing. Concurrent calls share one build, which is
   * aborted when all of them are.
   * @param cost microseconds that the index saves a page
   * @param fill finds the selected objects, in order
   * @returns undefined if the caller, or all callers, build too much already, or if too many writes came in between
   */
  async obtain(
    spec: ListIndexSpec,
    snapshot: SnapshotState,
    cost: number,
    fill: () => Work<readonly Candidate[]>,
    scheduler: FairScheduler,
    owner: WorkOwner,
  ): Promise<OrderView | undefined> {
    const known = this.find(spec, snapshot)
    if (known !== undefined) return known
    const live = snapshot === this.#present || this.#building.get(spec.id)?.covered.has(snapshot)
    const id = live ? spec.id : idOfOld(spec, snapshot)
    let building = this.#building.get(id)
    if (building === undefined) {
      if (!this.#mayBuild(owner.caller)) return undefined
      building = this.#build(id, spec, snapshot, cost, fill, scheduler, owner.caller)
    }
    building.waiting++
    try {
      await unlessAborted(building.done, owner.signal)
    } catch (error) {
      if (isApiError(error) && error.reason === 'TooManyRequests') return undefined
      throw error
    } finally {
      building.waiting--
      if (building.waiting === 0 && this.#building.get(id) === building) {
        this.#building.delete(id)
        building.abort.abort()
      }
    }
    return building.index.viewOf(snapshot)
  }

  /** Follows a write. */
  changed(slot: Slot, next: Entry | undefined, previous: Entry | undefined): void {
    this.#present = undefined
    for (const { index, live } of this.#kept.values()) if (live) index.change(slot, next, previous)
    this.#note({ slot, next, previous })
  }

  /** Notes a new snapshot of the present state. */
  captured(snapshot: SnapshotState): void {
    this.#present = snapshot
    for (const { index, live } of this.#kept.values()) if (live) index.capture(snapshot)
    this.#note(snapshot)
  }

  /** Drops indexes that were unused for a while, and evicts those past the bounds. */
  trim(): void {
    this.#trims++
    for (const [id, { usedAt }] of this.#kept) {
      if (this.#trims - usedAt > listIndexDefaults.idleTrims) this.#kept.delete(id)
    }
    this.#evict()
  }

  #use(id: string, snapshot: SnapshotState): OrderView | undefined {
    const kept = this.#kept.get(id)
    const view = kept?.index.viewOf(snapshot)
    if (kept === undefined || view === undefined) return undefined
    kept.usedAt = this.#trims
    kept.credit = this.#credit + kept.cost
    return view
  }

  #build(
    id: string,
    spec: ListIndexSpec,
    base: SnapshotState,
    cost: number,
    fill: () => Work<readonly Candidate[]>,
    scheduler: FairScheduler,
    caller: string,
  ): Building {
    const building: Building = {
      caller,
      cost,
      index: new ListIndex(spec),
      abort: new AbortController(),
      covered: new WeakSet([base]),
      pending: base === this.#present ? [] : undefined,
      done: Promise.resolve(),
      waiting: 0,
    }
    this.#building.set(id, building)
    const owner = { caller, signal: building.abort.signal }
    building.done = scheduler.run(this.#make(id, building, base, fill), base.size, owner)
    return building
  }

  #mayBuild(caller: string): boolean {
    if (this.#building.size >= listIndexDefaults.building) return false
    let ofCaller = 0
    for (const building of this.#building.values()) if (building.caller === caller) ofCaller++
    return ofCaller < listIndexDefaults.buildingPerCaller
  }

  *#make(
    id: string,
    building: Building,
    base: SnapshotState,
    fill: () => Work<readonly Candidate[]>,
  ): Work<void> {
    const { index } = building
    yield* index.fill(yield* fill())
    index.capture(base)
    while (building.pending !== undefined && building.pending.length > 0) {
      const batch = building.pending
      building.pending = []
      for (const one of batch) {
        if ('slot' in one) index.change(one.slot, one.next, one.previous)
        else index.capture(one)
        yield changeWork
      }
    }
    // Synchronous from the last queued write on, so no write is missed.
    this.#building.delete(id)
    this.#asked?.delete(id)
    const { caller, cost, pending } = building
    const credit = this.#credit + cost
    this.#kept.set(id, { caller, index, live: pending !== undefined, cost, usedAt: this.#trims, credit })
    this.#evict(id)
  }

  #note(one: Change | SnapshotState): void {
    for (const building of this.#building.values()) {
      if (building.pending === undefined) continue
      if (building.pending.length >= listIndexDefaults.pending) {
        building.pending = undefined
        continue
      }
      building.pending.push(one)
      if (!('slot' in one)) building.covered.add(one)
    }
  }

  /**
   * Evicts indexes past the bounds, but not the one that was just built. The victim is the one with the least credit of
   * the caller who holds the most entries. With each use an index gets its cost as credit above that of the last
   * evicted one, so the least credit means the longest time unused in proportion to the cost.
   */
  #evict(built?: string): void {
    const entries = listIndexDefaults.entriesPerObject * this.#objects()
    while (this.#kept.size > listIndexDefaults.indexes || this.entries > entries) {
      const caller = this.#largestHolder(built)
      let victim: [id: string, kept: Kept] | undefined
      for (const [id, kept] of this.#kept) {
        if (id === built || kept.caller !== caller) continue
        if (victim === undefined || kept.credit < victim[1].credit) victim = [id, kept]
      }
      if (victim === undefined) return
      const [id, { credit }] = victim
      this.#credit = Math.max(this.#credit, credit)
      this.#kept.delete(id)
    }
  }

  /** The caller who holds the most entries and has an index that may be evicted. */
  #largestHolder(built: string | undefined): string | undefined {
    const holders = new Map<string, { entries: number; evictable: boolean }>()
    for (const [id, { caller, index }] of this.#kept) {
      const known = holders.get(caller) ?? { entries: 0, evictable: false }
      holders.set(caller, {
        entries: known.entries + index.size + 1,
        evictable: known.evictable || id !== built,
      })
    }
    let largest: [caller: string, entries: number] | undefined
    for (const [caller, { entries, evictable }] of holders) {
      if (evictable && entries > (largest?.[1] ?? 0)) largest = [caller, entries]
    }
    return largest?.[0]
  }
}

/** The cost of a queued write in entries handled: two searches of a tree, and copies of some nodes. */
const changeWork = 16

function idOfOld({ id }: ListIndexSpec, { written }: SnapshotState): string {
  return `${id}@${written}`
}
