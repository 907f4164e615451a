import { type Clock, systemClock } from '@setpoint/controller-runtime'
import type { Revision } from '@setpoint/controller-runtime/api'
import { linkedSignal, unlessAborted, Yielder } from '@setpoint/controller-runtime/internal'
import { CompactedError, type Storage, StoreUnavailableError } from '../storage/index.ts'
import type { Entry } from './entry.ts'
import { bytesOf, type CacheEvent, historyDefaults } from './history.ts'
import type { ModelCache } from './model-cache.ts'

export const replayDefaults = Object.freeze({
  /** Milliseconds for reading older changes from the store. After that the client gets 410 and lists again. */
  timeoutMs: 10_000,
  /**
   * If the store was silent for this many milliseconds at the end of that time, it counts as unreachable: the client
   * gets 503.
   */
  silenceMs: 3_000,
})

/** One read of the store's history for one cache, shared by all that wait for it. */
interface Reading {
  /** The revisions to resume from. The read starts at the oldest of them that the store still has. */
  readonly wanted: Set<Revision>
  /** Number of callers that wait. The read is aborted when the last of them leaves. */
  waiting: number
  readonly abandoned: AbortController
  readonly done: Promise<void>
}

/**
 * Extends a cache's history from the store's own history when a watch resumes from an older revision, as watches do
 * after a restart of the server.
 *
 *     gathering ──next tick, and after the read before it──▶ reading ──▶ done
 *
 * Callers that arrive while a read is gathering share it. The read covers the oldest of their revisions up to the floor
 * of the cache's history. Later callers gather for the next read, which covers only older changes. So a thousand
 * clients that return after a restart cause a few reads, and each change is read once.
 */
export class HistoryReplay {
  readonly #storage: Storage
  readonly #clock: Clock
  readonly #gathering = new WeakMap<ModelCache, Reading>()
  readonly #running = new WeakMap<ModelCache, Promise<void>>()

  constructor(storage: Storage, clock: Clock = systemClock) {
    this.#storage = storage
    this.#clock = clock
  }

  /**
   * Lowers `cache.history.floor` to `after` or below. If the store no longer has the changes, or there is no room for
   * them, the floor stays above `after`.
   * @throws the signal's reason when it is aborted; StoreUnavailableError when the store is silent; other errors of the
   *   store, except CompactedError.
   */
  async reach(cache: ModelCache, after: Revision, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted()
    if (after >= cache.history.floor) return
    // A read that is under way may reach `after`. If it does not, this caller joins the next one.
    const running = this.#running.get(cache)
    if (running !== undefined)
      await unlessAborted(
        running.catch(() => {}),
        signal,
      )
    if (after >= cache.history.floor) return
    const reading = this.#gathering.get(cache) ?? this.#gather(cache)
    reading.wanted.add(after)
    reading.waiting++
    try {
      await unlessAborted(reading.done, signal)
    } finally {
      reading.waiting--
      if (reading.waiting === 0) {
        reading.abandoned.abort()
        if (this.#gathering.get(cache) === reading) this.#gathering.delete(cache)
      }
    }
  }

  #gather(cache: ModelCache): Reading {
    const wanted = new Set<Revision>()
    const abandoned = new AbortController()
    const done = this.#read(cache, wanted, abandoned.signal)
    // Callers handle the rejection. All of them may have left.
    done.catch(() => {})
    const reading: Reading = { wanted, waiting: 0, abandoned, done }
    this.#gathering.set(cache, reading)
    return reading
  }

  async #read(cache: ModelCache, wanted: ReadonlySet<Revision>, abandoned: AbortSignal): Promise<void> {
    await new Promise<void>(resolve => setImmediate(resolve))
    for (;;) {
      const before = this.#running.get(cache)
      if (before === undefined) break
      await before.catch(() => {})
    }
    if (abandoned.aborted) return
    this.#gathering.delete(cache)
    const late = linkedSignal(abandoned)
    const cancel = this.#clock.setTimeout(() => late.abort(), replayDefaults.timeoutMs, { unref: true })
    let heardAt = this.#clock.monotonic()
    const heard = () => {
      heardAt = this.#clock.monotonic()
    }
    const running = this.#extend(cache, wanted, late.signal, heard)
      .then(() => {
        if (late.signal.aborted && this.#clock.monotonic() - heardAt >= replayDefaults.silenceMs)
          throw new StoreUnavailableError('the store stopped sending the changes that it still has')
      })
      .finally(() => {
        cancel()
        late.dispose()
        this.#running.delete(cache)
      })
    this.#running.set(cache, running)
    await running
  }

