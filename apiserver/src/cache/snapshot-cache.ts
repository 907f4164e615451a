import { ApiError, type Revision } from '@setpoint/controller-runtime/api'
import type { History } from './history.ts'
import type { ModelSnapshot } from './model-snapshot.ts'
import type { ModelStore } from './model-store.ts'
import { Rewind } from './rewind.ts'
import type { Work } from './work.ts'

export const snapshotCacheDefaults = Object.freeze({
  /** Snapshots of each model. Bounds the lists that clients can page through concurrently. */
  snapshots: 64,
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

interface Kept {
  readonly revision: Revision
  readonly snapshot: ModelSnapshot
  usedAt: number
  /** True if a list has shown a part of it, so that its client may read further parts. */
  isPaged: boolean
  readonly isRewound: boolean
}

/**
 * The snapshots of one model that lists were served from, so that further pages come from the same state. Snapshots share
 * almost all of their memory with each other and with the present state.
 *
 * A state that is not kept, such as that of a list on another server, is made from a later one (`Rewind`).
 */
export class SnapshotCache {
  readonly #cache: Present
  readonly #now: () => number
  /** Ascending by revision. */
  #kept: Kept[] = []

  /** @param now returns milliseconds of a monotonic clock */
  constructor(cache: Present, now: () => number) {
    this.#cache = cache
    this.#now = now
  }

  /** Returns the present state, and keeps it for later requests of its revision. */
  present(): ModelSnapshot {
    const { revision, store } = this.#cache
    const snapshot = store.snapshot()
    const latest = this.#kept.at(-1)
    if (latest?.revision === revision) latest.usedAt = this.#now()
    else {
      this.#kept.push({ revision, snapshot, usedAt: this.#now(), isPaged: false, isRewound: false })
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
   * Returns a state as `at`. If it is not kept, makes it from the next state that is, and keeps it. Requests for one state
   * may work side by side; all end when the first has made it.
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
    const made = { revision, snapshot: past.snapshot(), usedAt: this.#now(), isPaged: true, isRewound: true }
    this.#kept.splice(this.#kept.findLastIndex(kept => kept.revision < revision) + 1, 0, made)
    this.trim()
    return made.snapshot
  }

  /** Keeps a snapshot longer than those of lists that show everything. */
  hold(snapshot: ModelSnapshot): void {
    const kept = this.#kept.findLast(candidate => candidate.snapshot === snapshot)
    if (kept !== undefined) kept.isPaged = true
  }

  clear(): void {
    this.#kept = []
  }

  /** Evicts snapshots that were unused for too long, and those past the bound. */
  trim(): void {
    const oldest = this.#now() - snapshotCacheDefaults.maxAgeMs
    this.#kept = this.#kept.filter(kept => kept.usedAt >= oldest)
    const rewound = this.#kept.filter(({ isRewound }) => isRewound)
    if (rewound.length > snapshotCacheDefaults.rewound) this.#evict(rewound)
    while (this.#kept.length > snapshotCacheDefaults.snapshots) {
      // The newest may be about to be held.
      const whole = this.#kept.slice(0, -1).filter(({ isPaged }) => !isPaged)
      this.#evict(whole.length > 0 ? whole : this.#kept)
    }
  }

  /** Evicts the least recently used one, which need not be the oldest state. */
  #evict(candidates: readonly Kept[]): void {
    const least = candidates.reduce((one, other) => (other.usedAt < one.usedAt ? other : one))
    this.#kept.splice(this.#kept.indexOf(least), 1)
  }
}

function expired(revision: Revision): ApiError {
  return new ApiError('Expired', `the state at version ${revision} is no longer kept: list again`)
}
