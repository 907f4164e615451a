import { ApiError, type Revision } from '@setpoint/controller-runtime/api'
import type { History } from './history.ts'
import type { ModelSnapshot } from './model-snapshot.ts'
import type { ModelStore } from './model-store.ts'

export const shelfDefaults = Object.freeze({
  /** States kept for each model: as many lists can be paged through at once, each from its own state. */
  snapshots: 64,
  /** Milliseconds that a state is kept after it was last asked for: as long as the store keeps its history. */
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
}

/**
 * The states of one model that lists have been answered from, so that their next pages come from the same one.
 * Snapshots share almost all of their memory with each other and with the present.
 */
export class SnapshotShelf {
  readonly #cache: Present
  readonly #now: () => number
  /** Ascending by revision. */
  #kept: Kept[] = []

  /** @param now milliseconds on a clock that never goes back */
  constructor(cache: Present, now: () => number) {
    this.#cache = cache
    this.#now = now
  }

  /** The present state, kept for whoever asks for its revision again. */
  present(): ModelSnapshot {
    const { revision, store } = this.#cache
    const snapshot = store.snapshot()
    const latest = this.#kept.at(-1)
    if (latest?.revision === revision) latest.usedAt = this.#now()
    else {
      this.#kept.push({ revision, snapshot, usedAt: this.#now() })
      this.trim()
    }
    return snapshot
  }

  /**
   * The state at a revision that the cache has reached.
   * @throws ApiError 410 when it is no longer known.
   */
  at(revision: Revision): ModelSnapshot {
    const { history, revision: latest, store } = this.#cache
    if (revision >= latest) return store.snapshot()
    this.trim()
    const kept = this.#kept.findLast(candidate => candidate.revision <= revision)
    // A state holds until the next change: a kept one is the one asked for if nothing changed in between.
    const nextChange =
      kept && kept.revision >= history.floor ? history.next(kept.revision)?.revision : undefined
    if (kept === undefined || nextChange === undefined || nextChange <= revision) {
      throw new ApiError('Expired', `the state at version ${revision} is no longer kept: list again`)
    }
    kept.usedAt = this.#now()
    return kept.snapshot
  }

  clear(): void {
    this.#kept = []
  }

  /** Lets go of what nobody has asked for in a while, and of what there is too much of. */
  trim(): void {
    const oldest = this.#now() - shelfDefaults.maxAgeMs
    this.#kept = this.#kept.filter(kept => kept.usedAt >= oldest)
    while (this.#kept.length > shelfDefaults.snapshots) {
      // The one that nobody has paged through for longest, which need not be the oldest state.
      let least = 0
      for (const [at, kept] of this.#kept.entries()) {
        if (kept.usedAt < (this.#kept[least]?.usedAt ?? 0)) least = at
      }
      this.#kept.splice(least, 1)
    }
  }
}
