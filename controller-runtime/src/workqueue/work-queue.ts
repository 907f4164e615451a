import { type CancelTimer, type Clock, systemClock } from '../clock.ts'
import { settledWithin } from '../settled-within.ts'
import { unlessAborted } from '../unless-aborted.ts'
import { DelayHeap } from './delay-heap.ts'
import { LinkedList } from './linked-list.ts'
import type { WorkQueueObserver } from './queue-observer.ts'
import { type Ageing, ReadyQueue } from './ready-queue.ts'
import { TokenBucket } from './token-bucket.ts'

export const workQueueDefaults = Object.freeze({
  /** First delay of a failing key in ms; each further failure doubles it. As in client-go and controller-runtime. */
  backoffBaseMs: 5,
  /** Longest delay of a failing key: 1000 s, as in client-go and controller-runtime. */
  backoffMaxMs: 1_000_000,
  /** A key of low priority has aged after being ready this long. Most starts are over by then. */
  agedAfterMs: 10_000,
  /** Every tenth key returned may be an aged one, so live changes lose at most a tenth of the workers. */
  agedShare: 10,
})

/** Priorities in use; higher ones first. As in controller-runtime. */
export const priorities = Object.freeze({
  /** A change that has just happened. */
  live: 0,
  /** Work of a start or a resync, which must not delay live changes. */
  initial: -100,
})

export interface WorkQueueOptions {
  readonly clock?: Clock
  readonly backoffBaseMs?: number
  readonly backoffMaxMs?: number
  /**
   * Retries per second over all keys, after a burst of `burst`, in addition to each key's back-off. Off by default, as
   * in controller-runtime: a failing key should not delay others.
   */
  readonly rate?: { readonly perSecond: number; readonly burst: number }
  /** Default: `agedAfterMs` and `agedShare` of `workQueueDefaults`. */
  readonly ageing?: Ageing
  readonly observer?: WorkQueueObserver
}

/** Options of adding a key. */
export interface AddOptions {
  /** Default `priorities.live`. Of several adds of a key, the highest applies. */
  readonly priority?: number
  /**
   * The reason, for logs and traces. Of several adds of a key, the latest applies that made it ready, or ready earlier.
   */
  readonly reason?: string
}

/** A key returned by `get`. It is not returned again before `done`. */
export interface WorkItem {
  readonly key: string
  readonly priority: number
  readonly reason: string | undefined
}

/**
 * Where a key is queued:
 *
 *     add ───────────────> ready ──get──> nowhere, and processing
 *     add, processing ───> held ──done──> ready
 *     addAfter ──────────> waiting ──time, add──> ready, or held if processing
 *
 * `done` deletes the entry if its key is queued nowhere.
 */
type Place = 'nowhere' | 'ready' | 'held' | 'waiting'

interface Entry {
  readonly key: string
  place: Place
  /** Monotonic ms since when it is processing; then it is in the list of those. Otherwise undefined. */
  takenAt: number | undefined
  priority: number
  reason: string | undefined
  /** Monotonic ms: while waiting, when it becomes ready; after that, when it became ready. */
  readyAt: number
  queuedAt: number
  order: number
  heapIndex: number
  before: Entry | undefined
  after: Entry | undefined
}

/**
 * A rate-limited work queue for the keys of objects.
 *
 * Guarantees
 * - A key is queued once, however often it is added. Of several adds, the highest priority and the earliest time apply.
 *   `add` makes a delayed key ready at once.
 * - A key being processed is not returned again before `done`. If it is added meanwhile, it is returned once more
 *   after.
 * - No add is lost: each is followed by a `get` of its key, unless the queue is shut down.
 * - Higher priorities first; within one, in the order of becoming ready. To prevent starvation, every `agedShare`-th
 *   key may be one that has been ready for `agedAfterMs`: see `ReadyQueue`.
 * - All delayed keys share one timer.
 *
 * Semantics of controller-runtime's priority queue (`pkg/controller/priorityqueue`) with client-go's back-off.
 *
 * p-queue, which limits the concurrency of a controller, cannot do this: it queues functions, not keys, so it cannot
 * deduplicate, raise or delay them, or hold back a key being processed.
 */
