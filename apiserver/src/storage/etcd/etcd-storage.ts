import { setTimeout as sleep } from 'node:timers/promises'
import { status } from '@grpc/grpc-js'
import { type Logger, linkedSignal } from '@setpoint/controller-runtime'
import { errorMessage, type Revision, toRevision, zeroRevision } from '@setpoint/controller-runtime/api'
import type { IRangeRequest, IRangeResponse } from 'etcd3'
import {
  type CallOptions,
  CompactedError,
  type KeyValue,
  type ListOptions,
  type ListPage,
  OutcomeUnknownError,
  type Storage,
  type StoreSpace,
  StoreUnavailableError,
  type Transaction,
  type TransactionResult,
  type WatchBatch,
  type WatchOptions,
  WrongStoreError,
} from '../contract.ts'
import type { Fullness } from '../fullness.ts'
import { resendPauseMs } from './backoff.ts'
import { Base } from './base.ts'
import { CallError, toStorageError } from './call-error.ts'
import { methods } from './client.ts'
import type { ConnectionOptions } from './connection.ts'
import { etcdDefaults } from './defaults.ts'
import { Endpoints } from './endpoints.ts'
import { Keyspace } from './keyspace.ts'
import { Lineage } from './lineage.ts'
import type { Credentials } from './login.ts'
import { spaceOf } from './member-metrics.ts'
import { checkedHeader, toKeyValue } from './messages.ts'
import { type LostTransaction, Outcomes, unknown } from './outcome.ts'
import { decodeTransaction, encodeTransaction, type TipChange, TransactionIds } from './transaction.ts'
import type { CallLimits } from './unary-call.ts'
import { Watcher } from './watcher.ts'

/** The operations that are measured: Kubernetes' names, and `head`. */
export type StorageOperation = 'get' | 'head' | 'list' | 'create' | 'update' | 'delete' | 'compact'

/** Called after each call. `key` is its key or prefix, or the first key that it writes. */
export type CallObserver = (operation: StorageOperation, key: string, seconds: number) => void

export interface EtcdStorageOptions {
  /** `http://host:port` or `https://host:port` of the members of one cluster. */
  readonly endpoints: readonly string[]
  /** The prefix of all keys. Servers with the same prefix share the store. Default `/setpoint`. */
  readonly prefix?: string
  /** PEM. `ca` defaults to the roots that Node trusts; `cert` needs `key`, and the reverse. */
  readonly tls?: ConnectionOptions['tls']
  /** The user of etcd. */
  readonly auth?: Credentials
  /** Deadline of one call with all its steps, in milliseconds. Default 5000. */
  readonly deadlineMs?: number
  readonly observe?: CallObserver
  /** Called with the endpoint that takes the calls, at the start and after each change. */
  readonly onMember?: (endpoint: string) => void
  readonly fullness?: Fullness
  readonly log?: Logger
  /**
   * The restore that may use the store before it is complete. Default: none, and an incomplete restore refuses all
   * calls.
   */
  readonly restoreId?: string
}

/**
 * Opens the storage without connecting. While etcd is unreachable, calls fail with `StoreUnavailableError` and watches
 * wait.
 * @throws RangeError if an option is invalid.
 */
export async function openEtcdStorage(options: EtcdStorageOptions): Promise<Storage> {
  return new EtcdStorage(options)
}

/** See the `Storage` interface for the guarantees of each method. */
class EtcdStorage implements Storage {
  readonly #keyspace: Keyspace
  readonly #base: Base
  readonly #endpoints: Endpoints
  readonly #deadlineMs: number
  readonly #log: Logger | undefined
  readonly #observe: CallObserver | undefined
  readonly #fullness: Fullness | undefined
  readonly #tls: ConnectionOptions['tls']
  readonly #ids = new TransactionIds()
  readonly #outcomes: Outcomes
  readonly #closing = new AbortController()
  readonly #lineage: Lineage
  #meanPairBytes = etcdDefaults.pageBytes / etcdDefaults.firstRequestItems

