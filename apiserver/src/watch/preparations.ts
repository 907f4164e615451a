import { ApiError } from '@setpoint/controller-runtime/api'
import { type Entry, type ModelCache, type PreparedViews, prepareViews } from '../cache/index.ts'
import type { ServedVersion } from '../model/index.ts'

/**
 * The conversions by a webhook that the watches of one model wait for. Those that wait for the same object share one.
 */
export class Preparations {
  readonly #cache: ModelCache
  readonly #running = new Map<ServedVersion, Map<Entry, Promise<PreparedViews>>>()

  constructor(cache: ModelCache) {
    this.#cache = cache
  }

  /** Returns the conversion of an entry that is under way. */
  running(entry: Entry, version: ServedVersion): Promise<PreparedViews> | undefined {
    return this.#running.get(version)?.get(entry)
  }

  /** Converts entries together. One that cannot be converted does not keep the others from it. Never rejects. */
  start(entries: readonly Entry[], version: ServedVersion): Promise<PreparedViews> {
    const running = this.#running.get(version) ?? new Map<Entry, Promise<PreparedViews>>()
    this.#running.set(version, running)
    const preparation = prepareViews(this.#cache, entries, version)
      .catch((cause: unknown): PreparedViews => {
        const error = new ApiError('InternalError', 'the object cannot be shown', undefined, { cause })
        return new Map(entries.map(entry => [entry, error]))
      })
      .finally(() => {
        for (const entry of entries) if (running.get(entry) === preparation) running.delete(entry)
      })
    for (const entry of entries) running.set(entry, preparation)
    return preparation
  }
}
