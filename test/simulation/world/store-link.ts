import type { Revision } from '@setpoint/controller-runtime/api'
import {
  type CallOptions,
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
} from '../../../apiserver/src/storage/index.ts'
import type { WorldEvent } from './event-heap.ts'
import type { WorldNode } from './node.ts'
import type { Scheduler } from './scheduler.ts'
import type { StoreCore } from './store-core.ts'
import type { StoreService } from './store-service.ts'
import type { SeededRandom } from './world.ts'

export const linkDefaults = Object.freeze({
  /** Milliseconds for a call with all its steps, as on etcd. */
  deadlineMs: 5_000,
  /** Revisions of a batch of a watch. */
  watchRevisions: 100,
  /** Probability that a lost outcome stays unknown. */
  staysUnknown: 0.3,
  /** Milliseconds within which a transaction that was taken for lost may still happen. */
  lateMs: 8_000,
})

/** How a transaction fares. */
type Fate = 'arrives' | 'responseLost' | 'requestLost' | 'late'

/** The store as one server sees it: calls take time, and get lost. */
export class StoreLink implements Storage {
  readonly #scheduler: Scheduler
  readonly #core: StoreCore
  readonly #service: StoreService
  readonly #node: WorldNode
  readonly #random: SeededRandom
  /** The life of the store that it knows. */
  readonly life: number
  /** Every change up to here has been delivered to this server. */
  #delivered: Revision
  #deliveredAt = 0
  readonly #wakers = new Set<() => void>()
  readonly #failing = new Set<(error: Error) => void>()
  #isClosed = false

  constructor(parts: {
    scheduler: Scheduler
    core: StoreCore
    service: StoreService
    node: WorldNode
    random: SeededRandom
  }) {
    this.#scheduler = parts.scheduler
    this.#core = parts.core
    this.#service = parts.service
    this.#node = parts.node
    this.#random = parts.random
    this.life = parts.core.life
    this.#delivered = parts.core.current
    parts.service.attach(this)
  }

  get node(): WorldNode {
    return this.#node
  }

