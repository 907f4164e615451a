import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from '@setpoint/controller-runtime'
import { type Revision, toRevision } from '@setpoint/controller-runtime/api'
import { type Change, CompactedError, type WatchBatch } from '../contract.ts'
import { backoffMs } from './backoff.ts'
import { CallError, grpcStatus } from './call-error.ts'
import type { Connection, WatchStream } from './connection.ts'
import { etcdDefaults } from './defaults.ts'
import type { Endpoints } from './endpoints.ts'
import { Keyspace } from './keyspace.ts'
import type { EtcdEvent, Header, RangeRequest, WatchResponse } from './messages.ts'
import { rpc } from './rpc.ts'

export interface WatcherOptions {
  readonly endpoints: Endpoints
  readonly keyspace: Keyspace
  readonly prefix: string
  readonly after: Revision
  /**
   * Ends the watch once everything up to here has been delivered. Only with the prefix `''`: a prefix in which nothing
   * happens gives no sign of how far its watch has come. The tip does, as every transaction of ours puts it.
   */
  readonly until?: Revision | undefined
  /** Ends the watch without an error. */
  readonly signal: AbortSignal
  readonly log: Logger | undefined
  /** What the watches of one storage know of the store: a later one notices that it was replaced between them. */
  readonly lineage: Lineage
}

/**
 * By which a store is known to be the one that was followed before. Watches without an end keep it up to date, of which
 * a storage has one. Those with an end only compare: if they noted another store, the one that follows would not notice.
 */
export interface Lineage {
  mark: StoreMark | undefined
}

/**
 * Follows a prefix over any number of connections.
 *
 *     connecting --head read, stream opened--> streaming --stream ends, member silent--> pausing --back-off--> connecting
 *         |                                        |
 *         +--store is another or went back--+------+--cancelled: compacted--> ends with CompactedError
 *
 * The invariant is `#position`: every change under the prefix up to it has been handed out, none above it. So it
 * moves only with what is handed out, and with the empty responses by which etcd says that a watcher has caught up.
 * It never moves with the header of a response that carries changes, nor of the one that says `created`: while old
 * revisions are replayed, these already carry the store's present revision.
 */
export class Watcher {
  readonly #options: WatcherOptions
  readonly #tail: PartialRevision
  #position: Revision
  #failures = 0

  constructor(options: WatcherOptions) {
    this.#options = options
    this.#position = options.after
    this.#tail = new PartialRevision(options.keyspace, Keyspace.coversOwn(options.prefix))
  }

