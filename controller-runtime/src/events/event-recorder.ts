import { isApiError, isNotFound } from '../api/errors.ts'
import { isRecord } from '../api/is-record.ts'
import { type KeysOf, unknownKeys } from '../api/known-keys.ts'
import type { ApiObject } from '../api/object.ts'
import type { Client } from '../client/client.ts'
import { retryWhile } from '../client/conflict-retry.ts'
import { failureFields, isServerAway } from '../client/server-away.ts'
import { type Clock, systemClock } from '../clock.ts'
import { Event } from '../kinds/event.ts'
import { type Logger, silentLogger } from '../logger.ts'
import { WorkQueue } from '../workqueue/work-queue.ts'
import { eventName } from './event-name.ts'

/** Limits and times of an event recorder. */
export const eventRecorderDefaults = Object.freeze({
  /** The namespace of events about cluster-scoped objects. As in Kubernetes. */
  namespace: 'default',
  /** Distinct events that are pending or were written recently; further ones are dropped. */
  limit: 1_000,
  /** An event is written at most once per interval, with the count of its repetitions. */
  intervalMs: 10_000,
  /** Consecutive failed writes before an event is dropped: about a minute. */
  attempts: 6,
  /** Upper bound of the first pause after a failure, and of every pause. */
  backoffBaseMs: 1_000,
  backoffMaxMs: 30_000,
  /** Longest message in characters; longer ones are truncated. As in Kubernetes. */
  messageLength: 1_024,
})

export interface EventRecorderOptions {
  readonly client: Client
  /** The reporter, for example the plugin's name. */
  readonly reporter: string
  readonly log?: Logger
  readonly clock?: Clock
}

/** An event to record about an object. */
export interface RecordedEvent {
  /** Default `Normal`. */
  readonly type?: 'Normal' | 'Warning'
  /** A stable word in CamelCase, for example `CertificateExpires`; at most 128 characters. */
  readonly reason: string
  readonly message: string
}

const eventKeys: KeysOf<RecordedEvent> = { type: true, reason: true, message: true }

interface Entry {
  readonly namespace: string
  /** The fields that are the same for all occurrences. */
  readonly fields: Pick<Event, 'involvedObject' | 'type' | 'reason' | 'source' | 'reportingComponent'>
  /** Occurrences not written yet; 0 while the entry only keeps its interval. */
  count: number
  message: string
  firstMs: number
  lastMs: number
  failures: number
}

/**
 * Writes events in the background.
 *
 * Guarantees
 * - `record` returns at once and never throws. It logs and drops an invalid event. Events are also dropped if the
 *   server refuses them or is away for too long, or if too many distinct ones are pending.
 * - Repetitions are one object with a count, written at most every ten seconds.
 *
 * Caveats
 * - A write without a response is repeated, so a count may be too high. It restarts at 1 once the server has deleted
 *   the event.
 */
export class EventRecorder {
  readonly #client: Client
  readonly #reporter: string
  readonly #log: Logger
  readonly #clock: Clock
  readonly #queue: WorkQueue
  /** By the event's name. Each is queued or being written. */
  readonly #entries = new Map<string, Entry>()
  readonly #closing = new AbortController()
  readonly #waiting = new Set<() => void>()
  #dropped = 0
  #hurry = false

  constructor({ client, reporter, log, clock }: EventRecorderOptions) {
    this.#client = client
    this.#reporter = reporter
    this.#log = log ?? silentLogger
    this.#clock = clock ?? systemClock
    const { backoffBaseMs, backoffMaxMs } = eventRecorderDefaults
    this.#queue = new WorkQueue({ clock: this.#clock, backoffBaseMs, backoffMaxMs })
    void this.#work()
  }

  /** Number of occurrences that were recorded but will never be stored. */
  get dropped(): number {
    return this.#dropped
  }

  record(object: ApiObject, event: RecordedEvent): void {
    if (this.#closing.signal.aborted) return
    const problem = problemOf(object, event)
    if (problem !== undefined) {
      this.#dropped++
      this.#log.warn({ problem }, 'invalid event, dropping it')
      return
    }
    const { type = 'Normal', reason, message } = event
    const name = eventName(object, type, reason, this.#reporter)
    const nowMs = this.#clock.now()
    const known = this.#entries.get(name)
    if (known === undefined && this.#entries.size >= eventRecorderDefaults.limit) {
      this.#dropped++
      return
    }
    const { apiVersion, kind, metadata } = object
    const { namespace, uid, resourceVersion } = metadata
    const entry: Entry = known ?? {
      namespace: namespace ?? eventRecorderDefaults.namespace,
      fields: {
        involvedObject: {
          kind,
          namespace,
          name: metadata.name,
          uid,
          apiVersion,
          resourceVersion,
        },
        reason,
        source: { component: this.#reporter },
        type,
        reportingComponent: this.#reporter,
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
    // A known event is queued, but a flush does not wait for its interval.
    if (known === undefined || this.#hurry) this.#queue.add(name)
  }

  /** Writes all pending events without pauses. Resolves when they are written or dropped. */
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

  /** Flushes for up to `timeoutMs`, then stops. */
  async close(timeoutMs = 1_000): Promise<void> {
    const end = () => {
      this.#closing.abort()
      this.#queue.shutDown()
      for (const { count } of this.#entries.values()) this.#dropped += count
      this.#entries.clear()
      this.#notifyWaiting()
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
      this.#notifyWaiting()
    }
  }

  /** Writes an entry. Returns the ms until it is due again, or undefined if it was removed. */
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
      // A server that does not serve the kind wants no events.
      if (isNotFound(error)) this.#log.debug(fields, 'events are not served, dropping one')
      else this.#log.warn(fields, 'failed to write event, dropping it')
      return undefined
    }
  }

  /** Creates an event, or counts further occurrences in it, as client-go's recorder. */
  async #write(name: string, { namespace, fields, count, message, firstMs, lastMs }: Entry): Promise<void> {
    const client = this.#client.inNamespace(namespace)
    const request = { signal: this.#closing.signal }
    const lastTimestamp = new Date(lastMs).toISOString()
    let known: Event | undefined
    const again = (error: unknown) =>
      isApiError(error, 'Conflict', 'AlreadyExists') || (known !== undefined && isNotFound(error))
    const write = async () => {
      known = await client.getIfExists(Event, name, request)
      if (known === undefined) {
        const firstTimestamp = new Date(firstMs).toISOString()
        const times = { firstTimestamp, lastTimestamp, count }
        const event = { metadata: { name }, spec: undefined, ...fields, message, ...times }
        await client.create(Event, event, request)
      } else {
        const event = { ...known, message, lastTimestamp, count: (known.count ?? 0) + count }
        await client.update(Event, event, request)
      }
    }
    await retryWhile(again, write, { ...request, clock: this.#clock })
  }

  #notifyWaiting(): void {
    for (const resolve of [...this.#waiting]) resolve()
    this.#waiting.clear()
  }
}

/** Returns what is wrong with the arguments of `record`, which JavaScript does not check. */
function problemOf(object: unknown, event: unknown): string | undefined {
  if (!isRecord(object) || !isRecord(object.metadata))
    return 'the first argument must be an object of the API'
  if (!isRecord(event)) return 'the second argument must be an event: { type, reason, message }'
  const unknown = unknownKeys(event, eventKeys, 'the event')
  if (unknown.length > 0) return unknown.join('; ')
  for (const field of ['reason', 'message'] as const) {
    if (typeof event[field] !== 'string') return `${field} must be a string`
  }
  return undefined
}
