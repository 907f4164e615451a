import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from '@setpoint/controller-runtime'
import { type Revision, toRevision, zeroRevision } from '@setpoint/controller-runtime/api'
import {
  type CallOptions,
  type KeyValue,
  type ListOptions,
  type ListPage,
  type Storage,
  StoreUnavailableError,
  type Transaction,
  type TransactionResult,
  type WatchBatch,
  type WatchOptions,
} from '../contract.ts'
import { CallError, grpcStatus, toStorageError } from './call-error.ts'
import type { ConnectionOptions } from './connection.ts'
import { etcdDefaults } from './defaults.ts'
import { Endpoints } from './endpoints.ts'
import { Keyspace } from './keyspace.ts'
import type { EtcdPair, RangeRequest, RangeResponse } from './messages.ts'
import { type LostTransaction, Outcomes, unknown } from './outcome.ts'
import { rpc } from './rpc.ts'
import { decodeTransaction, encodeTransaction, TransactionIds, toKeyValue } from './transaction.ts'
import { type Lineage, Watcher } from './watcher.ts'

export interface EtcdStorageOptions {
  /** `http://host:port` or `https://host:port` of the members; all of one cluster. */
  readonly endpoints: readonly string[]
  /** All keys lie under it. Servers that share it share the store. Default `/setpoint`. */
  readonly prefix?: string
  /** PEM. `ca` defaults to the roots that Node trusts; `cert` and `key` go together. */
  readonly tls?: ConnectionOptions['tls']
  readonly auth?: ConnectionOptions['auth']
  /** Of one call, in milliseconds, with everything that is asked on its behalf. Default 5000. */
  readonly deadlineMs?: number
  readonly log?: Logger
}

/**
 * Opens the storage. Nothing is connected yet, and etcd need not be there: calls fail with `StoreUnavailableError`
 * and watches wait until it is.
 * @throws RangeError when an option is wrong.
 */
export async function openEtcdStorage(options: EtcdStorageOptions): Promise<Storage> {
  return new EtcdStorage(options)
}

/** See the `Storage` interface for what each method promises. */
class EtcdStorage implements Storage {
  readonly #keyspace: Keyspace
  readonly #endpoints: Endpoints
  readonly #deadlineMs: number
  readonly #log: Logger | undefined
  readonly #ids = new TransactionIds()
  readonly #outcomes: Outcomes
  readonly #closing = new AbortController()
  /** The highest revision that any answer has carried: a transaction that is sent now can only happen above it. */
  #seen: Revision = zeroRevision
  readonly #lineage: Lineage = { mark: undefined }
  #meanPairBytes = etcdDefaults.pageBytes / etcdDefaults.firstRequestItems

