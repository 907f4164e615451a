import type { CancelTimer, Clock } from '../clock.ts'

interface FakeTimer {
  readonly at: number
  readonly order: number
  readonly callback: () => void
}

/**
 * A clock that stands still until a test advances it. `advance` fires due timers in order and lets promises settle in
 * between, so that timers may set further timers.
 */
export class FakeClock implements Clock {
  #wallOffsetMs: number
  #monotonicMs = 0
  #order = 0
  readonly #timers = new Set<FakeTimer>()

  /** @param startMs start of the wall clock, in ms since the epoch */
  constructor(startMs = Date.UTC(2030, 0, 1)) {
    this.#wallOffsetMs = startMs
  }

  now(): number {
    return this.#wallOffsetMs + this.#monotonicMs
  }

  monotonic(): number {
    return this.#monotonicMs
  }

  setTimeout(callback: () => void, delayMs: number): CancelTimer {
    const timer = { at: this.#monotonicMs + Math.max(0, delayMs), order: this.#order++, callback }
    this.#timers.add(timer)
    return () => this.#timers.delete(timer)
  }

  /** Number of pending timers. */
  get pendingTimers(): number {
    return this.#timers.size
  }

  /** Ms until the next timer fires, or undefined without a timer. */
  get nextTimerInMs(): number | undefined {
    const next = this.#next()
    return next && next.at - this.#monotonicMs
  }

  /** Advances the time by `ms` and fires due timers. */
  async advance(ms: number): Promise<void> {
    const end = this.#monotonicMs + ms
    await settle()
    while (this.#fireNext(end)) await settle()
    this.#monotonicMs = end
    await settle()
  }

  /** Advances the time by `ms` and fires due timers, without letting promises settle. */
  advanceSync(ms: number): void {
    const end = this.#monotonicMs + ms
    while (this.#fireNext(end)) {}
    this.#monotonicMs = end
  }

  /** Fires the next timer if it is due by `end`. Returns false if no timer is due. */
  #fireNext(end: number): boolean {
    const timer = this.#next()
    if (timer === undefined || timer.at > end) return false
    this.#monotonicMs = Math.max(this.#monotonicMs, timer.at)
    this.#timers.delete(timer)
    timer.callback()
    return true
  }

  /** Advances the time without firing timers, as if the event loop were blocked; the next advance fires them. */
  stall(ms: number): void {
    this.#monotonicMs += ms
  }

  /** Changes only the wall clock, as an administrator or NTP would. */
  jump(ms: number): void {
    this.#wallOffsetMs += ms
  }

  #next(): FakeTimer | undefined {
    let next: FakeTimer | undefined
    for (const timer of this.#timers) {
      if (next === undefined || timer.at < next.at || (timer.at === next.at && timer.order < next.order)) {
        next = timer
      }
    }
    return next
  }
}

/** Runs the microtask queue and one turn of the event loop. */
function settle(): Promise<void> {
  return new Promise(resolve => setImmediate(resolve))
}
