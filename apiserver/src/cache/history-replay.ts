import { Breather, type Clock, systemClock } from '@setpoint/controller-runtime'
import type { Revision } from '@setpoint/controller-runtime/api'
import { CompactedError, type Storage, StoreUnavailableError } from '../storage/index.ts'
import type { Entry } from './entry.ts'
import { bytesOf, type CacheEvent, historyDefaults } from './history.ts'
import type { ModelCache } from './model-cache.ts'

export const replayDefaults = Object.freeze({
  /** Milliseconds for reading older changes from the store, above which a client is told to list again. */
  timeoutMs: 10_000,
  /** Milliseconds of silence at the end of that time which say that the store is away: then nothing is lost. */
  silenceMs: 3_000,
})

/** One reading of the store's history for one cache, and those who wait for it. */
interface Reading {
  /** From where those who wait want to resume. What is read begins at the oldest that the store still has. */
  readonly wanted: Set<Revision>
  /** How many wait; the last one to leave stops the reading. */
  waiting: number
  readonly abandoned: AbortController
  readonly done: Promise<void>
}

/**
 * Reaches back into the store's own history when a watch resumes from before the cache's, as it does after a restart
 * of the server. What is read is put before the cache's history, for everyone who comes back from about then.
 *
 *     gathering ──a tick later, and after the reading before it──▶ reading ──▶ done
 *
 * All who come while a reading gathers share it, from whichever versions they come: it reads from the oldest of them
 * up to where the cache's history begins. Those who come later gather for the next one, which has only what lies
 * before the first to read. So a thousand clients that return after a restart cost a few readings, and each change is
 * read once.
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
   * Does what it can so that `cache.history.floor` is at or below `after`; where it cannot, the floor stays above.
   * @throws the signal's reason once it is aborted; what the store throws, but for what it no longer has;
   *   StoreUnavailableError where it has fallen silent.
   */
  async reach(cache: ModelCache, after: Revision, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted()
    if (after >= cache.history.floor) return
    // One that is under way may bring what is wanted, or not: then the next one is joined, which knows of this reader.
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
    // Who waits hears of it; nobody need be waiting any more.
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
    const late = new AbortController()
    const cancel = this.#clock.setTimeout(() => late.abort(), replayDefaults.timeoutMs, { unref: true })
    let heardAt = this.#clock.monotonic()
    const heard = () => {
      heardAt = this.#clock.monotonic()
    }
    const running = this.#extend(cache, wanted, AbortSignal.any([abandoned, late.signal]), heard)
      .then(() => {
        if (late.signal.aborted && this.#clock.monotonic() - heardAt >= replayDefaults.silenceMs)
          throw new StoreUnavailableError('the store does not bring the changes that it still has')
      })
      .finally(() => {
        cancel()
        this.#running.delete(cache)
      })
    this.#running.set(cache, running)
    await running
  }

  /** @param heard called whenever the store has said something */
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
        // Timed out: its end is missing.
        if (signal.aborted) return
        // Rebuilt meanwhile: what was read does not join what is kept now, and may still be needed up to there.
        if (cache.history !== history) continue
        // Evicted meanwhile: there is no room for more.
        if (history.floor === until) history.prepend(replayed.events, replayed.floor)
        return
      } catch (error) {
        if (signal.aborted) return
        // Compacted meanwhile: that must not cost those their resume whose changes the store still has.
        if (!(error instanceof CompactedError)) throw error
      }
    }
  }

  /**
   * The oldest revision of those wanted after which the store still has everything: one who was away for too long
   * must not cost the others their resume. Asked by bisection: a watch of nothing is refused like that of everything.
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
      // The oldest first: mostly the store has it.
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

  /** The changes above `floor`, which is `after` or higher where there were more than a history has room for. */
  async #changesBetween(
    cache: ModelCache,
    after: Revision,
    until: Revision,
    signal: AbortSignal,
    heard: () => void,
  ): Promise<{ events: readonly CacheEvent[]; floor: Revision }> {
    const { keyPrefix } = cache.served
    const events: CacheEvent[] = []
    // Each object as the changes so far have left it, which is what there was before its next change.
    const latest = new Map<string, Entry>()
    const breather = new Breather(this.#clock)
    let floor = after
    let first = 0
    let bytes = 0
    for await (const { changes } of this.#storage.watch(keyPrefix, { after, until, signal })) {
      heard()
      for (const change of changes) {
        if (change.revision > until) continue
        if (change.previous === undefined && change.createRevision !== change.revision) {
          // The store compacts while it answers: without what there was, nobody can say whom the change concerns.
          events.length = 0
          first = 0
          bytes = 0
          floor = change.revision
          latest.delete(change.key)
          continue
        }
        const pause = breather.pause()
        if (pause !== undefined) await pause
        const event = cache.toEvent(change, latest.get(change.key))
        if (event.next === undefined) latest.delete(change.key)
        else latest.set(change.key, event.next)
        events.push(event)
        bytes += bytesOf(event)
        // Only the newest have room, and what is read on the way to them must not fill the memory.
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

/** Waits for the work, which goes on for others, no longer than the signal says. @throws the signal's reason */
function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work
  return new Promise((resolve, reject) => {
    const abandon = () => reject(signal.reason)
    if (signal.aborted) return abandon()
    signal.addEventListener('abort', abandon, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abandon))
  })
}