  /** @throws CompactedError */
  async *batches(): AsyncGenerator<WatchBatch, void, undefined> {
    const { endpoints, signal, log } = this.#options
    while (!signal.aborted) {
      let connection: Connection | undefined
      try {
        connection = endpoints.dial()
        yield* this.#stream(connection)
        return
      } catch (error) {
        if (signal.aborted) return
        if (error instanceof CompactedError) throw error
        const failure = toCallError(error, connection)
        connection?.renewToken()
        endpoints.failed(failure.endpoint, failure)
        log?.warn(
          { prefix: this.#options.prefix, after: this.#position, reason: failure.message },
          'the watch on etcd broke, resuming',
        )
      } finally {
        if (connection) endpoints.hangUp(connection)
      }
      await sleep(backoffMs(this.#failures++), undefined, { signal }).catch(() => {})
    }
  }

  /** One connection's worth. Ends by an error, or once it has come to `until`. */
  async *#stream(connection: Connection): AsyncGenerator<WatchBatch, void, undefined> {
    const { keyspace, prefix, signal } = this.#options
    const start = await this.#checkHistory(connection, this.#position)
    const end = await this.#end(connection)
    if (this.#position >= end) return
    this.#tail.reset()
    const stream = await connection.watch({
      ...keyspace.range(prefix),
      startRevision: toRevision(this.#position + 1),
      previousPair: true,
      progressNotify: true,
      fragment: true,
    })
    const cancel = () => stream.cancel()
    signal.addEventListener('abort', cancel, { once: true })
    const silence = new SilenceDetector(connection, stream, keyspace, signal)
    try {
      if (signal.aborted) stream.cancel()
      for await (const response of stream) {
        silence.heard()
        const batch = this.#receive(response, connection)
        if (!batch) continue
        silence.reading = false
        if (isReplay(response.events, start)) await this.#checkHistory(connection, this.#position)
        this.#position = batch.revision
        yield batch
        if (batch.revision >= end) return
        silence.reading = true
      }
      throw (
        silence.failure ??
        new CallError(grpcStatus.unavailable, 'the watch stream ended', connection.endpoint)
      )
    } catch (error) {
      throw silence.failure ?? error
    } finally {
      silence.stop()
      signal.removeEventListener('abort', cancel)
      stream.cancel()
    }
  }

  /** The revision that is the last to wait for: beyond the last one that was written under our prefix none comes. */
  async #end(connection: Connection): Promise<number> {
    const { keyspace, until, signal } = this.#options
    if (until === undefined) return Number.POSITIVE_INFINITY
    const { pairs } = await connection.call(rpc.range, { key: keyspace.tip }, signal)
    return Math.min(until, pairs[0]?.modRevision ?? 0)
  }

  #receive(response: WatchResponse, connection: Connection): WatchBatch | undefined {
    if (response.canceled) throw this.#cancelled(response, connection)
    if (response.created) {
      this.#failures = 0
      return undefined
    }
    // Answers to progress requests concern no watcher in particular, and on older servers overtake changes.
    if (response.watchId === -1) return undefined
    const last = response.events.at(-1)
    if (last === undefined) {
      const { revision } = response.header
      return revision > this.#position ? { changes: [], revision } : undefined
    }
    const revision = last.pair.modRevision
    const changes = this.#tail.join(response.events, revision, response.fragment)
    // Only revisions that are whole: of the last one of a fragment, more may follow.
    const whole = response.fragment ? toRevision(revision - 1) : revision
    return whole > this.#position ? { changes, revision: whole } : undefined
  }

  #cancelled(response: WatchResponse, connection: Connection): Error {
    const compacted = response.compactRevision
    if (compacted > 0) {
      return new CompactedError(
        `the changes after revision ${this.#position} are compacted up to ${compacted}`,
        compacted,
      )
    }
    const reason = response.cancelReason || 'no reason given'
    return new CallError(grpcStatus.unavailable, `etcd cancelled the watch: ${reason}`, connection.endpoint)
  }

  /**
   * Makes sure that the store still has all changes after `position`, and is the one that was followed so far. Answers
   * its present revision.
   *
   * Three things that etcd does not say of itself: a watch from a future revision waits in silence until the store
   * gets there, with other changes; a restored store continues another history; and a watch that starts exactly at
   * the compacted revision is accepted, although a deletion there is forgotten. A linearizable read at `position`
   * tells: it fails when that is compacted or not reached, and a lagging member does not mislead it.
   */
  async #checkHistory(connection: Connection, position: Revision): Promise<Revision> {
    const { keyspace } = this.#options
    let header: Header
    try {
      header = await this.#ask(connection, { key: keyspace.tip, revision: position })
    } catch (error) {
      if (!(error instanceof CallError) || error.code !== grpcStatus.outOfRange) throw error
      if (error.message.includes('future'))
        throw new CompactedError(
          `this store has not reached revision ${position}, up to which it was followed`,
          undefined,
          true,
        )
      // The refusal does not say whose it is. One of a store that was replaced must not pass for one of this store.
      await this.#ask(connection, { key: keyspace.tip })
      throw new CompactedError(`the changes after revision ${position} are compacted`)
    }
    return header.revision
  }

