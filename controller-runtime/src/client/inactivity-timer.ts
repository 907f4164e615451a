import type { CancelTimer, Clock } from '../clock.ts'

/** A timer that fires later than this was held up by the process itself. */
const lateMs = 1_000

/**
 * Calls back once when nothing was `seen` for `timeoutMs`. Being seen costs a clock reading, not a timer. A process that
 * was held up for so long gets a second look: what came meanwhile is read after the timers have run.
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
    // Unref'ed: the socket that is guarded keeps the process alive itself.
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
