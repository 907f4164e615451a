import { isApiError, isNotFound } from '../api/errors.ts'
import type { ApiObject } from '../api/object.ts'
import type { Client } from '../client/client.ts'
import { failureFields, isServerAway } from '../client/server-away.ts'
import { type Clock, systemClock } from '../clock.ts'
import { type Logger, silentLogger } from '../logger.ts'
import { WorkQueue } from '../workqueue/work-queue.ts'
import { type EventModel, type EventSpec, eventModel, eventName } from './event.ts'

/** How events are joined, and how many wait. */
export const eventRecorderDefaults = Object.freeze({
  /** As the program's default. */
  reservedDomain: 'setpoint.dev',
  /** Different events that wait, or were written lately. What exceeds them is dropped: somebody tells too much. */
  limit: 1_000,
  /** One event is written at most once in so long; repetitions meanwhile are counted. */
  intervalMs: 10_000,
  /** Writes in a row that may fail before an event is given up: about a minute. */
  attempts: 6,
  /** Ceilings of the first pause after a failure, and of any. */
  backoffBaseMs: 1_000,
  backoffMaxMs: 30_000,
  /** Characters of a message; the rest is cut. As in Kubernetes. */
  messageLength: 1_024,
})

/** What an event recorder works with, and in whose name. */
export interface EventRecorderOptions {
  readonly client: Client
  /** Who says it, for example the plugin's name. */
  readonly reporter: string
  /** Under which the server serves `events`; default `eventRecorderDefaults.reservedDomain`. */
  readonly reservedDomain?: string
  readonly log?: Logger
  readonly clock?: Clock
}

/** What is to be said of an object. */
export interface RecordedEvent {
  /** Default `Normal`. */
  readonly type?: 'Normal' | 'Warning'
  /** One word in CamelCase that stays the same, for example `CertificateExpires`; at most 128 characters. */
  readonly reason: string
  readonly message: string
}

interface Entry {
  readonly spec: Pick<EventSpec, 'regarding' | 'type' | 'reason' | 'reporter'>
  /** Times that are not written yet; 0 where it only keeps its place until it may be written again. */
  count: number
  message: string
  firstMs: number
  lastMs: number
  failures: number
}

/**
 * Writes events on the side.
 *
 * Guarantees
 * - `record` returns at once and never throws; no failure to write reaches the caller. Events are given up when the
 *   server refuses them or is away for too long, and dropped when too many different ones wait.
 * - What is said again and again is one object with a count, written at most once every ten seconds.
 *
 * Caveats
 * - A write without an answer is repeated, so that a count may be too high. An event that the server has removed begins
 *   again at 1.
 */
export class EventRecorder {
  readonly #client: Client
  readonly #model: EventModel
  readonly #reporter: string
  readonly #log: Logger
  readonly #clock: Clock
  readonly #queue: WorkQueue
  /** By the event's name. Each is in the queue, or handed out. */
  readonly #entries = new Map<string, Entry>()
  readonly #closing = new AbortController()
  readonly #waiting = new Set<() => void>()
  #dropped = 0
  #hurry = false

  constructor({ client, reporter, reservedDomain, log, clock }: EventRecorderOptions) {
    this.#client = client
    this.#reporter = reporter
    this.#model = eventModel(reservedDomain ?? eventRecorderDefaults.reservedDomain)
    this.#log = log ?? silentLogger
    this.#clock = clock ?? systemClock
    const { backoffBaseMs, backoffMaxMs } = eventRecorderDefaults
    this.#queue = new WorkQueue({ clock: this.#clock, backoffBaseMs, backoffMaxMs })
    void this.#work()
  }

  /** Times that were told and will never be stored. */
  get dropped(): number {
    return this.#dropped
  }

