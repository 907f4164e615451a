import { isApiError } from '../api/errors.ts'
import type { Client } from '../client/client.ts'
import type { Clock } from '../clock.ts'
import { Lease } from '../kinds/lease.ts'
import { microTime } from './lease.ts'

/**
 * Ms by which the clocks of two processes may differ. A record further in the future comes from a wrong clock; it must
 * not stop the schedule until then.
 */
const clockToleranceMs = 60_000

/**
 * When a schedule last ran: the `renewTime` of a `Lease` object, so that it survives the process.
 *
 * Every claim compares the object's version, so a due time is run by one process, also while leaders overlap.
 */
export class ScheduleRecord {
  readonly #client: Client
  readonly #clock: Clock
  /** Name of the `Lease` object. */
  readonly #name: string
  readonly #schedule: string
  #lease: Lease | undefined

  /** @param options `client` is of the lease's namespace, `schedule` is `<plugin>/<name>` */
  constructor(options: { client: Client; clock: Clock; name: string; schedule: string }) {
    this.#client = options.client
    this.#clock = options.clock
    this.#name = options.name
    this.#schedule = options.schedule
  }

  /**
   * Returns when the schedule last ran, in ms since the epoch and not in the future. A new schedule starts now.
   * @throws ApiError, TransportError, the signal's reason
   */
  async read(signal: AbortSignal): Promise<number> {
    this.#lease = await this.#readOrCreate(this.#clock.now(), signal)
    return Math.min(lastRunOf(this.#lease), this.#clock.now())
  }

  /**
   * Records that the run due at `dueMs` starts now. Returns false if another process has started it.
   * @throws ApiError, TransportError, the signal's reason
   */
  async claim(dueMs: number, signal: AbortSignal): Promise<boolean> {
    for (;;) {
      this.#lease ??= await this.#readOrCreate(dueMs - 1, signal)
      const lease = this.#lease
      const nowMs = this.#clock.now()
      const lastMs = lastRunOf(lease)
      if (lastMs >= dueMs && lastMs <= nowMs + clockToleranceMs) return false
      try {
        const spec = { ...lease.spec, renewTime: microTime(Math.max(dueMs, nowMs)) }
        this.#lease = await this.#client.update(Lease, { ...lease, spec }, { signal })
        return true
      } catch (error) {
        if (!isApiError(error, 'Conflict', 'NotFound')) throw error
        this.#lease = undefined
      }
    }
  }

  async #readOrCreate(startMs: number, signal: AbortSignal): Promise<Lease> {
    for (;;) {
      const lease = await this.#client.getIfExists(Lease, this.#name, { signal })
      if (lease !== undefined) return lease
      try {
        const spec = { holderIdentity: this.#schedule, renewTime: microTime(startMs) }
        return await this.#client.create(Lease, { metadata: { name: this.#name }, spec }, { signal })
      } catch (error) {
        if (!isApiError(error, 'AlreadyExists')) throw error
      }
    }
  }
}

function lastRunOf({ spec }: Lease): number {
  const lastMs = Date.parse(spec?.renewTime ?? '')
  return Number.isNaN(lastMs) ? 0 : lastMs
}
