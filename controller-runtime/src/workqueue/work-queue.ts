import { type CancelTimer, type Clock, systemClock } from '../clock.ts'
import { DelayHeap } from './delay-heap.ts'
import { ReadyLanes } from './ready-lanes.ts'

export const workQueueDefaults = Object.freeze({
  /** First delay of a failing key; each further failure in a row doubles it. As in client-go and controller-runtime. */
  backoffBaseMs: 5,
  /** Longest delay of a failing key: 1000 s, as in client-go and controller-runtime. */
  backoffMaxMs: 1_000_000,
})

/** Priorities in use; higher ones are handed out first. As in controller-runtime. */
export const priorities = Object.freeze({
  /** A change that just happened. */
  live: 0,
  /** What a start or a resync brings up: it must not keep live changes waiting. */
  initial: -100,
})

export interface WorkQueueOptions {
  readonly clock?: Clock
  readonly backoffBaseMs?: number
  readonly backoffMaxMs?: number
}

export interface AddOptions {
  /** Default `priorities.live`. Of several adds of one key the highest counts. */
  readonly priority?: number
}

/** One key, handed out: nobody else gets it before `done`. */
export interface WorkItem {
  readonly key: string
  readonly priority: number
}

/**
 * Where a key's entry is:
 *
 *     add ─────────────> ready ──get──> (handed out; the entry is gone)
 *     add, handed out ─> held ──done──> ready
 *     addAfter ────────> waiting ──time, add──> ready, or held where handed out
 */
type Place = 'ready' | 'held' | 'waiting'

interface Entry {
  readonly key: string
  place: Place
  priority: number
  readyAt: number
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
 * - Higher priorities first; within one, in the order of becoming ready.
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
  /** Every key in the queue; those handed out only where they were added again. Keeps "once" of the guarantees. */
  readonly #entries = new Map<string, Entry>()
  readonly #ready = new ReadyLanes<Entry>()
  readonly #waiting = new DelayHeap<Entry>()
  readonly #handedOut = new Set<string>()
  /** Failures in a row; no entry for a key that did not fail since `forget`. */
  readonly #failures = new Map<string, number>()
  readonly #getters = new Set<(item: WorkItem | undefined) => void>()
  readonly #drainers = new Set<() => void>()
  #order = 0
  #timer: { readonly at: number; readonly cancel: CancelTimer } | undefined
  #shutDown = false

  constructor(options: WorkQueueOptions = {}) {
    this.#clock = options.clock ?? systemClock
    this.#backoffBaseMs = options.backoffBaseMs ?? workQueueDefaults.backoffBaseMs
    this.#backoffMaxMs = options.backoffMaxMs ?? workQueueDefaults.backoffMaxMs
  }

  /** Keys that are ready, or will be as soon as their current run is done. */
  get depth(): number {
    return this.#entries.size - this.#waiting.size
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

  /** Makes a key ready. Ignored once shut down. */
  add(key: string, options: AddOptions = {}): void {
    if (this.#shutDown) return
    this.#addAt(key, undefined, options.priority ?? priorities.live)
  }

  /** Makes a key ready after `delayMs` of any length, or at its earlier time where it has one. 0 or less is `add`. */
  addAfter(key: string, delayMs: number, options: AddOptions = {}): void {
    if (this.#shutDown) return
    const readyAt = delayMs > 0 ? this.#clock.monotonic() + delayMs : undefined
    this.#addAt(key, readyAt, options.priority ?? priorities.live)
  }

  /**
   * Counts a failure of the key and adds it after its back-off: `backoffBaseMs * 2^n` for the n-th failure after the
   * first, at most `backoffMaxMs`, and at least `atLeastMs`. Answers the delay in ms.
   */
  addRateLimited(key: string, options: AddOptions & { readonly atLeastMs?: number } = {}): number {
    const failures = this.#failures.get(key) ?? 0
    const backoffMs = Math.min(this.#backoffBaseMs * 2 ** failures, this.#backoffMaxMs)
    const delayMs = Math.max(backoffMs, options.atLeastMs ?? 0)
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
    const entry = this.#ready.shift()
    if (entry !== undefined) return Promise.resolve(this.#handOut(entry))
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
   * Gives back a key that was handed out.
   * @throws Error for a key that is not: two workers would be at it.
   */
  done(key: string): void {
    if (!this.#handedOut.delete(key)) throw new Error(`work queue: ${JSON.stringify(key)} is not handed out`)
    const entry = this.#entries.get(key)
    if (entry?.place === 'held') this.#makeReady(entry)
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
    this.#failures.clear()
    for (const settle of this.#getters) settle(undefined)
    this.#getters.clear()
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

  #addAt(key: string, readyAt: number | undefined, priority: number): void {
    const existing = this.#entries.get(key)
    if (existing === undefined) {
      const entry: Entry = {
        key,
        place: 'waiting',
        priority,
        readyAt: readyAt ?? 0,
        order: this.#order++,
        heapIndex: -1,
        before: undefined,
        after: undefined,
      }
      this.#entries.set(key, entry)
      if (readyAt === undefined) this.#makeReady(entry)
      else this.#wait(entry)
      return
    }
    if (priority > existing.priority) this.#raise(existing, priority)
    if (existing.place !== 'waiting') return
    if (readyAt === undefined) {
      this.#waiting.remove(existing)
      this.#makeReady(existing)
      this.#arm()
    } else if (readyAt < existing.readyAt) {
      this.#waiting.remove(existing)
      existing.readyAt = readyAt
      this.#wait(existing)
    }
  }

  /** A raised key goes to the end of its new priority. */
  #raise(entry: Entry, priority: number): void {
    if (entry.place === 'ready') this.#ready.remove(entry)
    entry.priority = priority
    if (entry.place === 'ready') this.#ready.push(entry)
  }

  #wait(entry: Entry): void {
    this.#waiting.push(entry)
    this.#arm()
  }

  /** The entry stands nowhere. It goes to a waiting getter at once, so that no wake-up can get lost in between. */
  #makeReady(entry: Entry): void {
    if (this.#handedOut.has(entry.key)) {
      entry.place = 'held'
      return
    }
    entry.place = 'ready'
    for (const settle of this.#getters) {
      this.#getters.delete(settle)
      settle(this.#handOut(entry))
      return
    }
    this.#ready.push(entry)
  }

  #handOut(entry: Entry): WorkItem {
    this.#entries.delete(entry.key)
    this.#handedOut.add(entry.key)
    return { key: entry.key, priority: entry.priority }
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
