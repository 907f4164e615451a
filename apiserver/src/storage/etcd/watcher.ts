import { setTimeout as sleep } from 'node:timers/promises'
import { status } from '@grpc/grpc-js'
import type { Logger } from '@setpoint/controller-runtime'
import { type Revision, toRevision, zeroRevision } from '@setpoint/controller-runtime/api'
import type { IEvent, IKeyValue, IRangeRequest, IRangeResponse, IWatchResponse } from 'etcd3'
import { type Change, CompactedError, type WatchBatch, WrongStoreError } from '../contract.ts'
import { backoffMs } from './backoff.ts'
import type { Base } from './base.ts'
import { CallError } from './call-error.ts'
import { methods } from './client.ts'
import type { Connection, WatchStream } from './connection.ts'
import { etcdDefaults } from './defaults.ts'
import type { Endpoints } from './endpoints.ts'
import { Keyspace } from './keyspace.ts'
import type { Lineage } from './lineage.ts'
import { checkedHeader, toKeyValue } from './messages.ts'
import type { CallLimits } from './unary-call.ts'

export interface WatcherOptions {
  readonly endpoints: Endpoints
  readonly keyspace: Keyspace
  readonly base: Base
  readonly prefix: string
  readonly after: Revision
  /**
   * Ends the watch once everything up to this revision has been delivered. Requires the prefix `''`: a watch on a
   * quiet prefix cannot tell how far it has come, and every transaction puts the tip.
   */
  readonly until?: Revision
  /** Ends the watch without an error. */
  readonly signal: AbortSignal
  readonly log: Logger | undefined
  /** Shared by all calls and watches of one storage. */
  readonly lineage: Lineage
}

/**
 * Follows a prefix over any number of connections.
 *
 *     connecting --history checked, stream opened--> streaming --stream ends, member silent--> pausing --back-off--> connecting
 *         |                                             |
 *         +--compacted----------------------------------+------cancelled: compacted--> ends with CompactedError
 *         +--store was replaced or went back--> ends with WrongStoreError
 *
 * Invariant: `#position` is the revision up to which every change has been delivered, and no later one. It moves only
 * with delivered changes, and with the empty responses that mark a watcher as caught up. It never moves
 * with the header of a response that carries changes or says `created`: during a replay of old revisions, that header
 * already has the store's current revision.
 */
export class Watcher {
  readonly #options: WatcherOptions
  readonly #tail: PartialRevision
  #position: Revision
  /** Only a watch of the whole log is delivered the tip. */
  readonly #followsTip: boolean
  #tip: IKeyValue | undefined
  #failures = 0

  constructor(options: WatcherOptions) {
    this.#options = options
    this.#position = options.after
    this.#tail = new PartialRevision(options.keyspace, options.base, Keyspace.coversOwn(options.prefix))
    this.#followsTip = Keyspace.coversOwn(options.prefix) && options.until === undefined
  }

