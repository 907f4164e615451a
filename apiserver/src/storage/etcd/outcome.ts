import { setTimeout as sleep } from 'node:timers/promises'
import { parseRevision, type Revision, toRevision } from '@setpoint/controller-runtime/api'
import { type KeyValue, OutcomeUnknownError, type Transaction, type TransactionResult } from '../contract.ts'
import { CallError } from './call-error.ts'
import { etcdDefaults } from './defaults.ts'
import type { Endpoints } from './endpoints.ts'
import { Keyspace } from './keyspace.ts'
import { decodeReads } from './transaction.ts'

/** A transaction that was sent, and whose answer did not come. */
export interface LostTransaction {
  readonly transaction: Transaction
  /** What it puts as the tip's value: nobody else ever puts this. */
  readonly id: Buffer
  /** A revision of the store that was read before the transaction was sent. If it happened, then above this. */
  readonly sentAfter: Revision
  /** Why no answer came. */
  readonly failure: CallError
  readonly signal: AbortSignal
}

/**
 * Finds out what became of a transaction whose answer was lost, and answers in its place.
 *
 * Three facts are used, and nothing about time:
 * - The tip holds the transaction's id at the revision at which it happened, and nowhere else. Equal values, or a key
 *   that changes and changes back, cannot deceive.
 * - Mod revisions never return. Once a key that was compared with a revision above zero has another one, the
 *   transaction can no longer happen; and if it operates on that key itself and has happened, it made the first
 *   revision at which the key was another. That one is found by bisection over the history.
 * - One read sees one state.
 *
 * While every compare that could settle it still holds, the transaction may yet happen (it may be under way to
 * another member). Then, or when the history is compacted or etcd away, the answer is that nobody knows.
 *
 * @param budgetMs how long to try while etcd cannot be reached
 * @throws OutcomeUnknownError
 */
export async function resolveOutcome(
  endpoints: Endpoints,
  keyspace: Keyspace,
  lost: LostTransaction,
  budgetMs: number,
): Promise<TransactionResult> {
  const history = new History(endpoints, keyspace, lost)
  const budget = AbortSignal.timeout(budgetMs)
  const signal = AbortSignal.any([lost.signal, budget])
  let settledBy = Number.POSITIVE_INFINITY
  for (let pauseMs = 10; ; pauseMs = Math.min(2 * pauseMs, 250)) {
    try {
      const result = await history.settle(signal)
      if (result) return result
      settledBy = Math.min(settledBy, performance.now() + etcdDefaults.settleMs)
    } catch (error) {
      if (!(error instanceof CallError)) throw error
      // Compacted, forbidden, ...: reading again would not help. Away: it may come back.
      if (!error.lost) throw unknown(lost)
    }
    if (signal.aborted || performance.now() > settledBy) throw unknown(lost)
    await sleep(pauseMs, undefined, { signal }).catch(() => {
      throw unknown(lost)
    })
  }
}

export function unknown(lost: Pick<LostTransaction, 'failure'>): OutcomeUnknownError {
  return new OutcomeUnknownError(
    `etcd at ${lost.failure.endpoint} did not answer a transaction, which may have happened: ${lost.failure.message}`,
    { cause: lost.failure },
  )
}

class History {
  readonly #endpoints: Endpoints
  readonly #keyspace: Keyspace
  readonly #lost: LostTransaction
  /** The keys to read: what was compared, operated on, or asked for on failure. */
  readonly #keys: readonly string[]

  constructor(endpoints: Endpoints, keyspace: Keyspace, lost: LostTransaction) {
    this.#endpoints = endpoints
    this.#keyspace = keyspace
    this.#lost = lost
    const { compares, onSuccess, onFailure = [] } = lost.transaction
    this.#keys = [...new Set([...compares, ...onSuccess].map(({ key }) => key).concat(onFailure))]
  }

  /** What is certain now; nothing if the transaction may yet happen, or may have and left no trace. */
  async settle(signal: AbortSignal): Promise<TransactionResult | undefined> {
    const { transaction, sentAfter } = this.#lost
    const { revision, tip, pairs } = await this.#readAll(signal)
    if (tip && this.#isOurs(tip)) return { succeeded: true, revision: tip.modRevision }

    const operated = new Set(transaction.onSuccess.map(operation => operation.key))
    const candidates = new Set<Revision>()
    for (const key of operated) {
      const pair = pairs.get(key)
      if (pair) candidates.add(pair.modRevision).add(pair.createRevision)
    }
    for (const candidate of candidates) {
      if (candidate > sentAfter && (await this.#madeBy(candidate, signal)))
        return { succeeded: true, revision: candidate }
    }

    let impossible = false
    let notYet = false
    for (const { key, modRevision } of transaction.compares) {
      if (modRevision === 0) continue
      const changed = pairs.get(key)?.modRevision !== modRevision
      // One above what was read may still come to be: then somebody compared with what nobody has written yet.
      if (changed && modRevision <= revision) impossible = true
      if (!operated.has(key)) continue
      if (!changed) {
        notYet = true
        continue
      }
      const made = await this.#firstChange(key, modRevision, revision, signal)
      if (made !== undefined && (await this.#madeBy(made, signal))) return { succeeded: true, revision: made }
      notYet = true
    }
    if (!impossible || !notYet) return undefined
    const onFailure = transaction.onFailure ?? []
    return { succeeded: false, revision, pairs: onFailure.map(key => pairs.get(key)) }
  }

  async #readAll(signal: AbortSignal): Promise<{
    revision: Revision
    tip: KeyValue | undefined
    pairs: Map<string, KeyValue | undefined>
  }> {
    const keys = [Keyspace.tipKey, ...this.#keys]
    const response = await this.#endpoints.call(
      'txn',
      { success: keys.map(key => ({ request_range: { key: this.#keyspace.encode(key) } })) },
      signal,
    )
    const [tip, ...rest] = decodeReads(keys, response)
    const pairs = new Map(this.#keys.map((key, index) => [key, rest[index]]))
    return { revision: parseRevision(response.header.revision), tip, pairs }
  }

  /**
   * The first revision at which the key was no longer as it was at `compared`, which it still is not at `until`.
   * Nothing when that came before the transaction was sent, which then did not make it.
   */
  async #firstChange(
    key: string,
    compared: Revision,
    until: Revision,
    signal: AbortSignal,
  ): Promise<Revision | undefined> {
    const holds = async (at: Revision) => (await this.#readAt(key, at, signal))?.modRevision === compared
    let held: Revision = compared
    if (this.#lost.sentAfter > compared) {
      held = this.#lost.sentAfter
      if (!(await holds(held))) return undefined
    }
    let changed = until
    while (changed - held > 1) {
      const middle = toRevision(Math.floor((held + changed) / 2))
      if (await holds(middle)) held = middle
      else changed = middle
    }
    return changed
  }

  async #madeBy(revision: Revision, signal: AbortSignal): Promise<boolean> {
    const tip = await this.#readAt(Keyspace.tipKey, revision, signal)
    return tip !== undefined && tip.modRevision === revision && this.#isOurs(tip)
  }

  #isOurs(tip: KeyValue): boolean {
    return tip.value.equals(this.#lost.id)
  }

  async #readAt(key: string, revision: Revision, signal: AbortSignal): Promise<KeyValue | undefined> {
    const request = { key: this.#keyspace.encode(key), revision }
    const response = await this.#endpoints.call('txn', { success: [{ request_range: request }] }, signal)
    return decodeReads([key], response)[0]
  }
}
