import type { CancelTimer, Clock } from '../clock.ts'

/** Calls back once when nothing was `seen` for `timeoutMs`. Being seen costs a clock reading, not a timer. */
export class InactivityTimer {
  readonly #clock: Clock
  readonly #timeoutMs: number
  readonly #onIdle: () => void
  #lastSeen: number
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
    // Unref'ed: the socket that is guarded keeps the process alive itself.
    return this.#clock.setTimeout(() => this.#check(), delayMs, { unref: true })
  }

  #check(): void {
    const remainingMs = this.#lastSeen + this.#timeoutMs - this.#clock.monotonic()
    if (remainingMs <= 0) this.#onIdle()
    else this.#cancel = this.#arm(remainingMs)
  }
}