  /** @throws CompactedError, WrongStoreError */
  async *batches(): AsyncGenerator<WatchBatch, void, undefined> {
    const { endpoints, lineage, signal, log } = this.#options
    while (!signal.aborted) {
      lineage.check()
      let connection: Connection | undefined
      try {
        connection = endpoints.dial()
        yield* this.#stream(connection)
        return
      } catch (error) {
        if (signal.aborted) return
        if (error instanceof CompactedError || error instanceof WrongStoreError) throw error
        const failure = CallError.from(error, connection?.endpoint ?? '')
        if (failure.lost) endpoints.failed(failure.endpoint, failure)
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

  /** Watches over one connection until it fails or reaches `until`. */
  async *#stream(connection: Connection): AsyncGenerator<WatchBatch, void, undefined> {
    const { keyspace, base, prefix, until, signal } = this.#options
    if (!base.isKnown || this.#followsTip) await this.#checkBase(connection)
    const start = await this.#checkHistory(connection, this.#position)
    const end = await this.#end(connection)
    if (this.#position >= end) return
    this.#tail.reset()
    const { key, rangeEnd } = keyspace.range(prefix)
    const stream = await connection.watch(
      {
        key,
        range_end: rangeEnd,
        start_revision: base.rawInHistory(this.#position) + 1,
        prev_kv: until !== undefined,
        progress_notify: true,
        fragment: true,
      },
      probeLimits(signal),
    )
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
        if (isReplay(response.events, base.raw(start))) await this.#checkHistory(connection, this.#position)
        this.#position = batch.revision
        this.#options.lineage.saw(batch.revision, zeroRevision)
        this.#noteTip()
        yield batch
        if (batch.revision >= end) return
        silence.reading = true
      }
      throw new CallError(status.UNAVAILABLE, 'the watch stream ended', connection.endpoint)
    } catch (error) {
      throw silence.failure ?? error
    } finally {
      silence.stop()
      signal.removeEventListener('abort', cancel)
      stream.cancel()
    }
  }

  /**
   * Learns the base, or notices that a restore has changed it before the watch began. A later change is delivered.
   * @throws WrongStoreError, CallError
   */
  async #checkBase(connection: Connection): Promise<void> {
    const { base, signal } = this.#options
    await base.read(request => connection.call(methods.range, request, probeLimits(signal)))
  }

  /** Returns the revision to stop at: nothing comes after the last one written under our prefix. */
  async #end(connection: Connection): Promise<number> {
    const { keyspace, base, until, signal } = this.#options
    if (until === undefined) return Number.POSITIVE_INFINITY
    const { kvs } = await connection.call(methods.range, { key: keyspace.tip }, probeLimits(signal))
    // Without a tip, as in a full etcd, there is a change at every revision, unless other programs write to this etcd.
    const [tip] = kvs
    return tip === undefined ? until : Math.min(until, base.revision(tip.mod_revision))
  }

  #receive(response: IWatchResponse, connection: Connection): WatchBatch | undefined {
    if (response.canceled) throw this.#cancelled(response, connection)
    if (response.created) {
      const { log, prefix } = this.#options
      if (this.#failures > 0)
        log?.info(
          { prefix, endpoint: connection.endpoint, after: this.#position },
          'the watch on etcd has resumed',
        )
      this.#failures = 0
      return undefined
    }
    // Responses to progress requests belong to no watcher, and overtake changes on older servers.
    if (response.watch_id === '-1') return undefined
    const { base, keyspace } = this.#options
    const { tip } = keyspace
    const lastTip = response.events.findLast(({ kv }) => kv.key.equals(tip))
    if (lastTip !== undefined) this.#tip = lastTip.type === 'Delete' ? undefined : lastTip.kv
    const last = response.events.at(-1)
    if (last === undefined) {
      const revision = base.revision(checkedHeader(response.header).revision)
      return revision > this.#position ? { changes: [], revision } : undefined
    }
    const revision = base.revision(last.kv.mod_revision)
    const changes = this.#tail.join(response.events, revision, response.fragment)
    // More of the last revision of a fragment may follow.
    const whole = response.fragment ? toRevision(revision - 1) : revision
    return whole > this.#position ? { changes, revision: whole } : undefined
  }

  #cancelled(response: IWatchResponse, connection: Connection): Error {
    const compacted = this.#options.base.revision(response.compact_revision)
    if (compacted > 0) {
      return new CompactedError(
        `the changes after revision ${this.#position} are compacted up to ${compacted}`,
      )
    }
    const reason = response.cancel_reason || 'no reason given'
    return new CallError(status.UNAVAILABLE, `etcd cancelled the watch: ${reason}`, connection.endpoint)
  }

  /**
   * Checks that the store still has all changes after `position`, and is the one that was followed so far. Returns its
   * current revision.
   *
   * etcd does not report three things itself. A watch from a future revision waits silently until the store gets
   * there, with other changes. A restored store continues another history. A watch from exactly the compacted revision
   * is accepted, although a deletion there is forgotten. A linearizable read at `position` fails if that revision is
   * compacted or not reached, and a lagging member does not mislead it. If a restored store has already grown past
   * `position`, its tip at `position` is that of another transaction.
   */
  async #checkHistory(connection: Connection, position: Revision): Promise<Revision> {
    const { keyspace, base, lineage } = this.#options
    const revision = base.rawInHistory(position)
    let response: IRangeResponse
    try {
      response = await this.#ask(connection, { key: keyspace.tip, revision })
    } catch (error) {
      if (!(error instanceof CallError) || error.code !== status.OUT_OF_RANGE) throw error
      if (error.message.includes('future')) {
        const unreached = `it has not reached revision ${position}`
        if (position <= lineage.seen) throw lineage.isReplaced(unreached)
        throw new CompactedError(`the changes after revision ${position} are unknown: ${unreached}`)
      }
      // The rejection has no revision.
      await this.#ask(connection, { key: keyspace.tip })
      throw new CompactedError(`the changes after revision ${position} are compacted`)
    }
    if (this.#followsTip) {
      const known = lineage.tip?.position === position ? lineage.tip.pair : undefined
      const [tip] = response.kvs
      // The tip of a fragment may belong to a revision after the position.
      if (known && base.revision(known.mod_revision) <= position && !tip?.value.equals(known.value)) {
        throw lineage.isReplaced(`it has other changes up to revision ${position}`)
      }
      this.#tip ??= tip
      this.#noteTip()
    }
    return base.revision(checkedHeader(response.header).revision)
  }

