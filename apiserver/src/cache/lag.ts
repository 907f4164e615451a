import type { CancelTimer, Clock } from '@setpoint/controller-runtime'
import { laterRevision, type Revision, zeroRevision } from '@setpoint/controller-runtime/api'

/** A revision that the store is known to have written and that has not been taken in yet. */
interface Awaited {
  readonly revision: Revision
  /** When the store said so, by the clock. */
  readonly since: number
}

/**
 * How far the caches are behind what the store is known to have written. Measured from when the oldest revision that is
 * missing was heard of, so that a store which is always being written to is no lag as long as its log is followed.
 */
export class Lag {
  readonly #clock: Clock
  readonly #stallMs: number
  readonly #onStall: () => void
  #position: Revision = zeroRevision
  #oldest: Awaited | undefined
  #latest: Awaited | undefined
  #timer: CancelTimer | undefined

  /** @param onStall called when something has been missing for `stallMs` milliseconds in which nothing came; then again. */
  constructor({ clock, stallMs, onStall }: { clock: Clock; stallMs: number; onStall: () => void }) {
    this.#clock = clock
    this.#stallMs = stallMs
    this.#onStall = onStall
  }

  /** The store has written up to `written`. */
  heard(written: Revision): void {
    if (written <= laterRevision(this.#position, this.#latest?.revision ?? zeroRevision)) return
    this.#latest = { revision: written, since: this.#clock.monotonic() }
    this.#oldest ??= this.#latest
    this.#timer ??= this.#watchStall()
  }

  /** The caches have come to `position`. */
  reached(position: Revision): void {
    this.#position = position
    if (this.#oldest === undefined || this.#oldest.revision > position) return
    if (this.#latest !== undefined && this.#latest.revision <= position) this.#latest = undefined
    this.#oldest = this.#latest
    if (this.#oldest === undefined) this.stop()
  }

  /** What was heard no longer counts: the store may be another one, which need not come that far. */
  restart(position: Revision): void {
    this.stop()
    this.#oldest = undefined
    this.#latest = undefined
    this.#position = position
  }

  /** Milliseconds for which something has been missing; undefined where nothing is known to be. */
  get ms(): number | undefined {
    return this.#oldest && this.#clock.monotonic() - this.#oldest.since
  }

  /** Revisions from the caches' position to the latest one that is known of. */
  get revisions(): number {
    return this.#latest === undefined ? 0 : this.#latest.revision - this.#position
  }

  /** No stall is noticed until something more is heard of. */
  stop(): void {
    this.#timer?.()
    this.#timer = undefined
  }

  #watchStall(): CancelTimer {
    const position = this.#position
    const look = () => {
      this.#timer = this.#watchStall()
      if (position === this.#position) this.#onStall()
    }
    return this.#clock.setTimeout(look, this.#stallMs, { unref: true })
  }
}
