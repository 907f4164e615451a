import { ApiError, type Revision } from '@setpoint/controller-runtime/api'
import type { History } from './history.ts'
import type { ModelSnapshot } from './model-snapshot.ts'
import type { ModelStore } from './model-store.ts'

export const snapshotCacheDefaults = Object.freeze({
  /** Snapshots of each model. Bounds the lists that clients can page through concurrently. */
  snapshots: 64,
  /** Milliseconds that a snapshot is kept after its last use, as long as the store keeps its history. */
  maxAgeMs: 5 * 60_000,
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
}

/**
 * The snapshots of one model that lists were served from, so that further pages come from the same state. Snapshots share
 * almost all of their memory with each other and with the present state.
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
      this.#kept.push({ revision, snapshot, usedAt: this.#now(), isPaged: false })
      this.trim()
    }
    return snapshot
  }

  /**
   * Returns the state at a revision that the cache has reached.
   * @throws ApiError 410 if it is no longer kept
   */
  at(revision: Revision): ModelSnapshot {
    const { history, revision: latest } = this.#cache
    // The client may read further pages of this state after the next change.
    if (revision >= latest) return this.present()
    this.trim()
    const kept = this.#kept.findLast(candidate => candidate.revision <= revision)
    // A snapshot is valid until the next change.
    const nextChange =
      kept && kept.revision >= history.floor ? history.next(kept.revision)?.revision : undefined
    if (kept === undefined || nextChange === undefined || nextChange <= revision) {
      throw new ApiError('Expired', `the state at version ${revision} is no longer kept: list again`)
    }
    kept.usedAt = this.#now()
    return kept.snapshot
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
    while (this.#kept.length > snapshotCacheDefaults.snapshots) {
      // The newest may be about to be held.
      const whole = this.#kept.slice(0, -1).filter(({ isPaged }) => !isPaged)
      const candidates = whole.length > 0 ? whole : this.#kept
      // The least recently used one, which need not be the oldest state.
      const least = candidates.reduce((one, other) => (other.usedAt < one.usedAt ? other : one))
      this.#kept.splice(this.#kept.indexOf(least), 1)
    }
  }
}
