import { ApiError, type Revision } from '@setpoint/controller-runtime/api'
import type { Work } from '../scheduling/index.ts'
import type { Entry } from './entry.ts'
import { bytesOfEntry, type CacheEvent, type History } from './history.ts'
import type { ModelSnapshot } from './model-snapshot.ts'
import type { ModelStore } from './model-store.ts'
import { Rewind } from './rewind.ts'

export const snapshotCacheDefaults = Object.freeze({
  /** Snapshots of each model. Bounds the lists that clients can page through concurrently. */
  snapshots: 64,
  /**
   * Bytes of former versions of objects that only the snapshots of a model keep, as many as its history keeps. One user
   * could otherwise keep all objects of a kind 64 times.
   */
  bytes: 64 * 1024 * 1024,
  /** Bytes of an entry in memory besides its content and values. */
  entryBytes: 512,
  /** Milliseconds that a snapshot is kept after its last use, as long as the store keeps its history. */
  maxAgeMs: 5 * 60_000,
  /**
   * Of these, states that no list was served from. They share less memory: one that is 10,000 changes away takes 15 MB
   * with 100,000 objects. An evicted one can be made again.
   */
  rewound: 16,
})

/** The present state of a model. */
interface Present {
  readonly revision: Revision
  readonly store: ModelStore
  readonly history: History
}

/** A version of an object that is no longer the present one. */
interface Replaced {
  readonly entry: Entry
  /** The change that replaced it. */
  readonly at: Revision
}

interface Kept {
  readonly revision: Revision
  readonly snapshot: ModelSnapshot
  /** What this snapshot keeps and no later one does, by revision. An earlier one may keep it, too. */
  readonly replaced: Replaced[]
  usedAt: number
  /** True if a list has shown a part of it, so that its client may read further parts. */
  isPaged: boolean
  readonly isRewound: boolean
}

/**
 * The snapshots of one model that lists were served from, so that further pages come from the same state. Snapshots
 * share almost all of their memory with each other and with the present state.
 *
 * A state that is not kept, such as that of a list on another server, is made from a later one (`Rewind`).
 */
export class SnapshotCache {
  readonly #cache: Present
  readonly #now: () => number
  /** Ascending by revision. */
  #kept: Kept[] = []
  /** Bytes of all that is replaced, each version once. */
  #bytes = 0

  /** @param now returns milliseconds of a monotonic clock */
  constructor(cache: Present, now: () => number) {
    this.#cache = cache
    this.#now = now
  }

  /** Bytes of the former versions of objects that the snapshots keep. */
  get bytes(): number {
    return this.#bytes
  }