export class WorkQueue {
  readonly #clock: Clock
  readonly #backoffBaseMs: number
  readonly #backoffMaxMs: number
  /** Every key that is queued or processing. One table, because looking up the string is what a key costs. */
  readonly #entries = new Map<string, Entry>()
  readonly #ready: ReadyQueue<Entry>
  readonly #waiting = new DelayHeap<Entry>()
  readonly #processing = new LinkedList<Entry>()
  /** Number of held entries. */
  #held = 0
  /** Consecutive failures by key, since `forget`. */
  readonly #failures = new Map<string, number>()
  readonly #getters = new Set<(item: WorkItem | undefined) => void>()
  /** Called when a key is taken, and at shutdown. */
  #onRoom: (() => void)[] = []
  /** Called when no key is in process. */
  #onDrained: (() => void)[] = []
  readonly #bucket: TokenBucket | undefined
  readonly #observer: WorkQueueObserver | undefined
  #order = 0
  #timer: { readonly at: number; readonly cancel: CancelTimer } | undefined
  #shutDown = false

  constructor(options: WorkQueueOptions = {}) {
    this.#clock = options.clock ?? systemClock
    this.#backoffBaseMs = options.backoffBaseMs ?? workQueueDefaults.backoffBaseMs
    this.#backoffMaxMs = options.backoffMaxMs ?? workQueueDefaults.backoffMaxMs
    this.#ready = new ReadyQueue(options.ageing ?? workQueueDefaults)
    this.#bucket = options.rate && new TokenBucket(options.rate.perSecond, options.rate.burst)
    this.#observer = options.observer
  }

  /** Keys that are ready, or will be when their current run is done. */
  get depth(): number {
    return this.#ready.size + this.#held
  }
  /** Keys that wait for their time. */
  get delayed(): number {
    return this.#waiting.size
  }
  /** Keys returned by `get` and not yet done. */
  get processing(): number {
    return this.#processing.size
  }
  get isShutDown(): boolean {
    return this.#shutDown
  }

