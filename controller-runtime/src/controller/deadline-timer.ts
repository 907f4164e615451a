import type { CancelTimer, Clock } from '../clock.ts'

/** Something with a start time. */
export interface Timed {
  /** Monotonic ms. */
  readonly beganAt: number
}

/**
 * Calls back for each element that takes longer than `timeoutMs`. All have the same timeout, so one timer for the
 * oldest is enough, where 50,000 runs per second would each need their own.
 */
export class DeadlineTimer<E extends Timed> {
  readonly #clock: Clock
  readonly #timeoutMs: number
  readonly #onOverdue: (element: E) => void
  /** In order of their start. */
  readonly #elements = new Set<E>()
  #cancel: CancelTimer | undefined

  /** @param timeoutMs Infinity disables the timeout */
  constructor(clock: Clock, timeoutMs: number, onOverdue: (element: E) => void) {
    this.#clock = clock
    this.#timeoutMs = timeoutMs
    this.#onOverdue = onOverdue
  }

  /** Adds an element that has just started. */
  add(element: E): void {
    if (this.#timeoutMs === Number.POSITIVE_INFINITY) return
    this.#elements.add(element)
    if (this.#cancel === undefined) this.#arm(element)
  }

  remove(element: E): void {
    this.#elements.delete(element)
  }

  /** Removes all elements and cancels the timer. */
  stop(): void {
    this.#elements.clear()
    this.#cancel?.()
    this.#cancel = undefined
  }

  /** If the element is removed, the timer still fires and is then set for the oldest one. */
  #arm({ beganAt }: E): void {
    const delayMs = Math.max(0, beganAt + this.#timeoutMs - this.#clock.monotonic())
    this.#cancel = this.#clock.setTimeout(() => this.#look(), delayMs, { unref: true })
  }

  #look(): void {
    this.#cancel = undefined
    const now = this.#clock.monotonic()
    for (const element of this.#elements) {
      // Node's timers may fire up to a millisecond early.
      if (element.beganAt + this.#timeoutMs - now > 1) {
        this.#arm(element)
        return
      }
      this.#elements.delete(element)
      this.#onOverdue(element)
    }
  }
}