  /** Follows a change of the present state. */
  changed({ previous, revision }: Pick<CacheEvent, 'previous' | 'revision'>): void {
    const latest = this.#kept.at(-1)
    if (previous === undefined || latest === undefined || latest.revision < previous.revision) return
    latest.replaced.push({ entry: previous, at: revision })
    this.#bytes += sizeOf(previous)
    if (this.#bytes > snapshotCacheDefaults.bytes) this.trim()
  }

  /** Returns the present state, and keeps it for later requests of its revision. */
  present(): ModelSnapshot {
    const { revision, store } = this.#cache
    const snapshot = store.snapshot()
    const latest = this.#kept.at(-1)
    if (latest?.revision === revision) latest.usedAt = this.#now()
    else {
      const usedAt = this.#now()
      this.#kept.push({ revision, snapshot, replaced: [], usedAt, isPaged: false, isRewound: false })
      this.trim()
    }
    return snapshot
  }

  /** Returns the state at a revision that the cache has reached, or undefined if it is not kept. */
  at(revision: Revision): ModelSnapshot | undefined {
    const { history, revision: latest } = this.#cache
    // The client may read further pages of this state after the next change.
    if (revision >= latest) return this.present()
    this.trim()
    const kept = this.#kept.findLast(candidate => candidate.revision <= revision)
    // A snapshot is valid until the next change.
    const nextChange =
      kept && kept.revision >= history.floor ? history.next(kept.revision)?.revision : undefined
    if (kept === undefined || nextChange === undefined || nextChange <= revision) return undefined
    kept.usedAt = this.#now()
    return kept.snapshot
  }

  /**
   * Returns a state as `at`. If it is not kept, makes it from the next state that is, and keeps it. Requests for one
   * state may work side by side; all end when the first has made it.
   * @throws ApiError 410 if the history no longer has the changes, or if the cache is rebuilt meanwhile
   */
  *rewind(revision: Revision): Work<ModelSnapshot> {
    const kept = this.at(revision)
    if (kept !== undefined) return kept
    const { history, revision: latest, store } = this.#cache
    const { snapshot, revision: from } = this.#kept.find(kept => kept.revision >= revision) ?? {
      snapshot: store.snapshot(),
      revision: latest,
    }
    const changes = history.latestFirst(revision, from)
    if (changes === undefined) throw expired(revision)
    const past = new Rewind(snapshot)
    for (const change of changes) {
      yield past.undo(change)
      if (this.#cache.history !== history) throw expired(revision)
      const made = this.#kept.find(kept => kept.revision === revision)
      if (made !== undefined) return made.snapshot
    }
    const made = past.snapshot()
    this.#keepPast(revision, made)
    return made
  }

  /** Keeps a state that was made, unless the history has lost its next changes meanwhile. */
  #keepPast(revision: Revision, snapshot: ModelSnapshot): void {
    const at = this.#kept.findLastIndex(kept => kept.revision < revision) + 1
    const { history, revision: latest } = this.#cache
    const changes = history.latestFirst(revision, this.#kept[at]?.revision ?? latest)
    if (changes === undefined) return
    const replaced: Replaced[] = []
    for (const { previous, revision: replacedAt } of changes)
      if (previous !== undefined && previous.revision <= revision)
        replaced.push({ entry: previous, at: replacedAt })
    // The earlier state has kept some of these so far.
    const earlier = this.#kept[at - 1]?.replaced ?? []
    const first = earlier.findIndex(one => one.at > revision)
    if (first >= 0) this.#release(earlier.splice(first))
    for (const { entry } of replaced) this.#bytes += sizeOf(entry)
    const usedAt = this.#now()
    const past = { revision, snapshot, replaced: replaced.reverse(), usedAt, isPaged: true, isRewound: true }
    this.#kept.splice(at, 0, past)
    this.trim()
  }

  /** Keeps a snapshot longer than those of lists that show everything. */
  hold(snapshot: ModelSnapshot): void {
    const kept = this.#kept.findLast(candidate => candidate.snapshot === snapshot)
    if (kept !== undefined) kept.isPaged = true
  }

  clear(): void {
    this.#kept = []
    this.#bytes = 0
  }

  /** Evicts snapshots that were unused for too long, and those past the bounds. */
  trim(): void {
    const { maxAgeMs, rewound: mostRewound, snapshots, bytes } = snapshotCacheDefaults
    const oldest = this.#now() - maxAgeMs
    for (const kept of this.#kept.filter(({ usedAt }) => usedAt < oldest)) this.#drop(kept)
    const rewound = this.#kept.filter(({ isRewound }) => isRewound)
    if (rewound.length > mostRewound) this.#evict(rewound)
    while (this.#kept.length > snapshots || this.#bytes > bytes) {
      // The newest may be about to be held.
      const whole = this.#kept.slice(0, -1).filter(({ isPaged }) => !isPaged)
      this.#evict(whole.length > 0 ? whole : this.#kept)
    }
  }

  /** Evicts the least recently used one, which need not be the oldest state. */
  #evict(candidates: readonly Kept[]): void {
    this.#drop(candidates.reduce((one, other) => (other.usedAt < one.usedAt ? other : one)))
  }

  #drop(kept: Kept): void {
    const at = this.#kept.indexOf(kept)
    this.#kept.splice(at, 1)
    const earlier = this.#kept[at - 1]
    const isKept = ({ entry }: Replaced) => earlier !== undefined && entry.revision <= earlier.revision
    for (const one of kept.replaced) if (isKept(one)) earlier?.replaced.push(one)
    this.#release(kept.replaced.filter(one => !isKept(one)))
  }

  #release(replaced: readonly Replaced[]): void {
    for (const { entry } of replaced) this.#bytes -= sizeOf(entry)
  }
}

function sizeOf(entry: Entry): number {
  return bytesOfEntry(entry) + snapshotCacheDefaults.entryBytes
}

function expired(revision: Revision): ApiError {
  return new ApiError('Expired', `the state at version ${revision} is no longer kept: list again`)
}
