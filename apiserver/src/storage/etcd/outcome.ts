import { setTimeout as sleep } from 'node:timers/promises'
import { status } from '@grpc/grpc-js'
import { laterRevision, type Revision, toRevision, zeroRevision } from '@setpoint/controller-runtime/api'
import { linkedSignal, unlessAborted } from '@setpoint/controller-runtime/internal'
import { OutcomeUnknownError } from '../contract.ts'
import { resendPauseMs } from './backoff.ts'
import type { Base } from './base.ts'
import { CallError } from './call-error.ts'
import { methods } from './client.ts'
import { etcdDefaults } from './defaults.ts'
import type { Endpoints } from './endpoints.ts'
import type { Keyspace } from './keyspace.ts'
import type { Lineage } from './lineage.ts'
import { checkedHeader } from './messages.ts'
import type { TransactionIds } from './transaction.ts'
import type { CallLimits } from './unary-call.ts'

/** A transaction that was sent and got no usable response. */
export interface LostTransaction {
  /** The value that it puts into the tip. No other transaction puts it. */
  readonly id: Buffer
  /** A revision of the store, read before the transaction was sent: it can only have happened above. */
  readonly sentAfter: Revision
  /** The revision of the fence that it compares. */
  readonly fence: Revision
}

/** The result of one look-up. It covers everything up to the revision of the fence that it put. */
interface Findings {
  readonly until: Revision
  /** The revisions of the lost transactions that happened, by their id in hex. */
  readonly happened: ReadonlyMap<string, Revision>
}

interface Replay {
  /** Contains the tip. */
  readonly range: { readonly key: Buffer; readonly range_end?: Buffer }
  readonly after: Revision
  readonly until: Revision
  /** In hex. */
  readonly ids: ReadonlySet<string>
}

interface Batch {
  readonly lost: LostTransaction[]
  readonly findings: Promise<Findings>
}

/**
 * Finds out whether lost transactions happened.
 *
 * A transaction without a response may have happened, or may still happen: a stalled member can hold it. Therefore
 * every transaction compares a key, the fence, and a look-up puts that key:
 *
 *     sent, comparing fence F --no response--> put the fence, at G --> read the changes of the tip up to G
 *                                                                        | the id is there: it happened, there
 *                                                                        + it is not: it did not, and never will
 *
 * This rests on two facts and no clock. Mod revisions never return, so from G on etcd refuses everything that compares
 * F. The tip holds the id of a transaction at exactly the revision where it happened. The put of the fence also puts
 * the tip, which marks the end of the changes to read.
 *
 * All servers share one fence. A look-up refuses what the other servers have under way, and they send it again. So at
 * most one look-up of a storage is under way, and the transactions that are lost meanwhile share the next.
 * If the history is compacted meanwhile, or etcd is unreachable for too long, the outcome stays unknown.
 */
export class Outcomes {
  readonly #endpoints: Endpoints
  readonly #lineage: Lineage
  readonly #keyspace: Keyspace
  readonly #base: Base
  readonly #ids: TransactionIds
  readonly #budgetMs: number
  readonly #closing: AbortSignal
  /** The latest known revision of the fence. */
  #fence: Revision = zeroRevision
  /** Accepts transactions until its look-up puts the fence, which must come after they were sent. */
  #open: Batch | undefined
  #running: Promise<unknown> = Promise.resolve()

  constructor(options: {
    endpoints: Endpoints
    lineage: Lineage
    keyspace: Keyspace
    base: Base
    ids: TransactionIds
    /** How long a look-up tries while etcd does not respond, in milliseconds. */
    budgetMs: number
    closing: AbortSignal
  }) {
    this.#endpoints = options.endpoints
    this.#lineage = options.lineage
    this.#keyspace = options.keyspace
    this.#base = options.base
    this.#ids = options.ids
    this.#budgetMs = options.budgetMs
    this.#closing = options.closing
  }

  /** The revision that transactions must compare. */
  get fence(): Revision {
    return this.#fence
  }

  /** Takes over the fence that a refused transaction has read. */
  heard(fence: Revision): void {
    this.#fence = fence
  }