  /** @param heard called on each response of the store */
  async #extend(
    cache: ModelCache,
    wanted: ReadonlySet<Revision>,
    signal: AbortSignal,
    heard: () => void,
  ): Promise<void> {
    while (!signal.aborted) {
      const { history } = cache
      const until = history.floor
      try {
        const after = await this.#oldestKept(cache, wanted, signal)
        if (after === undefined) return
        const replayed = await this.#changesBetween(cache, after, until, signal, heard)
        // Timed out: the newest changes are missing.
        if (signal.aborted) return
        // The cache was rebuilt: the changes do not join its new history.
        if (cache.history !== history) continue
        // If events were evicted, there is no room for older ones.
        if (history.floor === until) history.prepend(replayed.events, replayed.floor)
        return
      } catch (error) {
        if (signal.aborted) return
        // Compacted during the read: try again for the callers whose changes the store still has.
        if (!(error instanceof CompactedError)) throw error
      }
    }
  }

  /**
   * Returns the oldest wanted revision that the store still has every later change of, so that one client that was away
   * for too long does not take the others down. Uses bisection with empty watches, which the store rejects like full
   * ones.
   */
  async #oldestKept(
    cache: ModelCache,
    wanted: ReadonlySet<Revision>,
    signal: AbortSignal,
  ): Promise<Revision | undefined> {
    const { keyPrefix } = cache.served
    const revisions = [...wanted].filter(revision => revision < cache.history.floor).sort((a, b) => a - b)
    let low = 0
    let high = revisions.length
    while (low < high) {
      // Try the oldest first, because the store usually has it.
      const middle = low === 0 && high === revisions.length ? 0 : (low + high) >>> 1
      const revision = revisions[middle]
      if (revision === undefined) break
      try {
        for await (const _ of this.#storage.watch(keyPrefix, { after: revision, until: revision, signal }))
          break
        high = middle
      } catch (error) {
        if (!(error instanceof CompactedError)) throw error
        low = middle + 1
      }
    }
    return revisions[low]
  }

  /** Returns the changes above `floor`, which is higher than `after` if a history has no room for all of them. */
  async #changesBetween(
    cache: ModelCache,
    after: Revision,
    until: Revision,
    signal: AbortSignal,
    heard: () => void,
  ): Promise<{ events: readonly CacheEvent[]; floor: Revision }> {
    const { keyPrefix } = cache.served
    const events: CacheEvent[] = []
    // The latest state of each object, which is the previous state of its next change.
    const latest = new Map<string, Entry>()
    const yielder = new Yielder(this.#clock)
    let floor = after
    let first = 0
    let bytes = 0
    for await (const { changes } of this.#storage.watch(keyPrefix, { after, until, signal })) {
      heard()
      for (const change of changes) {
        if (change.revision > until) continue
        if (change.previous === undefined && change.createRevision !== change.revision) {
          // Compacted during the read: without the previous state the change cannot be matched to selectors.
          events.length = 0
          first = 0
          bytes = 0
          floor = change.revision
          latest.delete(change.key)
          continue
        }
        const pause = yielder.pause()
        if (pause !== undefined) await pause
        const event = cache.toEvent(change, latest.get(change.key))
        if (event.next === undefined) latest.delete(change.key)
        else latest.set(change.key, event.next)
        events.push(event)
        bytes += bytesOf(event)
        // Only the newest events fit into the history; drop the rest while reading.
        while (events.length - first > historyDefaults.maxEvents || bytes > historyDefaults.maxBytes) {
          const dropped = events[first]
          if (dropped === undefined) break
          first++
          bytes -= bytesOf(dropped)
          floor = dropped.revision
        }
        if (first > 1024 || first > events.length / 2) {
          events.splice(0, first)
          first = 0
        }
      }
    }
    return { events: events.slice(first), floor }
  }
}