  constructor(options: EtcdStorageOptions) {
    const { endpoints, prefix = '/setpoint', tls, auth, deadlineMs = etcdDefaults.deadlineMs, log } = options
    if (!(deadlineMs > 0)) throw new RangeError(`deadlineMs must be above zero: ${deadlineMs}`)
    if (tls && (tls.cert === undefined) !== (tls.key === undefined))
      throw new RangeError('a TLS client certificate needs its key, and the key its certificate')
    this.#keyspace = new Keyspace(prefix)
    this.#deadlineMs = deadlineMs
    this.#log = log
    this.#observe = options.observe
    this.#fullness = options.fullness
    this.#tls = tls
    this.#lineage = new Lineage(log)
    this.#base = new Base(this.#keyspace, this.#lineage, options.restoreId)
    this.#endpoints = new Endpoints(
      endpoints,
      { tls, auth, probe: this.#keyspace.tip, onMember: options.onMember },
      log,
    )
    this.#outcomes = new Outcomes({
      endpoints: this.#endpoints,
      lineage: this.#lineage,
      keyspace: this.#keyspace,
      base: this.#base,
      ids: this.#ids,
      budgetMs: deadlineMs,
      closing: this.#closing.signal,
    })
  }

  get(key: string, options?: CallOptions): Promise<{ revision: Revision; pair: KeyValue | undefined }> {
    return this.#read('get', key, options, async limits => {
      const { revision, response } = await this.#range({ key: this.#keyspace.encode(key) }, limits)
      const [pair] = response.kvs
      return { revision, pair: pair && toKeyValue(this.#base, key, pair) }
    })
  }

  head(options?: CallOptions): Promise<{ current: Revision; written: Revision }> {
    return this.#read('head', '', options, async limits => {
      const { revision: current, response } = await this.#range({ key: this.#keyspace.tip }, limits)
      const [tip] = response.kvs
      return { current, written: tip ? this.#base.revision(tip.mod_revision) : current }
    })
  }

  async list(prefix: string, options: ListOptions = {}): Promise<ListPage> {
    const { limit = etcdDefaults.pageItems, revision } = options
    if (!Number.isSafeInteger(limit) || limit < 1) throw new RangeError(`limit must be 1 or more: ${limit}`)
    if (revision === zeroRevision) return { revision, pairs: [], more: false }
    return this.#read('list', prefix, options, limits => this.#page(prefix, { ...options, limit }, limits))
  }

  async #page(
    prefix: string,
    { limit, keysOnly = false, ...options }: ListOptions & { limit: number },
    limits: CallLimits,
  ): Promise<ListPage> {
    const skipOwn = Keyspace.coversOwn(prefix)
    const pairs: KeyValue[] = []
    let { revision, after } = options
    let bytes = 0
    let mostItems = Number.POSITIVE_INFINITY
    for (;;) {
      const wanted = limit - pairs.length
      const fitting = keysOnly ? wanted : this.#requestItems(wanted, etcdDefaults.pageBytes - bytes)
      const items = Math.min(fitting, mostItems)
      const { key, rangeEnd } = this.#keyspace.range(prefix, after)
      const request = { key, range_end: rangeEnd, limit: items, keys_only: keysOnly }
      const raw = revision && this.#base.rawInHistory(revision)
      let page: { revision: Revision; response: IRangeResponse }
      try {
        page = await this.#range({ ...request, revision: raw }, limits)
      } catch (error) {
        if (!(error instanceof CallError) || !error.responseTooLarge || items === 1) throw error
        mostItems = Math.floor(items / 2)
        continue
      }
      revision ??= page.revision
      let requestBytes = 0
      for (const pair of page.response.kvs) {
        after = this.#keyspace.decode(pair.key)
        requestBytes += pair.key.length + pair.value.length
        if (!skipOwn || !Keyspace.isOwn(after)) pairs.push(toKeyValue(this.#base, after, pair))
      }
      bytes += requestBytes
      if (!keysOnly) this.#learnSize(page.response.kvs.length, requestBytes)
      const { more } = page.response
      if (!more || pairs.length >= limit || (bytes >= etcdDefaults.pageBytes && pairs.length > 0))
        return { revision, pairs, more }
    }
  }

  transact(transaction: Transaction, options?: CallOptions): Promise<TransactionResult> {
    const { operation, key } = describe(transaction)
    return this.#call(operation, key, options, async limits => {
      let resends = 0
      let leaderless = 0
      let tip: TipChange = 'put'
      const deletesOnly = transaction.onSuccess.every(({ type }) => type === 'delete')
      for (;;) {
        limits.signal?.throwIfAborted()
        const begunAt = this.#fullness?.refusals ?? 0
        const attempt = await this.#attempt(transaction, tip, limits)
        if (attempt.result !== undefined) {
          if (attempt.result.succeeded && !deletesOnly) this.#fullness?.accepted(begunAt)
          return attempt.result
        }
        const { failure } = attempt
        if (failure.noSpace) {
          this.#fullness?.refused(failure.message)
          if (tip === 'delete' || !deletesOnly) throw failure
          tip = 'delete'
          continue
        }
        // A member without a leader proposes nothing, so only the deadline bounds these attempts.
        const isCheap = failure.leaderless && failure.refused
        const pauseMs = resendPauseMs(isCheap ? leaderless++ : resends++)
        if (resends > etcdDefaults.resends || performance.now() + pauseMs >= limits.until) throw failure
        await sleep(pauseMs, undefined, { signal: limits.signal }).catch(() => {})
      }
    })
  }

  /**
   * Sends a transaction once. Returns no result if it certainly did not happen and may be sent again.
   * @throws CallError if it did not happen; OutcomeUnknownError; RangeError if it is invalid
   */
  async #attempt(
    transaction: Transaction,
    tip: TipChange,
    limits: CallLimits,
  ): Promise<
    { readonly result: TransactionResult } | { readonly result?: undefined; readonly failure: CallError }
  > {
    const lost: LostTransaction = {
      id: this.#ids.next(),
      sentAfter: this.#lineage.seen,
      fence: this.#outcomes.fence,
    }
    const request = encodeTransaction(this.#store, transaction, lost, tip)
    const isRead = transaction.onSuccess.length === 0
    let decoded: ReturnType<typeof decodeTransaction>
    try {
      const response = isRead
        ? await this.#endpoints.ask(methods.txn, request, limits)
        : await this.#endpoints.send(methods.txn, request, this.#patient(limits))
      decoded = decodeTransaction(this.#store, transaction, response)
    } catch (error) {
      if (error instanceof WrongStoreError) throw error
      const failure = CallError.from(error, '')
      if (isRead) throw failure
      return this.#afterFailure(lost, tip, failure, limits)
    }
    const { result, fence = lost.fence } = decoded
    try {
      this.#lineage.saw(result.revision, lost.sentAfter)
    } catch (error) {
      // It has happened, but in another store.
      if (result.succeeded && !isRead) throw new OutcomeUnknownError(errorMessage(error), { cause: error })
      throw error
    }
    if (fence === lost.fence) return { result }
    this.#outcomes.heard(fence)
    const reason = 'the fence moved while another server looked up an outcome'
    return { failure: new CallError(status.UNAVAILABLE, reason, '', { unsent: true }) }
  }

  async #afterFailure(
    lost: LostTransaction,
    tip: TipChange,
    failure: CallError,
    { until, signal }: CallLimits,
  ): Promise<{ readonly result: TransactionResult } | { readonly failure: CallError }> {
    if (failure.refused) {
      // After a member that could not be reached in time, the next one is in use.
      if (failure.leaderless || failure.code === status.DEADLINE_EXCEEDED) return { failure }
      throw failure
    }
    // The tip is gone, so the id is nowhere.
    if (tip === 'delete') throw failure.noSpace ? failure : unknown(failure)
    const timeLeft = Math.max(0, Math.ceil(until - performance.now()))
    const ended = linkedSignal(AbortSignal.timeout(timeLeft), this.#closing.signal, signal)
    let revision: Revision | undefined
    try {
      ended.signal.throwIfAborted()
      if (failure.noSpace) revision = await this.#outcomes.ofRefused(lost, { until, signal: ended.signal })
      else {
        this.#log?.warn(
          { endpoint: failure.endpoint, reason: failure.message },
          'no response to a transaction, looking up its outcome',
        )
        revision = await this.#outcomes.of(lost, ended.signal)
      }
    } catch {
      throw unknown(failure)
    } finally {
      ended.dispose()
    }
    if (revision === undefined) return { failure }
    return { result: { succeeded: true, revision } }
  }

  /** Leaves a part of the deadline for looking up the outcome. */
  #patient({ until, signal }: CallLimits): CallLimits {
    return { until, patienceMs: Math.min(etcdDefaults.patienceMs, this.#deadlineMs / 2), signal }
  }

  watch(prefix: string, options: WatchOptions): AsyncGenerator<WatchBatch, void, undefined> {
    return options.until === undefined
      ? this.#follow(prefix, options)
      : this.#replay(prefix, { ...options, until: options.until })
  }

  /** Follows all keys to the end of the replay, as `Watcher` needs it, and passes on those of the prefix. */
  async *#replay(
    prefix: string,
    options: WatchOptions & { until: Revision },
  ): AsyncGenerator<WatchBatch, void, undefined> {
    const { until } = options
    for await (const { changes, revision } of this.#follow('', options)) {
      yield {
        changes: changes.filter(change => change.key.startsWith(prefix) && change.revision <= until),
        revision: toRevision(Math.min(revision, until)),
      }
    }
  }

  async *#follow(
    prefix: string,
    { after, until, signal }: WatchOptions,
  ): AsyncGenerator<WatchBatch, void, undefined> {
    const following = linkedSignal(signal, this.#closing.signal)
    const watcher = new Watcher({
      endpoints: this.#endpoints,
      keyspace: this.#keyspace,
      base: this.#base,
      prefix,
      after,
      until,
      signal: following.signal,
      log: this.#log,
      lineage: this.#lineage,
    })
    try {
      yield* watcher.batches()
    } finally {
      following.dispose()
    }
  }

  async compact(revision: Revision, options?: CallOptions): Promise<void> {
    if (revision === zeroRevision) return
    await this.#call('compact', '', options, async limits => {
      try {
        const raw = this.#base.raw(revision)
        if (raw > 0) await this.#endpoints.ask(methods.compact, { revision: raw }, limits)
      } catch (error) {
        const isDone =
          error instanceof CallError &&
          error.code === status.OUT_OF_RANGE &&
          error.message.includes('compacted')
        if (!isDone) throw error
      }
    })
  }

  async space({ signal }: CallOptions = {}): Promise<StoreSpace> {
    const timeout = AbortSignal.timeout(etcdDefaults.spaceTimeoutMs)
    const ended = linkedSignal(timeout, this.#closing.signal, signal)
    const members = await Promise.allSettled(
      this.#endpoints.addresses.map(address => spaceOf(address, this.#tls, ended.signal)),
    )
    ended.dispose()
    const known = members.flatMap(member => (member.status === 'fulfilled' ? [member.value] : []))
    const [first] = members
    if (known.length === 0 && first?.status === 'rejected') throw first.reason
    const quotas = known.flatMap(({ quotaBytes }) => quotaBytes ?? [])
    return {
      sizeBytes: Math.max(...known.map(({ sizeBytes }) => sizeBytes)),
      usedBytes: Math.max(...known.map(({ usedBytes }) => usedBytes)),
      quotaBytes: quotas.length === 0 ? undefined : Math.min(...quotas),
      diskFreeBytes: undefined,
    }
  }

  async close(): Promise<void> {
    this.#closing.abort(new StoreUnavailableError('the storage is closed'))
    this.#endpoints.close()
  }

  /** A call whose response is unusable has failed like one without a response. */
  #read<T>(
    operation: StorageOperation,
    key: string,
    options: CallOptions | undefined,
    steps: (limits: CallLimits) => Promise<T>,
  ): Promise<T> {
    return this.#call(operation, key, options, limits =>
      steps(limits).catch(error => {
        throw error instanceof WrongStoreError || error instanceof CompactedError
          ? error
          : CallError.from(error, '')
      }),
    )
  }

  /** Gives a call its deadline, measures it, and converts its errors. */
  async #call<T>(
    operation: StorageOperation,
    key: string,
    { signal }: CallOptions = {},
    steps: (limits: CallLimits) => Promise<T>,
  ): Promise<T> {
    signal?.throwIfAborted()
    this.#lineage.check()
    const begun = performance.now()
    try {
      const limits = { until: begun + this.#deadlineMs, signal }
      if (!this.#base.isKnown) await this.#learnBase(limits)
      return await steps(limits)
    } catch (error) {
      if (!(error instanceof CallError)) throw error
      throw error.code === status.CANCELLED && signal?.aborted ? signal.reason : toStorageError(error)
    } finally {
      this.#observe?.(operation, key, (performance.now() - begun) / 1000)
    }
  }

  get #store(): { readonly keyspace: Keyspace; readonly base: Base } {
    return { keyspace: this.#keyspace, base: this.#base }
  }

  /** @throws CallError, WrongStoreError */
  async #learnBase(limits: CallLimits): Promise<void> {
    try {
      await this.#base.read(request => this.#endpoints.ask(methods.range, request, limits))
    } catch (error) {
      throw error instanceof WrongStoreError ? error : CallError.from(error, '')
    }
  }

  async #range(
    request: IRangeRequest,
    limits: CallLimits,
  ): Promise<{ revision: Revision; response: IRangeResponse }> {
    const before = this.#lineage.seen
    const response = await this.#endpoints.ask(methods.range, request, limits)
    const revision = this.#base.revision(checkedHeader(response.header).revision)
    this.#lineage.saw(revision, before)
    return { revision, response }
  }

  /** etcd bounds a page by items only, so its bytes are estimated from the pairs seen before. */
  #requestItems(items: number, bytes: number): number {
    return Math.max(1, Math.min(items, Math.floor(bytes / this.#meanPairBytes)))
  }

  #learnSize(pairs: number, bytes: number): void {
    if (pairs > 0) this.#meanPairBytes = Math.max(bytes / pairs, 64)
  }
}

/** Describes a transaction by its first operation. Without operations it is a read. */
function describe({ compares, onSuccess, onFailure }: Transaction): {
  operation: StorageOperation
  key: string
} {
  const [first] = onSuccess
  if (first === undefined) return { operation: 'get', key: onFailure?.[0] ?? '' }
  const { type, key } = first
  if (type === 'delete') return { operation: 'delete', key }
  const creates = compares.some(compare => compare.key === key && compare.modRevision === zeroRevision)
  return { operation: creates ? 'create' : 'update', key }
}