  /** The store has committed: the change is delivered later. */
  committed(revision: Revision): void {
    const at = this.#scheduler.now + this.#service.watchDelay(this.#node)
    this.#deliveredAt = Math.max(this.#deliveredAt, at)
    this.#scheduler.scheduleAt(this.#node, this.#deliveredAt, () => {
      this.#delivered = revision
      this.#wake()
    })
  }

  /** The store was replaced: watches hear of it later. */
  replaced(): void {
    this.#scheduler.schedule(this.#node, this.#service.watchDelay(this.#node), () => this.#wake())
  }

  get(key: string, options?: CallOptions): Promise<{ revision: Revision; pair: KeyValue | undefined }> {
    return this.#read(options, () => ({ revision: this.#core.current, pair: this.#core.get(key) }))
  }

  list(prefix: string, options: ListOptions = {}): Promise<ListPage> {
    return this.#read(options, () => this.#core.list(prefix, options))
  }

  head(options?: CallOptions): Promise<{ current: Revision; written: Revision }> {
    return this.#read(options, () => ({ current: this.#core.current, written: this.#core.current }))
  }

  compact(revision: Revision, options?: CallOptions): Promise<void> {
    return this.#read(options, () => this.#core.compact(revision))
  }

  space(options?: CallOptions): Promise<StoreSpace> {
    return this.#read(options, () => ({
      sizeBytes: this.#core.isFull ? 2 ** 31 : 2 ** 20,
      usedBytes: this.#core.bytes,
      quotaBytes: 2 ** 31,
      diskFreeBytes: undefined,
    }))
  }

  transact(transaction: Transaction, options?: CallOptions): Promise<TransactionResult> {
    const { name } = this.#node
    if (transaction.onSuccess.length === 0)
      return this.#read(options, () => this.#core.transact(transaction, name))
    const fate = this.#fateOf()
    return this.#call(options, call => {
      // From now on it may happen, also without a response.
      call.isSent = true
      const apply = () => this.#core.transact(transaction, name, call.isOver || this.#node.isDead)
      if (fate === 'arrives') this.#send(call, apply)
      else this.#lose(call, fate, apply)
    })
  }

  async *watch(
    prefix: string,
    { after, until, signal }: WatchOptions,
  ): AsyncGenerator<WatchBatch, void, undefined> {
    let wake = () => {}
    const onWake = () => wake()
    this.#wakers.add(onWake)
    signal.addEventListener('abort', onWake)
    try {
      for (let delivered = after; !signal.aborted && !this.#isClosed; ) {
        if (this.#isReplaced) throw wrongStore()
        // Also of a watch that has nothing to deliver: callers learn from it what the store still has.
        if (delivered < this.#core.compacted) this.#core.commitsAfter(delivered, delivered)
        if (until !== undefined && delivered >= until) return
        // A watch up to a revision asks for changes that the store has.
        const reached = until !== undefined && until > this.#delivered ? until : this.#delivered
        if (delivered >= reached) {
          await new Promise<void>(resolve => {
            wake = resolve
          })
          continue
        }
        const batch = this.#gather(prefix, delivered, reached, until !== undefined)
        delivered = batch.revision
        yield batch
      }
    } finally {
      this.#wakers.delete(onWake)
      signal.removeEventListener('abort', onWake)
    }
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#service.detach(this)
    for (const fail of this.#failing) fail(new StoreUnavailableError('the store is closed'))
    this.#wake()
  }

  /** What the adapter of etcd finds out from its base, its fence, and the tip of the log. */
  get #isReplaced(): boolean {
    return this.#core.life !== this.life
  }

  #wake(): void {
    for (const wake of [...this.#wakers]) wake()
  }

  #gather(prefix: string, after: Revision, reached: Revision, withPrevious: boolean): WatchBatch {
    const commits = this.#core
      .commitsAfter(after, reached)
      .slice(0, this.#random.int(1, linkDefaults.watchRevisions))
    const changes = commits.flatMap(commit =>
      commit.changes.flatMap(({ key, revision, value, previous, createRevision }) =>
        key.startsWith(prefix)
          ? [{ key, revision, value, previous: withPrevious ? previous : undefined, createRevision }]
          : [],
      ),
    )
    return { changes, revision: commits.at(-1)?.revision ?? reached }
  }

  #read<T>(options: CallOptions | undefined, apply: () => T): Promise<T> {
    return this.#call<T>(options, call => this.#send(call, apply))
  }

  /** Begins a call, which ends with a response, an abort, or its deadline. */
  #call<T>(options: CallOptions | undefined, begin: (call: Call<T>) => void): Promise<T> {
    const signal = options?.signal
    return new Promise<T>((resolve, reject) => {
      if (this.#isClosed) throw new StoreUnavailableError('the store is closed')
      signal?.throwIfAborted()
      const call: Call<T> = {
        isOver: false,
        isSent: false,
        resolve: value => {
          if (end()) resolve(value)
        },
        reject: error => {
          if (end()) reject(error)
        },
      }
      const end = () => {
        if (call.isOver) return false
        call.isOver = true
        deadline.isCancelled = true
        signal?.removeEventListener('abort', aborted)
        this.#failing.delete(fail)
        return true
      }
      const fail = (error: Error) =>
        call.reject(
          call.isSent ? new OutcomeUnknownError('no response to a transaction', { cause: error }) : error,
        )
      const aborted = () => fail(signal?.reason)
      const deadline: WorldEvent = this.#scheduler.schedule(this.#node, linkDefaults.deadlineMs, () =>
        fail(new StoreUnavailableError(`no response of the store for ${linkDefaults.deadlineMs} ms`)),
      )
      signal?.addEventListener('abort', aborted, { once: true })
      this.#failing.add(fail)
      begin(call)
    })
  }

  /** Brings a call to the store and its result back. */
  #send<T>(call: Call<T>, apply: () => T): void {
    this.#service.arrive(this.#node, () => {
      if (call.isOver && !call.isSent) return
      this.#respond(call, this.#resultOf(apply))
    })
  }

  #respond<T>(call: Call<T>, respond: (call: Call<T>) => void): void {
    this.#service.leave(this.#node, () => respond(call))
  }

  /** Applies a call now; the response is for later. */
  #resultOf<T>(apply: () => T): (call: Call<T>) => void {
    if (this.#isReplaced) return call => call.reject(wrongStore())
    try {
      const value = apply()
      return call => call.resolve(value)
    } catch (error) {
      return call => call.reject(error)
    }
  }

  #fateOf(): Fate {
    if (!this.#service.losesResponse(this.#node)) return 'arrives'
    return this.#random.pick(['responseLost', 'requestLost', 'late'])
  }

  /**
   * Loses a transaction or its response. Mostly the adapter of etcd finds out what happened, after some round trips, and
   * sends again what did not; otherwise the outcome stays unknown, and what is late may happen afterwards.
   */
  #lose(call: Call<TransactionResult>, fate: Fate, apply: () => TransactionResult): void {
    const isFound = fate !== 'late' && !this.#random.chance(linkDefaults.staysUnknown)
    if (isFound && fate === 'requestLost') {
      // The fence keeps it from happening; it is sent again.
      this.#service.arrive(this.#node, () => this.#send(call, apply))
      return
    }
    if (fate === 'responseLost')
      this.#service.arrive(this.#node, () => {
        const respond = this.#resultOf(apply)
        if (isFound) this.#respond(call, respond)
        else this.#forget(call)
      })
    else {
      if (fate === 'late')
        this.#service.later(this.#random.next() * linkDefaults.lateMs, () => this.#resultOf(apply))
      this.#forget(call)
    }
  }

  #forget(call: Call<TransactionResult>): void {
    // Sometimes the adapter gives up long before the deadline: the connection broke and the history was compacted.
    const ms = this.#random.next() ** 2 * linkDefaults.deadlineMs
    this.#scheduler.schedule(this.#node, ms, () =>
      call.reject(new OutcomeUnknownError('no response to a transaction, which may have happened')),
    )
  }
}

interface Call<T> {
  isOver: boolean
  /** True once it may have changed the store although it has no response. */
  isSent: boolean
  resolve(value: T): void
  reject(error: unknown): void
}

function wrongStore(): WrongStoreError {
  return new WrongStoreError('the store was replaced or restored. To go on with it, restart the server')
}
