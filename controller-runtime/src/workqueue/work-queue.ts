import { type CancelTimer, type Clock, systemClock } from '../clock.ts'
import { Chain } from './chain.ts'
import { DelayHeap } from './delay-heap.ts'
import type { WorkQueueObserver } from './queue-observer.ts'
import { type Ageing, ReadyLanes } from './ready-lanes.ts'
import { TokenBucket } from './token-bucket.ts'

/** Numbers that work queues work with. */
export const workQueueDefaults = Object.freeze({
  /** First delay of a failing key; each further failure in a row doubles it. As in client-go and controller-runtime. */
  backoffBaseMs: 5,
  /** Longest delay of a failing key: 1000 s, as in client-go and controller-runtime. */
  backoffMaxMs: 1_000_000,
  /** What is ready for this long at a low priority takes its turn. Most starts are through by then, and keep to the order. */
  agedAfterMs: 10_000,
  /** Every tenth key that is handed out is then an aged one: live changes lose a tenth of the workers, not their place. */
  agedShare: 10,
})

/** Priorities in use; higher ones are handed out first. As in controller-runtime. */
export const priorities = Object.freeze({
  /** A change that just happened. */
  live: 0,
  /** What a start or a resync brings up: it must not keep live changes waiting. */
  initial: -100,
})

/** What a work queue works with. */
export interface WorkQueueOptions {
  readonly clock?: Clock
  readonly backoffBaseMs?: number
  readonly backoffMaxMs?: number
  /**
   * Retries a second over all keys together, on top of each key's own back-off, after a burst of `burst`. Off by
   * default, as in controller-runtime: one key that fails should not delay another.
   */
  readonly rate?: { readonly perSecond: number; readonly burst: number }
  /** Default: `agedAfterMs` and `agedShare` of `workQueueDefaults`. */
  readonly ageing?: Ageing
  readonly observer?: WorkQueueObserver
}

/** How urgent a key is. */
export interface AddOptions {
  /** Default `priorities.live`. Of several adds of one key the highest counts. */
  readonly priority?: number
  /** Why, for logs and traces. Of several adds of one key the latest counts. */
  readonly reason?: string
}

/** One key, handed out: nobody else gets it before `done`. */
export interface WorkItem {
  readonly key: string
  readonly priority: number
  readonly reason: string | undefined
}

/**
 * Where a key is queued:
 *
 *     add ─────────────> ready ──get──> nowhere, and handed out
 *     add, handed out ─> held ──done──> ready
 *     addAfter ────────> waiting ──time, add──> ready, or held where handed out
 *
 * An entry goes with `done`, where its key is queued nowhere by then.
 */
type Place = 'nowhere' | 'ready' | 'held' | 'waiting'

interface Entry {
  readonly key: string
  place: Place
  /** Since when it is handed out (monotonic ms); undefined where it is not. It then stands in the chain of those. */
  handedOutAt: number | undefined
  priority: number
  reason: string | undefined
  /** Monotonic ms: from when it may be handed out, and once that has come, since when. */
  readyAt: number
  lanedAt: number
  order: number
  heapIndex: number
  before: Entry | undefined
  after: Entry | undefined
}

/**
 * The keys of objects that need work.
 *
 * Guarantees
 * - A key is in the queue once, however often it is added; of several adds the highest priority and the earliest
 *   time count. An `add` makes a key that waits for its time ready at once.
 * - A key that is handed out is not handed out again before `done`. Added meanwhile, it is handed out once more then.
 * - No add is lost: each is followed by a `get` of its key that begins after it, unless the queue is shut down.
 * - Higher priorities first; within one, in the order of becoming ready. But every `agedShare`-th key handed out is one
 *   of lower priority that is ready for `agedAfterMs`, so that none is starved: see `ReadyLanes`.
 * - One timer, whatever waits.
 *
 * Semantics of controller-runtime's priority queue (`pkg/controller/priorityqueue`) with client-go's back-off.
 *
 * Why p-queue, which bounds the runs of a controller, is not used here: it queues functions, not keys, so it can
 * neither join two adds of one key, nor raise or delay what is queued, nor hold a key back while it is worked on;
 * and its priorities are a sorted array, where each insertion moves what is behind it.
 */