  /**
   * Returns the revision of a transaction that happened, or undefined if it did not and never will.
   * @throws CallError, or the reason of the signal, if that cannot be found out.
   */
  async of(lost: LostTransaction, signal: AbortSignal): Promise<Revision | undefined> {
    for (;;) {
      const { until, happened } = await unlessAborted(this.#join(lost), signal)
      const revision = happened.get(lost.id.toString('hex'))
      if (revision !== undefined) return revision
      if (until > lost.fence) return undefined
      // It compares a newer fence: two attempts to put the fence have overtaken each other.
    }
  }

  /**
   * Returns the revision of a transaction to which etcd responded that it is full, or undefined if it did not happen.
   * Such a transaction cannot happen later, because it has a response. So no fence is needed, which a full etcd would
   * refuse.
   * @throws CallError, or the reason of the signal, if that cannot be found out.
   */
  async ofRefused(
    { id, sentAfter }: LostTransaction,
    limits: CallLimits & { readonly signal: AbortSignal },
  ): Promise<Revision | undefined> {
    const { tip: key } = this.#keyspace
    const { kvs, header } = await this.#endpoints.ask(methods.range, { key }, limits)
    const [tip] = kvs
    const until = this.#base.revision(tip?.mod_revision ?? checkedHeader(header).revision)
    if (until <= sentAfter) return undefined
    if (tip?.value.equals(id)) return until
    // If deletions have removed the tip, only the changes of all keys tell where it ends.
    const { key: first, rangeEnd } = this.#keyspace.range('')
    const range = tip === undefined ? { key: first, range_end: rangeEnd } : { key }
    const name = id.toString('hex')
    const replay = { range, after: sentAfter, until, ids: new Set([name]) }
    return (await this.#replay(replay, limits.signal)).get(name)
  }

  #join(lost: LostTransaction): Promise<Findings> {
    if (this.#open === undefined) {
      const batch: LostTransaction[] = []
      const findings = this.#running.then(() => this.#find(batch))
      this.#open = { lost: batch, findings }
      this.#running = findings.catch(() => {})
    }
    this.#open.lost.push(lost)
    return this.#open.findings
  }

  async #find(lost: readonly LostTransaction[]): Promise<Findings> {
    const deadline = performance.now() + this.#budgetMs
    const { signal, dispose } = linkedSignal(AbortSignal.timeout(this.#budgetMs), this.#closing)
    try {
      const until = await this.#whileLost(signal, () => this.#raise(deadline, signal)).finally(() => {
        this.#open = undefined
      })
      const after = toRevision(Math.min(...lost.map(({ sentAfter }) => sentAfter)))
      const ids = new Set(lost.map(({ id }) => id.toString('hex')))
      const replay = { range: { key: this.#keyspace.tip }, after, until, ids }
      const happened = await this.#whileLost(signal, () => this.#replay(replay, signal))
      return { until, happened }
    } finally {
      dispose()
    }
  }

  /** Repeats a step while etcd does not respond. It ends at other errors: compacted, forbidden. */
  async #whileLost<T>(signal: AbortSignal, step: () => Promise<T>): Promise<T> {
    for (let attempts = 0; ; attempts++) {
      try {
        return await step()
      } catch (error) {
        const mayReturn = error instanceof CallError && (error.lost || error.leaderless)
        if (!mayReturn || signal.aborted) throw error
      }
      await sleep(resendPauseMs(attempts), undefined, { signal })
    }
  }

  /** Puts the fence. Putting it more than once does no harm. */
  async #raise(until: number, signal: AbortSignal): Promise<Revision> {
    const value = this.#ids.next()
    const success = [this.#keyspace.fence, this.#keyspace.tip].map(key => ({ request_put: { key, value } }))
    const limits = { until, signal }
    const before = this.#lineage.seen
    const response = await this.#endpoints.ask(methods.txn, { success }, limits, etcdDefaults.fenceHedgeMs)
    const revision = this.#base.revision(checkedHeader(response.header).revision)
    this.#lineage.saw(revision, before)
    this.#fence = laterRevision(this.#fence, revision)
    return revision
  }

  /**
   * Reads the changes of the tip between two revisions. The range has a change at the second, which ends the replay.
   */
  async #replay({ range, after, until, ids }: Replay, signal: AbortSignal): Promise<Map<string, Revision>> {
    const connection = this.#endpoints.dial()
    const found = new Map<string, Revision>()
    const patienceMs = etcdDefaults.watchProbeTimeoutMs
    const close = () => connection.close()
    let silence: NodeJS.Timeout | undefined
    signal.addEventListener('abort', close, { once: true })
    try {
      const stream = await connection.watch(
        { ...range, start_revision: this.#base.raw(after) + 1 },
        { until: performance.now() + etcdDefaults.deadlineMs, signal },
      )
      silence = setTimeout(close, patienceMs)
      for await (const { canceled, compact_revision, cancel_reason, events } of stream) {
        clearTimeout(silence)
        silence = setTimeout(close, patienceMs)
        if (canceled) {
          const isCompacted = compact_revision !== '0'
          const code = isCompacted ? status.OUT_OF_RANGE : status.UNAVAILABLE
          throw new CallError(code, isCompacted ? 'compacted' : cancel_reason, connection.endpoint)
        }
        for (const { kv } of events) {
          const revision = this.#base.revision(kv.mod_revision)
          const id = kv.key.equals(this.#keyspace.tip) ? kv.value.toString('hex') : ''
          if (ids.has(id)) found.set(id, revision)
          if (revision >= until) return found
        }
      }
      throw new CallError(status.UNAVAILABLE, 'the watch stream ended', connection.endpoint)
    } catch (error) {
      const { endpoint } = connection
      let failure = CallError.from(error, endpoint)
      // Closing the connection cancels the stream: the member was silent.
      if (failure.code === status.CANCELLED && !signal.aborted)
        failure = new CallError(status.UNAVAILABLE, 'the member does not respond', endpoint)
      if (failure.lost) this.#endpoints.failed(endpoint, failure)
      throw failure
    } finally {
      clearTimeout(silence)
      signal.removeEventListener('abort', close)
      this.#endpoints.hangUp(connection)
    }
  }
}

export function unknown(failure: CallError): OutcomeUnknownError {
  return new OutcomeUnknownError(
    `no response from ${failure.place} to a transaction, which may have happened: ${failure.message}`,
    { cause: failure },
  )
}
