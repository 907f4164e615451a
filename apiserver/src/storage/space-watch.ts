import { type Clock, type Logger, sleep, systemClock } from '@setpoint/controller-runtime'
import type { Storage, StoreSpace } from './contract.ts'
import type { Fullness } from './fullness.ts'

export const spaceDefaults = Object.freeze({
  /** Milliseconds between two looks at the space. */
  intervalMs: 60_000,
  /**
   * Part of the quota in use from which the history is compacted at each look. Leaves a quarter for a minute of writes.
   */
  compactAt: 0.75,
  /** Part of the quota in use from which the log and `/readyz?verbose` warn: compaction did not help. */
  warnAt: 0.9,
})

/** Looks at the space of a store regularly, for metrics, health and the compactor. */
export class SpaceWatch {
  readonly #storage: Storage
  readonly #fullness: Fullness
  readonly #log: Logger
  readonly #clock: Clock
  #latest: StoreSpace | undefined
  #hasWarned = false
  #isReadable = true

  constructor(parts: { storage: Storage; fullness: Fullness; log: Logger; clock?: Clock }) {
    this.#storage = parts.storage
    this.#fullness = parts.fullness
    this.#log = parts.log
    this.#clock = parts.clock ?? systemClock
  }

  /** As of the latest look; undefined if the store did not tell. */
  get latest(): StoreSpace | undefined {
    return this.#latest
  }

  get isFull(): boolean {
    return this.#fullness.reason !== undefined
  }

  /** True if the history takes space that is needed soon. */
  get isShort(): boolean {
    return this.isFull || this.#part >= spaceDefaults.compactAt
  }

  /** One word, and details after a semicolon, for `/readyz?verbose`. */
  get state(): string {
    const { reason } = this.#fullness
    if (reason !== undefined) return `full; it takes only deletions: ${reason}`
    return this.#part >= spaceDefaults.warnAt ? `nearly full; ${this.#usage()}` : 'ok'
  }

  /** Looks until the signal is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#look(signal)
      await sleep(this.#clock, spaceDefaults.intervalMs, signal).catch(() => {})
    }
  }

  async #look(signal: AbortSignal): Promise<void> {
    try {
      this.#latest = await this.#storage.space({ signal })
    } catch (error) {
      if (signal.aborted) return
      this.#latest = undefined
      if (this.#isReadable) this.#log.warn({ err: error }, 'failed to read how much space the store has')
      this.#isReadable = false
      return
    }
    this.#isReadable = true
    const { sizeBytes, quotaBytes = Number.POSITIVE_INFINITY } = this.#latest
    // etcd then refuses the next write of any server.
    if (sizeBytes >= quotaBytes) this.#fullness.refused('its file has reached the quota')
    const isNearlyFull = this.#part >= spaceDefaults.warnAt
    if (isNearlyFull && !this.#hasWarned)
      this.#log.warn(this.#latest, `the store is nearly full: ${this.#usage()}`)
    this.#hasWarned = isNearlyFull
  }

  /** The part of the quota that is in use. */
  get #part(): number {
    const { usedBytes = 0, quotaBytes = Number.POSITIVE_INFINITY } = this.#latest ?? {}
    return usedBytes / quotaBytes
  }

  #usage(): string {
    const mebibytes = (bytes = 0) => `${Math.round(bytes / 2 ** 20)} MiB`
    return `${mebibytes(this.#latest?.usedBytes)} of its quota of ${mebibytes(this.#latest?.quotaBytes)} are in use`
  }
}
