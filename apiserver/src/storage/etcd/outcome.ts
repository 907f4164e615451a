import { setTimeout as sleep } from 'node:timers/promises'
import { laterRevision, type Revision, toRevision, zeroRevision } from '@setpoint/controller-runtime/api'
import { OutcomeUnknownError } from '../contract.ts'
import { CallError, grpcStatus } from './call-error.ts'
import { etcdDefaults } from './defaults.ts'
import type { Endpoints } from './endpoints.ts'
import type { Keyspace } from './keyspace.ts'
import { rpc } from './rpc.ts'
import type { TransactionIds } from './transaction.ts'

/** A transaction that was sent, and whose answer did not come. */
export interface LostTransaction {
  /** What it puts as the tip's value: nobody else ever puts this. */
  readonly id: Buffer
  /** A revision of the store that was read before the transaction was sent. If it happened, then above this. */
  readonly sentAfter: Revision
  /** The revision of the fence that it compares. */
  readonly fence: Revision
}

/** What a batch of lost transactions has come to: all that happened up to `until`, and the fence then. */
interface Findings {
  readonly until: Revision
  /** Revisions by the id of the transaction that made them, in hex; of lost ones only. */
  readonly happened: ReadonlyMap<string, Revision>
}

interface Batch {
  readonly lost: LostTransaction[]
  readonly findings: Promise<Findings>
}

/**
 * Finds out what became of transactions whose answers were lost, with certainty wherever etcd answers at all.
 *
 * A transaction without an answer may have happened, or not, or may yet happen: it may be on its way through a member
 * that hangs. Hence a fence, a key that every transaction compares and that is put anew here:
 *
 *     sent, comparing fence F ──no answer──▶ fence put at G ──▶ changes of the tip read, from before it was sent to G
 *                                                                    │ its id is among them: it happened, there
 *                                                                    └ it is not: it did not, and never will
 *
 * Two facts are used, and nothing about time: mod revisions never return, so from G on whatever compares F is refused;
 * and the tip holds a transaction's id at the revision at which it happened, and nowhere else. The put of the fence
 * puts the tip too, by which one knows that the changes have been read up to there.
 *
 * All servers share one fence. What others have under way then is refused for the fence's sake, and sent again by them.
 * Where the history is compacted meanwhile, or etcd away for too long, the answer is that nobody knows.
 */
export class Outcomes {
  readonly #endpoints: Endpoints
  readonly #keyspace: Keyspace
  readonly #ids: TransactionIds
  readonly #budgetMs: number
  readonly #closing: AbortSignal
  /** Where the fence was when it was last heard of. */
  #fence: Revision = zeroRevision
  /** Takes more as long as the fence is not put yet: the put then comes after they were sent. */
  #open: Batch | undefined

  constructor(options: {
    endpoints: Endpoints
    keyspace: Keyspace
    ids: TransactionIds
    /** Milliseconds to try while etcd does not answer. */
    budgetMs: number
    closing: AbortSignal
  }) {
    this.#endpoints = options.endpoints
    this.#keyspace = options.keyspace
    this.#ids = options.ids
    this.#budgetMs = options.budgetMs
    this.#closing = options.closing
  }

  /** What transactions are to compare. */
  get fence(): Revision {
    return this.#fence
  }

  /** A refused transaction has brought word of where the fence is. */
  heard(fence: Revision): void {
    this.#fence = fence
  }