  /** A linearizable read, of whose answer only the header matters. @throws CompactedError when the store is another. */
  async #ask(connection: Connection, request: RangeRequest): Promise<Header> {
    const { lineage, signal, until } = this.#options
    // As it was before the question: an answer that was long under way may come from an earlier term than one since.
    const known = lineage.mark
    // A member that has no leader, or hangs, is left for the next: the watch is what everybody waits for.
    const { header } = await connection.call(rpc.range, request, signal, etcdDefaults.watchProbeTimeoutMs)
    const mark = { cluster: header.clusterId, term: header.raftTerm }
    if (until === undefined) lineage.mark = mark
    if (known && (mark.cluster !== known.cluster || mark.term < known.term)) {
      throw new CompactedError(
        `this is another store than the one followed up to revision ${this.#position}`,
        undefined,
        true,
      )
    }
    return header
  }
}

export interface StoreMark {
  readonly cluster: bigint
  readonly term: number
}

/** Whether etcd read these events from its history, rather than passing them on as they happened: then one by one. */
function isReplay(events: readonly EtcdEvent[], start: Revision): boolean {
  const first = events[0]?.pair.modRevision
  return first !== undefined && (first <= start || first !== events.at(-1)?.pair.modRevision)
}

/** Holds back the changes of a revision of which more may follow, and turns etcd's events into changes. */
class PartialRevision {
  readonly #keyspace: Keyspace
  readonly #skipOwn: boolean
  #held: Change[] = []

  constructor(keyspace: Keyspace, skipOwn: boolean) {
    this.#keyspace = keyspace
    this.#skipOwn = skipOwn
  }

  /** What was held came over a connection that is gone; the next one sends the whole revision again. */
  reset(): void {
    this.#held = []
  }

  /** The changes that are complete with these events, of which the last has the revision `last`. */
  join(events: readonly EtcdEvent[], last: Revision, fragment: boolean): Change[] {
    const changes = this.#held
    this.#held = []
    for (const event of events) {
      if (this.#skipOwn && this.#isOwn(event.pair.key)) continue
      changes.push(this.#change(event))
    }
    if (!fragment) return changes
    const whole = changes.findIndex(change => change.revision === last)
    if (whole !== -1) this.#held = changes.splice(whole)
    return changes
  }

  #isOwn(key: Buffer): boolean {
    return key.equals(this.#keyspace.tip) || key.equals(this.#keyspace.fence)
  }

  #change({ type, pair, previous }: EtcdEvent): Change {
    const { key, value, createRevision, modRevision } = pair
    const deleted = type === 'delete'
    return {
      key: this.#keyspace.decode(key),
      revision: modRevision,
      value: deleted ? undefined : value,
      previous: previous?.value,
      createRevision,
    }
  }
}

/**
 * Notices a member that hangs, which TCP and gRPC's keepalive notice late: when nothing was heard for a while although
 * somebody was listening, the member is asked for something that it can answer by itself.
 */
class SilenceDetector {
  /** Whether the consumer is waiting for a response. While it is busy, silence means nothing. */
  reading = true
  failure: CallError | undefined
  #quiet = false
  #asking = false
  readonly #timer: NodeJS.Timeout

  constructor(connection: Connection, stream: WatchStream, keyspace: Keyspace, signal: AbortSignal) {
    this.#timer = setInterval(() => {
      if (this.reading && this.#quiet && !this.#asking) this.#ask(connection, stream, keyspace, signal)
      this.#quiet = true
    }, etcdDefaults.watchProbeMs)
    this.#timer.unref()
  }

  heard(): void {
    this.#quiet = false
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  #ask(connection: Connection, stream: WatchStream, keyspace: Keyspace, signal: AbortSignal): void {
    this.#asking = true
    connection
      .call(rpc.range, { key: keyspace.tip, serializable: true }, signal, etcdDefaults.watchProbeTimeoutMs)
      .then(
        () => {
          this.#asking = false
        },
        (error: unknown) => {
          this.failure = toCallError(error, connection)
          stream.cancel()
        },
      )
  }
}

/** What else fails is an answer that cannot be read. */
function toCallError(error: unknown, connection: Connection | undefined): CallError {
  if (error instanceof CallError) return error
  const reason = error instanceof Error ? error.message : String(error)
  return new CallError(grpcStatus.unavailable, reason, connection?.endpoint ?? '', { cause: error })
}
