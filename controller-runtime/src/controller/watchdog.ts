import type { CancelTimer, Clock } from '../clock.ts'

/** What has a time to be over by. */
export interface Timed {
  /** Monotonic ms. */
  readonly beganAt: number
}

/**
 * Tells of what takes longer than `timeoutMs`. All have the same time, so that whoever began first is overdue first:
 * one timer, for the oldest, instead of one for each of 50,000 runs a second that end long before.
 */
export class Watchdog<E extends Timed> {
  readonly #clock: Clock
  readonly #timeoutMs: number
  readonly #onOverdue: (element: E) => void
  /** In the order in which they began. */
  readonly #watched = new Set<E>()
  #cancel: CancelTimer | undefined

  /** @param timeoutMs Infinity: nothing is ever overdue */
  constructor(clock: Clock, timeoutMs: number, onOverdue: (element: E) => void) {
    this.#clock = clock
    this.#timeoutMs = timeoutMs
    this.#onOverdue = onOverdue
  }

  /** Begins to watch what has just begun. */
  watch(element: E): void {
    if (this.#timeoutMs === Number.POSITIVE_INFINITY) return
    this.#watched.add(element)
    if (this.#cancel === undefined) this.#arm(element)
  }

  unwatch(element: E): void {
    this.#watched.delete(element)
  }

  /** Watches nothing any more. */
  stop(): void {
    this.#watched.clear()
    this.#cancel?.()
    this.#cancel = undefined
  }

  /** The timer is left to fire when its element has ended: it is then set for the oldest that is there. */
  #arm({ beganAt }: E): void {
    const delayMs = Math.max(0, beganAt + this.#timeoutMs - this.#clock.monotonic())
    this.#cancel = this.#clock.setTimeout(() => this.#look(), delayMs, { unref: true })
  }

  #look(): void {
    this.#cancel = undefined
    const now = this.#clock.monotonic()
    for (const element of this.#watched) {
      // Real timers may be early by less than a millisecond.
      if (element.beganAt + this.#timeoutMs - now > 1) {
        this.#arm(element)
        return
      }
      this.#watched.delete(element)
      this.#onOverdue(element)
    }
  }
}