  /** Number of ready keys by priority, including those held back until `done`. */
  depths(): Map<number, number> {
    const depths = new Map(this.#ready.sizes())
    for (const { place, priority } of this.#processing) {
      if (place === 'held') depths.set(priority, (depths.get(priority) ?? 0) + 1)
    }
    return depths
  }

  /** Yields for each key in process how long it has been so, in ms. */
  *workingMs(): Generator<number> {
    const now = this.#clock.monotonic()
    for (const { takenAt = now } of this.#processing) yield now - takenAt
  }

  /** Makes a key ready. Ignored after shutdown. */
  add(key: string, options: AddOptions = {}): void {
    if (this.#shutDown) return
    this.#addAt(key, undefined, options)
  }

  /** Makes a key ready after `delayMs`, or at its earlier time if it has one. 0 or less is `add`. */
  addAfter(key: string, delayMs: number, options: AddOptions = {}): void {
    if (this.#shutDown) return
    const readyAt = delayMs > 0 ? this.#clock.monotonic() + delayMs : undefined
    this.#observer?.retried()
    this.#addAt(key, readyAt, options)
  }

  /**
   * Counts a failure of the key and adds it after its back-off: `backoffBaseMs * 2^n` for the n-th failure after the
   * first, at most `backoffMaxMs`, but at least `atLeastMs` and the delay of the overall rate. Returns the delay in
   * whole ms.
   */
  addRateLimited(key: string, options: AddOptions & { readonly atLeastMs?: number } = {}): number {
    const failures = this.#failures.get(key) ?? 0
    const backoffMs = Math.min(this.#backoffBaseMs * 2 ** failures, this.#backoffMaxMs)
    // Always reserves, even if another delay is longer: client-go's MaxOfRateLimiter.
    const reservedMs = this.#bucket?.reserve(this.#clock.monotonic()) ?? 0
    const delayMs = Math.round(Math.max(backoffMs, reservedMs, options.atLeastMs ?? 0))
    if (this.#shutDown) return delayMs
    this.#failures.set(key, failures + 1)
    this.addAfter(key, delayMs, options)
    return delayMs
  }

  /** Resets the key's back-off. A queued key stays queued. */
  forget(key: string): void {
    this.#failures.delete(key)
  }

  /** Consecutive failures of the key since the last `forget`. */
  failures(key: string): number {
    return this.#failures.get(key) ?? 0
  }

  /**
   * Waits for a key and returns it; call `done` afterwards. Returns undefined once the queue is shut down.
   * @throws the signal's reason when aborted; no key is taken then.
   */
  get(signal?: AbortSignal): Promise<WorkItem | undefined> {
    if (signal?.aborted) return Promise.reject(signal.reason)
    if (this.#shutDown) return Promise.resolve(undefined)
    if (this.#ready.size > 0) {
      const now = this.#clock.monotonic()
      const entry = this.#ready.shift(now)
      if (entry !== undefined) return Promise.resolve(this.#take(entry, now))
    }
    return new Promise((resolve, reject) => {
      const settle = (item: WorkItem | undefined) => {
        signal?.removeEventListener('abort', onAbort)
        resolve(item)
      }
      const onAbort = () => {
        this.#getters.delete(settle)
        reject(signal?.reason)
      }
      signal?.addEventListener('abort', onAbort, { once: true })
      this.#getters.add(settle)
    })
  }

  /**
   * Waits until fewer than `depth` keys are ready, as back-pressure for producers. Resolves at once after shutdown.
   * @throws the signal's reason when aborted.
   */
  async whenBelow(depth: number, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted()
    while (!this.#shutDown && this.depth >= depth) {
      await unlessAborted(new Promise<void>(resolve => this.#onRoom.push(resolve)), signal)
    }
  }

  /**
   * Marks a key as processed.
   * @throws Error if the key is not being processed.
   */
  done(key: string): void {
    const entry = this.#entries.get(key)
    if (entry?.takenAt === undefined)
      throw new Error(`work queue: ${JSON.stringify(key)} is not being processed`)
    this.#processing.remove(entry)
    this.#observer?.done(this.#clock.monotonic() - entry.takenAt)
    entry.takenAt = undefined
    if (entry.place === 'nowhere') this.#entries.delete(key)
    else if (entry.place === 'held') {
      this.#held--
      this.#makeReady(entry)
    }
    if (this.#processing.size === 0 && this.#onDrained.length > 0) {
      for (const onDrained of this.#onDrained.splice(0)) onDrained()
    }
  }

  /** Shuts down: drops all queued keys, ignores further adds, and resolves every `get` with undefined. */
  shutDown(): void {
    this.#shutDown = true
    this.#timer?.cancel()
    this.#timer = undefined
    this.#entries.clear()
    this.#ready.clear()
    this.#waiting.clear()
    this.#held = 0
    for (const entry of this.#processing) {
      entry.place = 'nowhere'
      this.#entries.set(entry.key, entry)
    }
    this.#failures.clear()
    for (const settle of this.#getters) settle(undefined)
    this.#getters.clear()
    this.#notifyOfRoom()
  }

  /**
   * Shuts down and waits up to `timeoutMs` until all keys in process are done. Returns true if they were in time.
   * @throws the signal's reason when aborted.
   */
  async drain(timeoutMs: number, signal?: AbortSignal): Promise<boolean> {
    this.shutDown()
    if (this.#processing.size > 0) {
      const drained = new Promise<void>(resolve => this.#onDrained.push(resolve))
      await unlessAborted(settledWithin(this.#clock, drained, timeoutMs, signal), signal)
    }
    return this.#processing.size === 0
  }

  #addAt(key: string, readyAt: number | undefined, options: AddOptions): void {
    const priority = options.priority ?? priorities.live
    const existing = this.#entries.get(key)
    if (existing === undefined || existing.place === 'nowhere') {
      const entry = existing ?? this.#entryOf(key)
      entry.priority = priority
      entry.reason = options.reason
      entry.order = this.#order++
      this.#observer?.added()
      if (readyAt === undefined) this.#makeReady(entry)
      else this.#wait(entry, readyAt)
      return
    }
    const isEarlier = readyAt === undefined || (existing.place === 'waiting' && readyAt < existing.readyAt)
    if (isEarlier) existing.reason = options.reason ?? existing.reason
    if (priority > existing.priority) this.#raise(existing, priority)
    if (existing.place !== 'waiting') return
    if (readyAt === undefined) {
      this.#waiting.remove(existing)
      this.#makeReady(existing)
      this.#arm()
    } else if (readyAt < existing.readyAt) {
      this.#waiting.remove(existing)
      this.#wait(existing, readyAt)
    }
  }

  #entryOf(key: string): Entry {
    const entry: Entry = {
      key,
      place: 'nowhere',
      takenAt: undefined,
      priority: priorities.live,
      reason: undefined,
      readyAt: 0,
      queuedAt: 0,
      order: 0,
      heapIndex: -1,
      before: undefined,
      after: undefined,
    }
    this.#entries.set(key, entry)
    return entry
  }

  /** A raised key moves to the end of its new priority. */
  #raise(entry: Entry, priority: number): void {
    if (entry.place === 'ready') this.#ready.remove(entry)
    entry.priority = priority
    if (entry.place === 'ready') this.#ready.push(entry, this.#clock.monotonic())
  }

  #wait(entry: Entry, readyAt: number): void {
    entry.place = 'waiting'
    entry.readyAt = readyAt
    this.#waiting.push(entry)
    this.#arm()
  }

  /** Makes an unqueued entry ready. A waiting `get` takes it at once, so that no wake-up is lost. */
  #makeReady(entry: Entry): void {
    const now = this.#clock.monotonic()
    if (entry.place !== 'held') entry.readyAt = now
    if (entry.takenAt !== undefined) {
      entry.place = 'held'
      this.#held++
      return
    }
    entry.place = 'ready'
    for (const settle of this.#getters) {
      this.#getters.delete(settle)
      settle(this.#take(entry, now))
      return
    }
    this.#ready.push(entry, now)
  }

  #take(entry: Entry, now: number): WorkItem {
    const { key, priority, reason, readyAt } = entry
    entry.place = 'nowhere'
    entry.takenAt = now
    this.#processing.push(entry)
    this.#observer?.handedOut(now - readyAt)
    this.#notifyOfRoom()
    return { key, priority, reason }
  }

  #notifyOfRoom(): void {
    if (this.#onRoom.length > 0) for (const onRoom of this.#onRoom.splice(0)) onRoom()
  }

  /** Ensures that the timer fires no later than the earliest time. Too early is harmless. */
  #arm(): void {
    const earliest = this.#waiting.earliest
    if (earliest === undefined) {
      this.#timer?.cancel()
      this.#timer = undefined
      return
    }
    if (this.#timer !== undefined && this.#timer.at <= earliest.readyAt) return
    this.#timer?.cancel()
    const cancel = this.#clock.setTimeout(
      () => this.#mature(),
      Math.max(0, earliest.readyAt - this.#clock.monotonic()),
    )
    this.#timer = { at: earliest.readyAt, cancel }
  }

  #mature(): void {
    this.#timer = undefined
    const now = this.#clock.monotonic()
    for (;;) {
      const earliest = this.#waiting.earliest
      if (earliest === undefined || earliest.readyAt > now) break
      this.#waiting.remove(earliest)
      this.#makeReady(earliest)
    }
    this.#arm()
  }
}
