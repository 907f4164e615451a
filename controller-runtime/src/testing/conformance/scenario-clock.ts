import type { CancelTimer, Clock } from '../../clock.ts'

interface Timer {
  readonly atMs: number
  readonly callback: () => void
}

/**
 * How far each read moves the monotonic time, so that loops that yield by time do yield while the clock stands still.
 */
const readMs = 0.001

/**
 * The controllers' clock. It stands still until the suite advances it, so runs of the same history see the same times.
 */
export class ScenarioClock implements Clock {
  readonly #startMs = Date.UTC(2030, 0, 1)
  readonly #timers = new Set<Timer>()
  /** The wall-clock times that were read. */
  readonly times = new Set<number>()
  #elapsedMs = 0
  #reads = 0

  now(): number {
    const time = this.#startMs + this.#elapsedMs
    this.times.add(time)
    return time
  }

  monotonic(): number {
    this.#reads++
    return this.#elapsedMs + this.#reads * readMs
  }

  /** Ms since the start of the scenario. */
  get elapsedMs(): number {
    return this.#elapsedMs
  }

  /** Ms until the next timer is due. */
  get nextTimerInMs(): number | undefined {
    const due = [...this.#timers].map(({ atMs }) => atMs)
    return due.length === 0 ? undefined : Math.min(...due) - this.#elapsedMs
  }

  setTimeout(callback: () => void, delayMs: number): CancelTimer {
    const timer = { atMs: this.#elapsedMs + Math.ceil(Math.max(0, delayMs)), callback }
    this.#timers.add(timer)
    return () => void this.#timers.delete(timer)
  }

  /** Advances the time and fires the timers that are due, but not those that they set. */
  advance(ms: number): void {
    this.#elapsedMs += ms
    const due = [...this.#timers].filter(({ atMs }) => atMs <= this.#elapsedMs)
    for (const timer of due.sort((a, b) => a.atMs - b.atMs)) if (this.#timers.delete(timer)) timer.callback()
  }
}

/** The clock of one process; its timers end with the process. */
export class ProcessClock implements Clock {
  readonly #clock: Clock
  readonly #timers = new Set<CancelTimer>()
  #dead = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  now(): number {
    return this.#clock.now()
  }

  monotonic(): number {
    return this.#clock.monotonic()
  }

  setTimeout(callback: () => void, delayMs: number): CancelTimer {
    if (this.#dead) return () => {}
    const cancel = this.#clock.setTimeout(() => {
      this.#timers.delete(cancel)
      callback()
    }, delayMs)
    this.#timers.add(cancel)
    return () => {
      this.#timers.delete(cancel)
      cancel()
    }
  }

  kill(): void {
    this.#dead = true
    for (const cancel of this.#timers) cancel()
    this.#timers.clear()
  }
}
