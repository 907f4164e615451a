import type { CancelTimer, Clock } from '../clock.ts'

interface FakeTimer {
  readonly at: number
  readonly order: number
  readonly callback: () => void
}

/**
 * A clock that stands still until a test moves it. `advance` runs what falls due, in order of time, and lets
 * promises settle in between, so that what a timer starts may set timers of its own.
 */
export class FakeClock implements Clock {
  #wallOffsetMs: number
  #monotonicMs = 0
  #order = 0
  readonly #timers = new Set<FakeTimer>()

  /** @param startMs the wall clock's start, ms since the epoch */
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

  /** Timers that are set and have not fired. */
  get pendingTimers(): number {
    return this.#timers.size
  }

  /** Ms until the next timer fires, or undefined where none is set. */
  get nextTimerInMs(): number | undefined {
    const next = this.#next()
    return next && next.at - this.#monotonicMs
  }

  /** Lets `ms` pass. */
  async advance(ms: number): Promise<void> {
    const end = this.#monotonicMs + ms
    await settle()
    for (;;) {
      const timer = this.#next()
      if (timer === undefined || timer.at > end) break
      this.#monotonicMs = Math.max(this.#monotonicMs, timer.at)
      this.#timers.delete(timer)
      timer.callback()
      await settle()
    }
    this.#monotonicMs = end
    await settle()
  }

  /** Lets `ms` pass and runs what falls due, without letting promises settle. */
  advanceSync(ms: number): void {
    const end = this.#monotonicMs + ms
    for (;;) {
      const timer = this.#next()
      if (timer === undefined || timer.at > end) break
      this.#monotonicMs = Math.max(this.#monotonicMs, timer.at)
      this.#timers.delete(timer)
      timer.callback()
    }
    this.#monotonicMs = end
  }

  /** Lets `ms` pass in which nothing runs, as while the event loop is blocked: what fell due runs with the next advance. */
  stall(ms: number): void {
    this.#monotonicMs += ms
  }

  /** Moves the wall clock alone, as an administrator or NTP would. */
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

/** Runs everything that is ready to run: the micro-task queue and one turn of the event loop. */
function settle(): Promise<void> {
  return new Promise(resolve => setImmediate(resolve))
}
