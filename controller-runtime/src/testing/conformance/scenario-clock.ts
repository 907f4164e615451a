import type { CancelTimer, Clock } from '../../clock.ts'

/** Real time, but faster: a delay of a second takes `1000 / speed` ms. */
export class FastClock implements Clock {
  readonly #speed: number
  readonly #startedAt = performance.now()
  readonly #wallStart = Date.now()

  constructor(speed: number) {
    this.#speed = speed
  }

  now(): number {
    return this.#wallStart + this.monotonic()
  }

  monotonic(): number {
    return (performance.now() - this.#startedAt) * this.#speed
  }

  setTimeout(callback: () => void, delayMs: number): CancelTimer {
    const timer = setTimeout(callback, Math.min(Math.max(0, delayMs) / this.#speed, longestMs))
    return () => clearTimeout(timer)
  }
}

/** The longest delay; longer than any scenario, and below Node's limit of 2^31 - 1 ms. */
const longestMs = 3_600_000

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