  /**
   * The revision at which a transaction has happened, or undefined: it has not, and can no longer.
   * @throws CallError, or what the signal was aborted with, when that is not to be found out.
   */
  async of(lost: LostTransaction, signal: AbortSignal): Promise<Revision | undefined> {
    for (;;) {
      const { until, happened } = await withSignal(this.#join(lost), signal)
      const revision = happened.get(lost.id.toString('hex'))
      if (revision !== undefined) return revision
      if (until <= lost.sentAfter)
        throw new CallError(grpcStatus.unavailable, 'this store is behind the one that it was sent to', '')
      if (until > lost.fence) return undefined
      // Its fence is newer than the one that was put: two attempts to put it have overtaken each other.
    }
  }

  #join(lost: LostTransaction): Promise<Findings> {
    if (this.#open === undefined) {
      const batch: LostTransaction[] = []
      const signal = AbortSignal.any([AbortSignal.timeout(this.#budgetMs), this.#closing])
      this.#open = { lost: batch, findings: this.#find(batch, signal) }
    }
    this.#open.lost.push(lost)
    return this.#open.findings
  }

  async #find(lost: readonly LostTransaction[], signal: AbortSignal): Promise<Findings> {
    let until: Revision
    try {
      until = await this.#raise(signal)
    } finally {
      this.#open = undefined
    }
    const after = toRevision(Math.min(...lost.map(({ sentAfter }) => sentAfter)))
    const ids = new Set(lost.map(({ id }) => id.toString('hex')))
    if (after >= until) return { until, happened: new Map() }
    for (let pauseMs = 10; ; pauseMs = Math.min(2 * pauseMs, 250)) {
      try {
        return { until, happened: await this.#replay(after, until, ids, signal) }
      } catch (error) {
        // Compacted, forbidden, ...: reading again would not help. Away: it may come back.
        if (!(error instanceof CallError) || !error.lost || signal.aborted) throw error
        this.#endpoints.failed(error.endpoint, error)
      }
      await sleep(pauseMs, undefined, { signal })
    }
  }

  /** Puts the fence. More than once does no harm. */
  async #raise(signal: AbortSignal): Promise<Revision> {
    const id = this.#ids.next()
    const request = {
      compares: [],
      onSuccess: [this.#keyspace.fence, this.#keyspace.tip].map(key => ({
        type: 'put' as const,
        key,
        value: id,
      })),
      onFailure: [],
    }
    for (let pauseMs = 10; ; pauseMs = Math.min(2 * pauseMs, 250)) {
      try {
        const { header } = await this.#endpoints.ask(rpc.txn, request, signal, etcdDefaults.fenceHedgeMs)
        const { revision } = header
        this.#fence = laterRevision(this.#fence, revision)
        return revision
      } catch (error) {
        if (!(error instanceof CallError) || !(error.lost || error.leaderless) || signal.aborted) throw error
      }
      await sleep(pauseMs, undefined, { signal })
    }
  }

  /** Reads what was put into the tip after one revision up to another, at which it was put too. */
  async #replay(
    after: Revision,
    until: Revision,
    ids: ReadonlySet<string>,
    signal: AbortSignal,
  ): Promise<Map<string, Revision>> {
    const connection = this.#endpoints.dial()
    const found = new Map<string, Revision>()
    const silent = (ms: number) => setTimeout(() => connection.close(), ms).unref()
    let silence = silent(etcdDefaults.watchProbeTimeoutMs)
    const close = () => connection.close()
    signal.addEventListener('abort', close, { once: true })
    try {
      const stream = await connection.watch({
        key: this.#keyspace.tip,
        startRevision: toRevision(after + 1),
      })
      for await (const { canceled, compactRevision, cancelReason, events } of stream) {
        clearTimeout(silence)
        silence = silent(etcdDefaults.watchProbeTimeoutMs)
        if (canceled) {
          const isCompacted = compactRevision > 0
          const code = isCompacted ? grpcStatus.outOfRange : grpcStatus.unavailable
          throw new CallError(code, isCompacted ? 'compacted' : cancelReason, connection.endpoint)
        }
        for (const { pair } of events) {
          const id = pair.value.toString('hex')
          if (ids.has(id)) found.set(id, pair.modRevision)
          if (pair.modRevision >= until) return found
        }
      }
      throw new CallError(grpcStatus.unavailable, 'the watch stream ended', connection.endpoint)
    } catch (error) {
      if (error instanceof CallError) throw error
      const reason = error instanceof Error ? error.message : String(error)
      throw new CallError(grpcStatus.unavailable, reason, connection.endpoint, { cause: error })
    } finally {
      clearTimeout(silence)
      signal.removeEventListener('abort', close)
      this.#endpoints.hangUp(connection)
    }
  }
}

export function unknown(failure: CallError): OutcomeUnknownError {
  return new OutcomeUnknownError(
    `etcd at ${failure.endpoint} did not answer a transaction, which may have happened: ${failure.message}`,
    { cause: failure },
  )
}

/** What is shared is not ended for one's sake. */
function withSignal<T>(shared: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason)
    if (signal.aborted) onAbort()
    signal.addEventListener('abort', onAbort, { once: true })
    shared.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })
}