  record(object: ApiObject, { type = 'Normal', reason, message }: RecordedEvent): void {
    if (this.#closing.signal.aborted) return
    const name = eventName(object, type, reason, this.#reporter)
    const nowMs = this.#clock.now()
    const known = this.#entries.get(name)
    if (known === undefined && this.#entries.size >= eventRecorderDefaults.limit) {
      this.#dropped++
      return
    }
    const { apiVersion, kind, metadata } = object
    const entry: Entry = known ?? {
      spec: {
        regarding: { apiVersion, kind, name: metadata.name, uid: metadata.uid },
        type,
        reason,
        reporter: this.#reporter,
      },
      count: 0,
      message,
      firstMs: nowMs,
      lastMs: nowMs,
      failures: 0,
    }
    if (entry.count === 0) entry.firstMs = nowMs
    entry.count++
    entry.lastMs = nowMs
    entry.message = message.slice(0, eventRecorderDefaults.messageLength)
    if (known === undefined) this.#entries.set(name, entry)
    // What is known is in the queue, but perhaps for later than whoever waits for it wants.
    if (known === undefined || this.#hurry) this.#queue.add(name)
  }

  /** Writes what waits now, without pauses. Resolves when that is written or given up. */
  async flush(): Promise<void> {
    this.#hurry = true
    for (const name of this.#entries.keys()) this.#queue.add(name)
    while (this.#hasWaiting()) {
      await new Promise<void>(resolve => {
        this.#waiting.add(resolve)
      })
    }
    this.#hurry = false
  }

  /** Writes what waits, for at most `timeoutMs`, and ends. */
  async close(timeoutMs = 1_000): Promise<void> {
    const end = () => {
      this.#closing.abort()
      this.#queue.shutDown()
      for (const { count } of this.#entries.values()) this.#dropped += count
      this.#entries.clear()
      this.#told()
    }
    const cancel = this.#clock.setTimeout(end, timeoutMs)
    await this.flush()
    cancel()
    end()
  }

  #hasWaiting(): boolean {
    for (const { count } of this.#entries.values()) if (count > 0) return true
    return false
  }

  async #work(): Promise<void> {
    for (;;) {
      const item = await this.#queue.get()
      if (item === undefined) return
      const againMs = await this.#take(item.key)
      if (againMs !== undefined) this.#queue.addAfter(item.key, againMs)
      this.#queue.done(item.key)
      this.#told()
    }
  }

  /** Answers after how many ms the entry is to be looked at again; undefined where it has gone. */
  async #take(name: string): Promise<number | undefined> {
    const entry = this.#entries.get(name)
    if (entry === undefined || entry.count === 0) {
      this.#entries.delete(name)
      return undefined
    }
    const { count } = entry
    try {
      await this.#write(name, entry)
      entry.count -= count
      entry.failures = 0
      return eventRecorderDefaults.intervalMs
    } catch (error) {
      const passing = isServerAway(error) || isApiError(error, 'Conflict', 'TooManyRequests', 'InternalError')
      const { attempts, backoffBaseMs, backoffMaxMs } = eventRecorderDefaults
      if (passing && ++entry.failures < attempts && !this.#hurry) {
        return Math.min(backoffMaxMs, backoffBaseMs * 2 ** entry.failures)
      }
      if (this.#entries.delete(name)) this.#dropped += entry.count
      const fields = { ...failureFields(error), event: name }
      // A server that does not serve the kind is one that wants no events.
      if (isNotFound(error)) this.#log.debug(fields, 'events are not served; one is given up')
      else this.#log.warn(fields, 'an event cannot be written; it is given up')
      return undefined
    }
  }

  async #write(name: string, { spec, count, message, firstMs, lastMs }: Entry): Promise<void> {
    await this.#client.createOrUpdate(
      this.#model,
      name,
      draft => {
        draft.spec = {
          ...spec,
          message,
          count: (draft.spec.count ?? 0) + count,
          firstTimestamp: draft.spec.firstTimestamp ?? new Date(firstMs).toISOString(),
          lastTimestamp: new Date(lastMs).toISOString(),
        }
      },
      { signal: this.#closing.signal, clock: this.#clock },
    )
  }

  #told(): void {
    for (const resolve of [...this.#waiting]) resolve()
    this.#waiting.clear()
  }
}
