import type { DeepReadonly } from '../api/deep-readonly.ts'
import { isConflict, isNotFound } from '../api/errors.ts'
import { objectKey } from '../api/object-key.ts'
import { Informer } from '../cache/informer.ts'
import type { Client } from '../client/client.ts'
import { type Clock, sleep, systemClock } from '../clock.ts'
import { Event } from '../kinds/event.ts'
import type { Runnable, RunnableContext } from '../runnable.ts'

/** Limits of the stored events. */
export const eventKeeperDefaults = Object.freeze({
  /** How long an event is kept after its last occurrence. As in Kubernetes. */
  lifetimeMs: 3_600_000,
  /** Events per object; the oldest are deleted first. */
  perObject: 50,
  /** Events in total: about ten megabytes of memory per server. */
  inAll: 10_000,
  /** Time between two passes. */
  intervalMs: 60_000,
  /** Shortest pause between two passes, so that the informer sees the deletions of the first. */
  pauseMs: 1_000,
  /** A timestamp further ahead of the local clock is not trusted. */
  clockSkewMs: 300_000,
})

export interface EventKeeperOptions {
  readonly clock?: Clock
  readonly lifetimeMs?: number
  readonly perObject?: number
  readonly inAll?: number
}

type CachedEvent = DeepReadonly<Event>

/**
 * Deletes events that are too old, too many for one object, or too many in total: the oldest first. It runs every
 * minute, and at once if there are too many in total. An event that is repeated meanwhile stays.
 */
export class EventKeeper implements Runnable {
  readonly name = 'event-keeper'
  readonly #clock: Clock
  readonly #limits: Required<Pick<EventKeeperOptions, 'lifetimeMs' | 'perObject' | 'inAll'>>

  constructor({ clock, ...limits }: EventKeeperOptions = {}) {
    this.#clock = clock ?? systemClock
    this.#limits = { ...eventKeeperDefaults, ...limits }
  }

  async run({ client, signal, log }: RunnableContext): Promise<void> {
    const informer = new Informer(Event, { client, log, clock: this.#clock })
    informer.start()
    try {
      const tooMany = () => informer.size > this.#limits.inAll
      await informer.waitUntil(() => informer.hasSynced, eventKeeperDefaults.intervalMs, signal)
      while (!signal.aborted) {
        const removed = await this.#remove(client, this.#surplus(informer.list()), signal)
        if (removed > 0) log.debug({ removed }, 'removed old events')
        await sleep(this.#clock, eventKeeperDefaults.pauseMs, signal)
        await informer.waitUntil(tooMany, eventKeeperDefaults.intervalMs, signal)
      }
    } catch (error) {
      if (!signal.aborted) throw error
    } finally {
      await informer.stop()
    }
  }

  #surplus(events: readonly CachedEvent[]): CachedEvent[] {
    const nowMs = this.#clock.now()
    const { lifetimeMs, perObject, inAll } = this.#limits
    const surplus: CachedEvent[] = []
    const kept = new Map<string, number>()
    let all = 0
    const newestFirst = events
      .map(event => ({ event, lastMs: lastOccurrence(event, nowMs) }))
      .sort((left, right) => right.lastMs - left.lastMs)
    for (const { event, lastMs } of newestFirst) {
      const object = objectOf(event)
      const ofObject = kept.get(object) ?? 0
      if (nowMs - lastMs >= lifetimeMs || ofObject >= perObject || all >= inAll) surplus.push(event)
      else {
        kept.set(object, ofObject + 1)
        all++
      }
    }
    return surplus
  }

  async #remove(client: Client, events: readonly CachedEvent[], signal: AbortSignal): Promise<number> {
    let removed = 0
    for (const { metadata } of events) {
      const { uid, version } = metadata
      try {
        await client.delete(Event, objectKey(metadata), { preconditions: { uid, version }, signal })
        removed++
      } catch (error) {
        if (!isConflict(error) && !isNotFound(error)) throw error
      }
    }
    return removed
  }
}

/** Returns the time of the last occurrence in ms since the epoch; if implausible, the time of creation. */
function lastOccurrence({ series, lastTimestamp, eventTime, metadata }: CachedEvent, nowMs: number): number {
  const lastMs = Date.parse(series?.lastObservedTime ?? lastTimestamp ?? eventTime ?? '')
  const believable = lastMs <= nowMs + eventKeeperDefaults.clockSkewMs
  return believable ? lastMs : Date.parse(metadata.creationTimestamp)
}

/** Returns what identifies the object of an event. Other reporters may leave out the uid. */
function objectOf({ involvedObject: { uid, kind, namespace, name } = {} }: CachedEvent): string {
  return uid ?? JSON.stringify([kind, namespace, name])
}
