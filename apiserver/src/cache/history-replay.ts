import type { Revision } from '@setpoint/controller-runtime/api'
import { CompactedError, type Storage } from '../storage/index.ts'
import { type CacheEvent, historyDefaults } from './history.ts'
import type { ModelCache } from './model-cache.ts'

export const replayDefaults = Object.freeze({
  /** Milliseconds for reading older changes from the store, above which a client is told to list again. */
  timeoutMs: 10_000,
})

/**
 * Reaches back into the store's own history when a watch resumes from before the cache's, as it does after a restart
 * of the server. What is read is put before the cache's history, for everyone who comes back from about then.
 */
export class HistoryReplay {
  readonly #storage: Storage
  readonly #running = new WeakMap<ModelCache, Promise<void>>()

  constructor(storage: Storage) {
    this.#storage = storage
  }

  /** Does what it can so that `cache.history.floor` is at or below `after`; where it cannot, the floor stays. */
  async reach(cache: ModelCache, after: Revision): Promise<void> {
    while (after < cache.history.floor) {
      const running = this.#running.get(cache)
      if (running !== undefined) {
        await running
        continue
      }
      const floor = cache.history.floor
      const extending = this.#extend(cache, after).finally(() => this.#running.delete(cache))
      this.#running.set(cache, extending)
      await extending
      if (cache.history.floor >= floor) return
    }
  }

  async #extend(cache: ModelCache, after: Revision): Promise<void> {
    const { history, served } = cache
    const until = history.floor
    const events: CacheEvent[] = []
    let bytes = 0
    const signal = AbortSignal.timeout(replayDefaults.timeoutMs)
    try {
      for await (const { changes } of this.#storage.watch(served.keyPrefix, { after, until, signal })) {
        for (const change of changes) {
          if (change.revision > until) continue
          // The store compacts while it answers: without what there was, nobody can say whom the change concerns.
          if (change.previous === undefined && change.createRevision !== change.revision) return
          const event = cache.toEvent(change)
          events.push(event)
          bytes += (event.next ?? event.previous)?.bytes.length ?? 0
          // More than the history has room for; what it was read from must not fill the memory.
          if (events.length > historyDefaults.maxEvents || bytes > historyDefaults.maxBytes) return
        }
      }
    } catch (error) {
      if (error instanceof CompactedError) return
      throw error
    }
    // Evicted or rebuilt meanwhile: what was read no longer joins what is kept.
    if (signal.aborted || cache.history !== history || history.floor !== until) return
    history.prepend(events, after)
  }
}
