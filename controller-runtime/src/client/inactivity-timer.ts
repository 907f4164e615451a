import type { CancelTimer, Clock } from '../clock.ts'

/** A timer that fires later than this was delayed by a blocked event loop. */
const lateMs = 1_000

/**
 * Calls back once after `timeoutMs` without a call of `seen`, which only reads the clock. After a blocked event loop it
 * waits a little longer: Node runs timers before it reads sockets.
 */
export class InactivityTimer {
  readonly #clock: Clock
  readonly #timeoutMs: number
  readonly #onIdle: () => void
  #lastSeen: number
  #dueAt = 0
  #cancel: CancelTimer

  constructor(clock: Clock, timeoutMs: number, onIdle: () => void) {
    this.#clock = clock
    this.#timeoutMs = timeoutMs
    this.#onIdle = onIdle
    this.#lastSeen = clock.monotonic()
    this.#cancel = this.#arm(timeoutMs)
  }

  seen(): void {
    this.#lastSeen = this.#clock.monotonic()
  }

  cancel(): void {
    this.#cancel()
  }

  #arm(delayMs: number): CancelTimer {
    this.#dueAt = this.#clock.monotonic() + delayMs
    // Unref'ed: the guarded socket keeps the process alive.
    return this.#clock.setTimeout(() => this.#check(), delayMs, { unref: true })
  }

  #check(): void {
    const now = this.#clock.monotonic()
    const remainingMs = this.#lastSeen + this.#timeoutMs - now
    if (remainingMs <= 0 && now - this.#dueAt < lateMs) this.#onIdle()
    else if (remainingMs <= 0) this.#cancel = this.#arm(lateMs)
    else this.#cancel = this.#arm(remainingMs)
  }
}
