import type { Logger } from '@setpoint/controller-runtime'
import { parseRevision, type Revision, toRevision, zeroRevision } from '@setpoint/controller-runtime/api'
import type { IKeyValue, IRangeResponse } from 'etcd3'
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
import type { CallableMethod, ConnectionOptions } from './connection.ts'
import { etcdDefaults } from './defaults.ts'
import { Endpoints } from './endpoints.ts'
import { Keyspace } from './keyspace.ts'
import { resolveOutcome, unknown } from './outcome.ts'
import type { UnaryMethods } from './rpc.ts'
import { decodePair, decodeTransaction, encodeTransaction, TransactionIds } from './transaction.ts'
import { Watcher } from './watcher.ts'

export interface EtcdStorageOptions {
  /** `http://host:port` or `https://host:port` of the members; all of one cluster. */
  readonly endpoints: readonly string[]
  /** All keys lie under it. Servers that share it share the store. Default `/setpoint`. */
  readonly prefix?: string
  /** PEM. `ca` defaults to the roots that Node trusts; `cert` and `key` go together. */
  readonly tls?: ConnectionOptions['tls']
  readonly auth?: ConnectionOptions['auth']
  /** Of one call, in milliseconds. A lost answer may take twice as long again to resolve. Default 5000. */
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
  readonly #closing = new AbortController()
  /** The highest revision that any answer has carried: a transaction that is sent now can only happen above it. */
  #seen: Revision = zeroRevision
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
  }

  async get(key: string, options?: CallOptions): Promise<{ revision: Revision; pair: KeyValue | undefined }> {
    const response = await this.#read('range', { key: this.#keyspace.encode(key) }, options?.signal)
    const kv = response.kvs[0]
    return { revision: this.#revisionOf(response), pair: kv && decodePair(key, kv) }
  }

  async head(options?: CallOptions): Promise<{ current: Revision; written: Revision }> {
    const response = await this.#read('range', { key: this.#keyspace.tip }, options?.signal)
    const kv = response.kvs[0]
    return {
      current: this.#revisionOf(response),
      written: kv ? parseRevision(kv.mod_revision) : zeroRevision,
    }
  }

  async list(prefix: string, options: ListOptions = {}): Promise<ListPage> {
    const { limit = etcdDefaults.pageItems, signal } = options
    if (!Number.isSafeInteger(limit) || limit < 1) throw new RangeError(`limit must be 1 or more: ${limit}`)
    const skipTip = Keyspace.coversTip(prefix)
    const pairs: KeyValue[] = []
    let { revision, after } = options
    if (revision === zeroRevision) return { revision, pairs, more: false }
    for (let bytes = 0; ; ) {
      const request = {
        ...this.#keyspace.range(prefix, after),
        limit: this.#requestItems(limit - pairs.length, etcdDefaults.pageBytes - bytes),
        ...(revision !== undefined && { revision }),
      }
      const response = await this.#read('range', request, signal)
      revision ??= this.#revisionOf(response)
      let requestBytes = 0
      for (const kv of response.kvs) {
        after = this.#keyspace.decode(kv.key)
        requestBytes += kv.key.length + kv.value.length
        if (!skipTip || after !== Keyspace.tipKey) pairs.push(decodePair(after, kv))
      }
      bytes += requestBytes
      this.#learnSize(response.kvs, requestBytes)
      if (!response.more || pairs.length >= limit || (bytes >= etcdDefaults.pageBytes && pairs.length > 0))
        return { revision, pairs, more: response.more }
    }
  }

  async transact(transaction: Transaction, options?: CallOptions): Promise<TransactionResult> {
    const signal = options?.signal
    signal?.throwIfAborted()
    const id = this.#ids.next()
    const request = encodeTransaction(this.#keyspace, transaction, id)
    const sentAfter = this.#seen
    try {
      const result = decodeTransaction(transaction, await this.#endpoints.call('txn', request, signal))
      if (result.revision > this.#seen) this.#seen = result.revision
      return result
    } catch (failure) {
      if (!(failure instanceof CallError)) throw failure
      if (failure.refused) throw toStorageError(failure)
      const signals = signal ? AbortSignal.any([signal, this.#closing.signal]) : this.#closing.signal
      const lost = { transaction, id, sentAfter, failure, signal: signals }
      // Without operations there is nothing that could have happened.
      if (transaction.onSuccess.length === 0) throw toStorageError(failure)
      if (signals.aborted) throw unknown(lost)
      this.#log?.warn(
        { endpoint: failure.endpoint, reason: failure.message },
        'a transaction was not answered',
      )
      return resolveOutcome(this.#endpoints, this.#keyspace, lost, 2 * this.#deadlineMs)
    }
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
    })
    return watcher.batches()
  }

  async compact(revision: Revision, options?: CallOptions): Promise<void> {
    if (revision === zeroRevision) return
    const signal = options?.signal
    signal?.throwIfAborted()
    try {
      await this.#endpoints.call('compact', { revision }, signal)
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

  async #read<M extends CallableMethod>(
    method: M,
    request: UnaryMethods[M]['request'],
    signal: AbortSignal | undefined,
  ): Promise<UnaryMethods[M]['response']> {
    signal?.throwIfAborted()
    try {
      return await this.#endpoints.call(method, request, signal)
    } catch (error) {
      throw this.#translate(error, signal)
    }
  }

  #translate(error: unknown, signal: AbortSignal | undefined): unknown {
    if (!(error instanceof CallError)) return error
    if (error.code !== grpcStatus.cancelled) return toStorageError(error)
    return signal?.aborted ? signal.reason : toStorageError(error)
  }

  #revisionOf(response: IRangeResponse): Revision {
    const revision = parseRevision(response.header.revision)
    if (revision > this.#seen) this.#seen = revision
    return revision
  }

  /** etcd bounds a page by items only; what its values come to is estimated from those seen before. */
  #requestItems(items: number, bytes: number): number {
    return Math.max(1, Math.min(items, Math.floor(bytes / this.#meanPairBytes)))
  }

  #learnSize(kvs: readonly IKeyValue[], bytes: number): void {
    if (kvs.length > 0) this.#meanPairBytes = Math.max(bytes / kvs.length, 64)
  }
}