  #noteTip(): void {
    if (this.#followsTip) this.#options.lineage.tip = { position: this.#position, pair: this.#tip }
  }

  /** Makes a linearizable read. @throws CallError, WrongStoreError */
  async #ask(connection: Connection, request: IRangeRequest): Promise<IRangeResponse> {
    const { base, lineage, signal } = this.#options
    // Taken before the request: a slow response may come after others that were sent later.
    const before = lineage.seen
    const response = await connection.call(methods.range, request, probeLimits(signal))
    lineage.saw(base.revision(checkedHeader(response.header).revision), before)
    return response
  }
}

/** Short: all readers wait for the watch, and another member may respond. */
function probeLimits(signal: AbortSignal): CallLimits {
  const { deadlineMs, watchProbeTimeoutMs: patienceMs } = etcdDefaults
  return { until: performance.now() + deadlineMs, patienceMs, signal }
}

/** Returns true if etcd read these events from its history. It sends live events one revision at a time. */
function isReplay(events: readonly IEvent[], start: number): boolean {
  const first = events[0]?.kv.mod_revision
  return first !== undefined && (Number(first) <= start || first !== events.at(-1)?.kv.mod_revision)
}

/** Converts etcd's events, and holds back the last revision of a fragment until it is complete. */
class PartialRevision {
  readonly #keyspace: Keyspace
  readonly #base: Base
  readonly #skipOwn: boolean
  #held: Change[] = []

  constructor(keyspace: Keyspace, base: Base, skipOwn: boolean) {
    this.#keyspace = keyspace
    this.#base = base
    this.#skipOwn = skipOwn
  }

  /** Drops what the previous connection left: the next one sends the whole revision again. */
  reset(): void {
    this.#held = []
  }

  /**
   * Returns the changes that these events complete. `last` is the revision of the last event.
   * @throws WrongStoreError if a restore has changed the base
   */
  join(events: readonly IEvent[], last: Revision, fragment: boolean): Change[] {
    const changes = this.#held
    this.#held = []
    for (const event of events) {
      if (this.#skipOwn && this.#isOwn(event.kv.key)) continue
      if (this.#skipOwn && this.#base.owns(event.kv.key)) {
        this.#base.see(event.kv)
        continue
      }
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

  #change({ type, kv, prev_kv }: Omit<IEvent, 'prev_kv'> & { prev_kv: IEvent['prev_kv'] | null }): Change {
    const { key, value, modRevision, createRevision } = toKeyValue(
      this.#base,
      this.#keyspace.decode(kv.key),
      kv,
    )
    const previous = prev_kv?.value
    return type === 'Delete'
      ? { key, revision: modRevision, value: undefined, previous, createRevision }
      : { key, revision: modRevision, value, previous, createRevision }
  }
}

/**
 * Notices a stalled member sooner than TCP and keepalive do: when nothing was received for a while, it asks the member
 * for something that the member can respond to by itself.
 */
class SilenceDetector {
  /** Set while the consumer waits for a response. While it is busy, silence means nothing. */
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
    connection.call(methods.range, { key: keyspace.tip, serializable: true }, probeLimits(signal)).then(
      () => {
        this.#asking = false
      },
      (error: unknown) => {
        this.failure = CallError.from(error, connection.endpoint)
        stream.cancel()
      },
    )
  }
}