  constructor(options: EtcdStorageOptions) {
    const { endpoints, prefix = '/setpoint', tls, auth, deadlineMs = etcdDefaults.deadlineMs, log } = options
    if (!(deadlineMs > 0)) throw new RangeError(`deadlineMs must be above zero: ${deadlineMs}`)
    if (tls && (tls.cert === undefined) !== (tls.key === undefined))
      throw new RangeError('a TLS client certificate and its key go together')
    this.#keyspace = new Keyspace(prefix)
    this.#deadlineMs = deadlineMs
    this.#log = log
    this.#endpoints = new Endpoints(
      endpoints,
      { ...(tls && { tls }), ...(auth && { auth }), deadlineMs },
      log,
    )
    this.#outcomes = new Outcomes({
      endpoints: this.#endpoints,
      keyspace: this.#keyspace,
      ids: this.#ids,
      budgetMs: deadlineMs,
      closing: this.#closing.signal,
    })
  }

  async get(key: string, options?: CallOptions): Promise<{ revision: Revision; pair: KeyValue | undefined }> {
    const { header, pairs } = await this.#range({ key: this.#keyspace.encode(key) }, options?.signal)
    const [pair] = pairs
    return { revision: header.revision, pair: pair && toKeyValue(key, pair) }
  }

  async head(options?: CallOptions): Promise<{ current: Revision; written: Revision }> {
    const { header, pairs } = await this.#range({ key: this.#keyspace.tip }, options?.signal)
    return { current: header.revision, written: pairs[0]?.modRevision ?? zeroRevision }
  }

  async list(prefix: string, options: ListOptions = {}): Promise<ListPage> {
    const { limit = etcdDefaults.pageItems, keysOnly = false, signal } = options
    if (!Number.isSafeInteger(limit) || limit < 1) throw new RangeError(`limit must be 1 or more: ${limit}`)
    const skipOwn = Keyspace.coversOwn(prefix)
    const pairs: KeyValue[] = []
    let { revision, after } = options
    if (revision === zeroRevision) return { revision, pairs, more: false }
    for (let bytes = 0; ; ) {
      const request = {
        ...this.#keyspace.range(prefix, after),
        limit: keysOnly
          ? limit - pairs.length
          : this.#requestItems(limit - pairs.length, etcdDefaults.pageBytes - bytes),
        keysOnly,
        ...(revision !== undefined && { revision }),
      }
      const response = await this.#range(request, signal)
      revision ??= response.header.revision
      let requestBytes = 0
      for (const pair of response.pairs) {
        after = this.#keyspace.decode(pair.key)
        requestBytes += pair.key.length + pair.value.length
        if (!skipOwn || !Keyspace.isOwn(after)) pairs.push(toKeyValue(after, pair))
      }
      bytes += requestBytes
      if (!keysOnly) this.#learnSize(response.pairs, requestBytes)
      if (!response.more || pairs.length >= limit || (bytes >= etcdDefaults.pageBytes && pairs.length > 0))
        return { revision, pairs, more: response.more }
    }
  }

  async transact(transaction: Transaction, options?: CallOptions): Promise<TransactionResult> {
    const giveUpAt = performance.now() + this.#deadlineMs
    for (;;) {
      options?.signal?.throwIfAborted()
      const result = await this.#attempt(transaction, giveUpAt, options?.signal)
      if (result !== undefined) return result
    }
  }

  /**
   * Sends a transaction once. Answers nothing where it certainly did not happen, for no reason of its own, and there is
   * time to send it again.
   */
  async #attempt(
    transaction: Transaction,
    giveUpAt: number,
    signal: AbortSignal | undefined,
  ): Promise<TransactionResult | undefined> {
    const lost: LostTransaction = {
      id: this.#ids.next(),
      sentAfter: this.#seen,
      fence: this.#outcomes.fence,
    }
    const request = encodeTransaction(this.#keyspace, transaction, lost.id, lost.fence)
    try {
      // Without operations there is nothing that could have happened.
      const response =
        transaction.onSuccess.length === 0
          ? await this.#endpoints.ask(rpc.txn, request, signal)
          : await this.#endpoints.send(rpc.txn, request, signal, this.#patience(giveUpAt))
      const { result, fence = lost.fence } = decodeTransaction(transaction, response)
      this.#saw(result.revision)
      if (fence === lost.fence) return result
      this.#outcomes.heard(fence)
      if (performance.now() > giveUpAt)
        throw new StoreUnavailableError('the outcome of other transactions is being looked up')
      return undefined
    } catch (failure) {
      if (!(failure instanceof CallError)) throw failure
      return this.#afterFailure(transaction, lost, failure, giveUpAt, signal)
    }
  }

  async #afterFailure(
    transaction: Transaction,
    lost: LostTransaction,
    failure: CallError,
    giveUpAt: number,
    signal: AbortSignal | undefined,
  ): Promise<TransactionResult | undefined> {
    const timeLeft = giveUpAt - performance.now()
    if (transaction.onSuccess.length === 0) throw this.#translate(failure, signal)
    if (failure.refused) {
      // A member that could not even be reached in time leaves it to the next one, which is in use by now.
      const another = failure.leaderless || failure.code === grpcStatus.deadlineExceeded
      if (!another || timeLeft < etcdDefaults.leaderlessMs) throw toStorageError(failure)
      await sleep(etcdDefaults.leaderlessMs, undefined, { signal: this.#closing.signal }).catch(() => {})
      return undefined
    }
    const ends = [AbortSignal.timeout(Math.max(0, Math.ceil(timeLeft))), this.#closing.signal]
    const ended = AbortSignal.any(signal ? [...ends, signal] : ends)
    if (ended.aborted) throw unknown(failure)
    this.#log?.warn({ endpoint: failure.endpoint, reason: failure.message }, 'a transaction was not answered')
    let revision: Revision | undefined
    try {
      revision = await this.#outcomes.of(lost, ended)
    } catch {
      throw unknown(failure)
    }
    if (revision !== undefined) {
      this.#saw(revision)
      return { succeeded: true, revision }
    }
    if (performance.now() >= giveUpAt) throw toStorageError(failure)
    return undefined
  }

  /** How long an answer is waited for: short of the deadline, so that there is time to find out what became of it. */
  #patience(giveUpAt: number): number {
    const timeLeft = Math.max(1, giveUpAt - performance.now())
    return Math.min(etcdDefaults.patienceMs, this.#deadlineMs / 2, timeLeft)
  }

  watch(prefix: string, options: WatchOptions): AsyncGenerator<WatchBatch, void, undefined> {
    return options.until === undefined
      ? this.#follow(prefix, options)
      : this.#replay(prefix, { ...options, until: options.until })
  }

  /** All keys are followed to the end of the replay, as `Watcher` needs it; those of the prefix are passed on. */
  async *#replay(
    prefix: string,
    options: WatchOptions & { until: Revision },
  ): AsyncGenerator<WatchBatch, void, undefined> {
    const { until } = options
    for await (const { changes, revision } of this.#follow('', options)) {
      yield {
        changes: changes.filter(change => change.key.startsWith(prefix) && change.revision <= until),
        // Not above: what came after `until` is left out.
        revision: toRevision(Math.min(revision, until)),
      }
    }
  }

  #follow(
    prefix: string,
    { after, until, signal }: WatchOptions,
  ): AsyncGenerator<WatchBatch, void, undefined> {
    const watcher = new Watcher({
      endpoints: this.#endpoints,
      keyspace: this.#keyspace,
      prefix,
      after,
      until,
      signal: AbortSignal.any([signal, this.#closing.signal]),
      log: this.#log,
      lineage: this.#lineage,
    })
    return watcher.batches()
  }

  async compact(revision: Revision, options?: CallOptions): Promise<void> {
    if (revision === zeroRevision) return
    const signal = options?.signal
    signal?.throwIfAborted()
    try {
      await this.#endpoints.ask(rpc.compact, revision, signal)
    } catch (error) {
      if (
        error instanceof CallError &&
        error.code === grpcStatus.outOfRange &&
        /compacted/.test(error.message)
      )
        return
      throw this.#translate(error, signal)
    }
  }

  async close(): Promise<void> {
    this.#closing.abort(new StoreUnavailableError('the storage is closed'))
    this.#endpoints.close()
  }

  async #range(request: RangeRequest, signal: AbortSignal | undefined): Promise<RangeResponse> {
    signal?.throwIfAborted()
    try {
      const response = await this.#endpoints.ask(rpc.range, request, signal)
      this.#saw(response.header.revision)
      return response
    } catch (error) {
      throw this.#translate(error, signal)
    }
  }

  #translate(error: unknown, signal: AbortSignal | undefined): unknown {
    if (!(error instanceof CallError)) return error
    if (error.code !== grpcStatus.cancelled) return toStorageError(error)
    return signal?.aborted ? signal.reason : toStorageError(error)
  }

  #saw(revision: Revision): void {
    if (revision > this.#seen) this.#seen = revision
  }

  /** etcd bounds a page by items only; what its values come to is estimated from those seen before. */
  #requestItems(items: number, bytes: number): number {
    return Math.max(1, Math.min(items, Math.floor(bytes / this.#meanPairBytes)))
  }

  #learnSize(pairs: readonly EtcdPair[], bytes: number): void {
    if (pairs.length > 0) this.#meanPairBytes = Math.max(bytes / pairs.length, 64)
  }
}