export class WorkQueue {
  readonly #clock: Clock
  readonly #backoffBaseMs: number
  readonly #backoffMaxMs: number
  /**
   * Every key that is queued or handed out. Keeps "once" of the guarantees; and one table for both, because what a key
   * costs is the looking up of its string.
   */
  readonly #entries = new Map<string, Entry>()
  readonly #ready: ReadyLanes<Entry>
  readonly #waiting = new DelayHeap<Entry>()
  readonly #handedOut = new Chain<Entry>()
  /** How many entries are held. */
  #held = 0
  /** Failures in a row; no entry for a key that did not fail since `forget`. */
  readonly #failures = new Map<string, number>()
  readonly #getters = new Set<(item: WorkItem | undefined) => void>()
  readonly #drainers = new Set<() => void>()
  readonly #awaitingRoom = new Set<{ readonly depth: number; readonly resolve: () => void }>()
  readonly #bucket: TokenBucket | undefined
  readonly #observer: WorkQueueObserver | undefined
  #order = 0
  #timer: { readonly at: number; readonly cancel: CancelTimer } | undefined
  #shutDown = false

  constructor(options: WorkQueueOptions = {}) {
    this.#clock = options.clock ?? systemClock
    this.#backoffBaseMs = options.backoffBaseMs ?? workQueueDefaults.backoffBaseMs
    this.#backoffMaxMs = options.backoffMaxMs ?? workQueueDefaults.backoffMaxMs
    this.#ready = new ReadyLanes(options.ageing ?? workQueueDefaults)
    this.#bucket = options.rate && new TokenBucket(options.rate.perSecond, options.rate.burst)
    this.#observer = options.observer
  }

  /** Keys that are ready, or will be as soon as their current run is done. */
  get depth(): number {
    return this.#ready.size + this.#held
  }
  /** Keys that wait for their time. */
  get delayed(): number {
    return this.#waiting.size
  }
  /** Keys that are handed out. */
  get processing(): number {
    return this.#handedOut.size
  }
  get isShutDown(): boolean {
    return this.#shutDown
  }

