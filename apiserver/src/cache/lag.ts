import type { Clock } from '@setpoint/controller-runtime'
import { laterRevision, type Revision, zeroRevision } from '@setpoint/controller-runtime/api'
import type { CancelTimer } from '@setpoint/controller-runtime/internal'

/** A revision that the store has written and the caches do not have yet. */
interface Awaited {
  readonly revision: Revision
  /** When the store reported it, by the clock. */
  readonly since: number
}

/**
 * Measures how far the caches are behind the store: the time since the oldest missing revision was reported. So a store
 * under constant writes causes no lag as long as its log is followed.
 */
export class Lag {
  readonly #clock: Clock
  readonly #stallMs: number
  readonly #onStall: () => void
  #position: Revision = zeroRevision
  #oldest: Awaited | undefined
  #latest: Awaited | undefined
  #timer: CancelTimer | undefined

  /** @param onStall called each time that revisions are missing and no change arrives for `stallMs` milliseconds */
  constructor({ clock, stallMs, onStall }: { clock: Clock; stallMs: number; onStall: () => void }) {
    this.#clock = clock
    this.#stallMs = stallMs
    this.#onStall = onStall
  }

  /** The store reported that it has written up to `written`. */
  heard(written: Revision): void {
    if (written <= laterRevision(this.#position, this.#latest?.revision ?? zeroRevision)) return
    this.#latest = { revision: written, since: this.#clock.monotonic() }
    this.#oldest ??= this.#latest
    this.#timer ??= this.#watchStall()
  }

  /** The caches have reached `position`. */
  reached(position: Revision): void {
    this.#position = position
    if (this.#oldest === undefined || this.#oldest.revision > position) return
    if (this.#latest !== undefined && this.#latest.revision <= position) this.#latest = undefined
    this.#oldest = this.#latest
    if (this.#oldest === undefined) this.stop()
  }

  /** Discards what was reported before. */
  restart(position: Revision): void {
    this.stop()
    this.#oldest = undefined
    this.#latest = undefined
    this.#position = position
  }

  /** Milliseconds since the oldest missing revision was reported; undefined if none is missing. */
  get ms(): number | undefined {
    return this.#oldest && this.#clock.monotonic() - this.#oldest.since
  }

  /** Revisions between the caches' position and the latest one reported. */
  get revisions(): number {
    return this.#latest === undefined ? 0 : this.#latest.revision - this.#position
  }

  /** Stops the stall timer until `heard` is called again. */
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
