import type { Clock, Logger } from '@setpoint/controller-runtime'

export const lossDefaults = Object.freeze({
  /** Milliseconds between two log lines about a lasting failure. */
  repeatMs: 60_000,
})

/** Counts the events that a destination drops, and logs its failures, a lasting one once in a while. */
export class Losses {
  readonly #log: Logger
  readonly #clock: Clock
  readonly #destination: Readonly<Record<string, string>>
  readonly #message: string
  #dropped = 0
  #reportedAt = Number.NEGATIVE_INFINITY

  /** @param destination fields of the log lines */
  constructor(log: Logger, clock: Clock, destination: Readonly<Record<string, string>>, message: string) {
    this.#log = log
    this.#clock = clock
    this.#destination = destination
    this.#message = message
  }

  get dropped(): number {
    return this.#dropped
  }

  drop(events: number, why: unknown): void {
    this.#dropped += events
    this.report(why)
  }

  report(why: unknown): void {
    const now = this.#clock.monotonic()
    if (now - this.#reportedAt < lossDefaults.repeatMs) return
    this.#reportedAt = now
    const fields = why instanceof Error ? { err: why } : { why }
    this.#log.error({ ...this.#destination, dropped: this.#dropped, ...fields }, this.#message)
  }
}