  /** Keys that are ready, by priority; those that are held back until `done` count too. */
  depths(): Map<number, number> {
    const depths = new Map(this.#ready.sizes())
    for (const { place, priority } of this.#handedOut) {
      if (place === 'held') depths.set(priority, (depths.get(priority) ?? 0) + 1)
    }
    return depths
  }

  /** For how long each key that is handed out has been so, in ms. */
  *workingMs(): Generator<number> {
    const now = this.#clock.monotonic()
    for (const { handedOutAt = now } of this.#handedOut) yield now - handedOutAt
  }

  /** Makes a key ready. Ignored once shut down. */
  add(key: string, options: AddOptions = {}): void {
    if (this.#shutDown) return
    this.#addAt(key, undefined, options)
  }

  /** Makes a key ready after `delayMs` of any length, or at its earlier time where it has one. 0 or less is `add`. */
  addAfter(key: string, delayMs: number, options: AddOptions = {}): void {
    if (this.#shutDown) return
    const readyAt = delayMs > 0 ? this.#clock.monotonic() + delayMs : undefined
    this.#observer?.retried()
    this.#addAt(key, readyAt, options)
  }

  /**
   * Counts a failure of the key and adds it after its back-off: `backoffBaseMs * 2^n` for the n-th failure after the
   * first, at most `backoffMaxMs`, and at least `atLeastMs` and what the overall rate demands. Answers the delay in ms.
   */
  addRateLimited(key: string, options: AddOptions & { readonly atLeastMs?: number } = {}): number {
    const failures = this.#failures.get(key) ?? 0
    const backoffMs = Math.min(this.#backoffBaseMs * 2 ** failures, this.#backoffMaxMs)
    // Each limiter is charged, also where another one asks for more: client-go's MaxOfRateLimiter.
    const reservedMs = this.#bucket?.reserve(this.#clock.monotonic()) ?? 0
    const delayMs = Math.max(backoffMs, reservedMs, options.atLeastMs ?? 0)
    if (this.#shutDown) return delayMs
    this.#failures.set(key, failures + 1)
    this.addAfter(key, delayMs, options)
    return delayMs
  }

  /** Ends the key's back-off: its next failure counts as the first. It stays in the queue where it is there. */
  forget(key: string): void {
    this.#failures.delete(key)
  }

  /** Failures in a row of the key since the last `forget`. */
  failures(key: string): number {
    return this.#failures.get(key) ?? 0
  }

  /**
   * Waits for a key and hands it out; `done` gives it back. Undefined once the queue is shut down.
   * @throws the signal's reason when aborted; no key is taken then.
   */
  get(signal?: AbortSignal): Promise<WorkItem | undefined> {
    if (signal?.aborted) return Promise.reject(signal.reason)
    if (this.#shutDown) return Promise.resolve(undefined)
    if (this.#ready.size > 0) {
      const now = this.#clock.monotonic()
      const entry = this.#ready.shift(now)
      if (entry !== undefined) return Promise.resolve(this.#handOut(entry, now))
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
   * Waits until fewer than `depth` keys are ready, for who has more to add than is worth queueing. Resolves at once
   * when the queue is shut down.
   * @throws the signal's reason when aborted.
   */
  whenBelow(depth: number, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted) return Promise.reject(signal.reason)
    if (this.#shutDown || this.depth < depth) return Promise.resolve()
    return new Promise((resolve, reject) => {
      const cleanUp = () => {
        this.#awaitingRoom.delete(waiting)
        signal?.removeEventListener('abort', onAbort)
      }
      const onAbort = () => {
        cleanUp()
        reject(signal?.reason)
      }
      const waiting = {
        depth,
        resolve: () => {
          cleanUp()
          resolve()
        },
      }
      signal?.addEventListener('abort', onAbort, { once: true })
      this.#awaitingRoom.add(waiting)
    })
  }

  /**
   * Gives back a key that was handed out.
   * @throws Error for a key that is not: two workers would be at it.
   */
  done(key: string): void {
    const entry = this.#entries.get(key)
    if (entry?.handedOutAt === undefined)
      throw new Error(`work queue: ${JSON.stringify(key)} is not handed out`)
    this.#handedOut.remove(entry)
    this.#observer?.done(this.#clock.monotonic() - entry.handedOutAt)
    entry.handedOutAt = undefined
    if (entry.place === 'nowhere') this.#entries.delete(key)
    else if (entry.place === 'held') {
      this.#held--
      this.#makeReady(entry)
    }
    if (this.#handedOut.size === 0) {
      for (const drained of this.#drainers) drained()
    }
  }

  /** Ends the queue: what is in it is dropped, adds are ignored, and everyone in `get` gets undefined. */
  shutDown(): void {
    this.#shutDown = true
    this.#timer?.cancel()
    this.#timer = undefined
    this.#entries.clear()
    this.#ready.clear()
    this.#waiting.clear()
    this.#held = 0
    for (const entry of this.#handedOut) {
      entry.place = 'nowhere'
      this.#entries.set(entry.key, entry)
    }
    this.#failures.clear()
    for (const settle of this.#getters) settle(undefined)
    this.#getters.clear()
    this.#tellOfRoom()
  }

  /**
   * Shuts down and waits until every key that is handed out is done, at most `timeoutMs`. Answers whether that came
   * to pass.
   * @throws the signal's reason when aborted.
   */
  drain(timeoutMs: number, signal?: AbortSignal): Promise<boolean> {
    this.shutDown()
    if (this.#handedOut.size === 0) return Promise.resolve(true)
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason)
        return
      }
      const finish = (drained: boolean) => {
        cleanUp()
        resolve(drained)
      }
      const onDrained = () => finish(true)
      const onAbort = () => {
        cleanUp()
        reject(signal?.reason)
      }
      const cancel = this.#clock.setTimeout(() => finish(false), timeoutMs)
      const cleanUp = () => {
        cancel()
        this.#drainers.delete(onDrained)
        signal?.removeEventListener('abort', onAbort)
      }
      this.#drainers.add(onDrained)
      signal?.addEventListener('abort', onAbort, { once: true })
    })
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
    existing.reason = options.reason ?? existing.reason
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
      handedOutAt: undefined,
      priority: priorities.live,
      reason: undefined,
      readyAt: 0,
      lanedAt: 0,
      order: 0,
      heapIndex: -1,
      before: undefined,
      after: undefined,
    }
    this.#entries.set(key, entry)
    return entry
  }

  /** A raised key goes to the end of its new priority. */
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

  /** The entry stands nowhere. It goes to a waiting getter at once, so that no wake-up can get lost in between. */
  #makeReady(entry: Entry): void {
    const now = this.#clock.monotonic()
    if (entry.place !== 'held') entry.readyAt = now
    if (entry.handedOutAt !== undefined) {
      entry.place = 'held'
      this.#held++
      return
    }
    entry.place = 'ready'
    for (const settle of this.#getters) {
      this.#getters.delete(settle)
      settle(this.#handOut(entry, now))
      return
    }
    this.#ready.push(entry, now)
  }

  #handOut(entry: Entry, now: number): WorkItem {
    const { key, priority, reason, readyAt } = entry
    entry.place = 'nowhere'
    entry.handedOutAt = now
    this.#handedOut.push(entry)
    this.#observer?.handedOut(now - readyAt)
    if (this.#awaitingRoom.size > 0) this.#tellOfRoom()
    return { key, priority, reason }
  }

  #tellOfRoom(): void {
    for (const waiting of [...this.#awaitingRoom]) {
      if (this.depth < waiting.depth) waiting.resolve()
    }
  }

  /** Sees to it that the timer fires no later than the earliest deadline. Too early is harmless: it arms again. */
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
