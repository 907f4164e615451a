import { isConflict, isNotFound } from '../api/errors.ts'
import { Informer } from '../cache/informer.ts'
import type { Client } from '../client/client.ts'
import { type Clock, sleep, systemClock } from '../clock.ts'
import type { Runnable, RunnableContext } from '../manager/runnable.ts'
import { type Event, type EventModel, eventModel } from './event.ts'

/** How many events are kept, and for how long. */
export const eventKeeperDefaults = Object.freeze({
  /** How long an event is kept after it was last told. As in Kubernetes. */
  lifetimeMs: 3_600_000,
  /** Events of one object; older ones go first. */
  perObject: 50,
  /** Events in all: ten megabytes of memory in every server. */
  inAll: 10_000,
  /** How often what is there is looked through. */
  intervalMs: 60_000,
  /** Pause at least between two looks, so that the first one's deletions have been heard of. */
  pauseMs: 1_000,
  /** A time that lies so far ahead of ours was not told by a clock. */
  clockSkewMs: 300_000,
})

/** What an event keeper works with. */
export interface EventKeeperOptions {
  readonly reservedDomain: string
  readonly clock?: Clock
  readonly lifetimeMs?: number
  readonly perObject?: number
  readonly inAll?: number
}

/**
 * Removes events that are old, that are too many for one object, or too many in all: oldest first. It looks once a
 * minute, and at once when there are too many in all. One that is told again meanwhile stays.
 */
export class EventKeeper implements Runnable {
  readonly name = 'event-keeper'
  readonly #model: EventModel
  readonly #clock: Clock
  readonly #limits: Required<Pick<EventKeeperOptions, 'lifetimeMs' | 'perObject' | 'inAll'>>

  constructor({ reservedDomain, clock, ...limits }: EventKeeperOptions) {
    this.#model = eventModel(reservedDomain)
    this.#clock = clock ?? systemClock
    this.#limits = { ...eventKeeperDefaults, ...limits }
  }

  async run({ client, signal, log }: RunnableContext): Promise<void> {
    const informer = new Informer(this.#model, { client, log, clock: this.#clock })
    informer.start()
    try {
      const tooMany = () => informer.size > this.#limits.inAll
      await informer.waitUntil(() => informer.hasSynced, eventKeeperDefaults.intervalMs, signal)
      while (!signal.aborted) {
        const removed = await this.#remove(client, this.#surplus(informer.list()), signal)
        if (removed > 0) log.debug({ removed }, 'old events were removed')
        await sleep(this.#clock, eventKeeperDefaults.pauseMs, signal)
        await informer.waitUntil(tooMany, eventKeeperDefaults.intervalMs, signal)
      }
    } catch (error) {
      if (!signal.aborted) throw error
    } finally {
      await informer.stop()
    }
  }

  #surplus(events: readonly Event[]): Event[] {
    const nowMs = this.#clock.now()
    const { lifetimeMs, perObject, inAll } = this.#limits
    const surplus: Event[] = []
    const kept = new Map<string, number>()
    let all = 0
    const newestFirst = events
      .map(event => ({ event, toldMs: toldAt(event, nowMs) }))
      .sort((left, right) => right.toldMs - left.toldMs)
    for (const { event, toldMs } of newestFirst) {
      const { uid } = event.spec.regarding
      const ofObject = kept.get(uid) ?? 0
      if (nowMs - toldMs >= lifetimeMs || ofObject >= perObject || all >= inAll) surplus.push(event)
      else {
        kept.set(uid, ofObject + 1)
        all++
      }
    }
    return surplus
  }

  async #remove(client: Client, events: readonly Event[], signal: AbortSignal): Promise<number> {
    let removed = 0
    for (const { metadata } of events) {
      const { name, uid, version } = metadata
      try {
        await client.delete(this.#model, name, { preconditions: { uid, version }, signal })
        removed++
      } catch (error) {
        if (!isConflict(error) && !isNotFound(error)) throw error
      }
    }
    return removed
  }
}

/** When it was told last, ms since the epoch, by the reporter's clock; where that cannot be, when it was stored first. */
function toldAt({ spec, metadata }: Event, nowMs: number): number {
  const toldMs = Date.parse(spec.lastTimestamp)
  const believable = toldMs <= nowMs + eventKeeperDefaults.clockSkewMs
  return believable ? toldMs : Date.parse(metadata.creationTimestamp)
}
