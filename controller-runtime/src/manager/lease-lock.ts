import { isApiError } from '../api/errors.ts'
import { compareVersions } from '../api/version.ts'
import type { Client } from '../client/client.ts'
import type { Clock } from '../clock.ts'
import { Lease } from '../kinds/lease.ts'
import { claim, holderOf, type LeaseSpec, releaseOf } from './lease.ts'
import { hasEnded } from './process-identity.ts'

interface LeaseLockOptions {
  /** Of the lease's namespace. Not guarded, since the leadership guard depends on it. */
  readonly client: Client
  readonly clock: Clock
  /** Name of the `Lease` object. */
  readonly name: string
  readonly identity: string
  /** Whole seconds. */
  readonly leaseDurationMs: number
}

export type ClaimOutcome =
  /** We hold the lease as of the server's response. */
  | 'held'
  /** Another holder has it, and it has not expired. */
  | 'taken'
  /** A write conflicted: the current holder is unknown. */
  | 'contended'

/**
 * One candidate's view of a `Lease` object. As client-go's `leaderelection.tryAcquireOrRenew`:
 *
 * - A lease expires by our own monotonic clock, counted from when we saw it change. Timestamps in the record are never
 *   compared, so clocks may differ as long as they run at the same speed.
 * - Every write carries the last observed version, so one of several candidates succeeds.
 * - A lease is taken at once if its holder ran on this machine and has ended.
 * - The holder renews without reading first (fast path), and reads only after a conflict (slow path).
 */
export class LeaseLock {
  readonly #client: Client
  readonly #clock: Clock
  readonly #name: string
  readonly #identity: string
  readonly #leaseDurationMs: number
  #observed: { readonly lease: Lease; readonly at: number } | undefined
  #slowPaths = 0

  constructor(options: LeaseLockOptions) {
    this.#client = options.client
    this.#clock = options.clock
    this.#name = options.name
    this.#identity = options.identity
    this.#leaseDurationMs = options.leaseDurationMs
  }

  /** The holder, as last observed. */
  get holder(): string | undefined {
    return holderOf(this.#observed?.lease)
  }

  /** Ms until the last observed lease expires; 0 if it has expired or none was observed. */
  get runsOutInMs(): number {
    if (this.#observed === undefined) return 0
    const { lease, at } = this.#observed
    const { leaseDurationSeconds } = lease.spec
    const durationMs =
      leaseDurationSeconds === undefined ? this.#leaseDurationMs : leaseDurationSeconds * 1000
    return Math.max(0, at + durationMs - this.#clock.monotonic())
  }

  /** Number of renewals that had to read first. */
  get slowPaths(): number {
    return this.#slowPaths
  }

  /** Acquires or renews the lease. @throws ApiError, TransportError, the signal's reason. */
  async claim(signal: AbortSignal): Promise<ClaimOutcome> {
    if (this.#observed !== undefined && this.holder === this.#identity) {
      const outcome = await this.#write(this.#observed.lease, signal)
      if (outcome !== 'contended') return outcome
      this.#slowPaths++
    }
    const lease = await this.#client.getIfExists(Lease, this.#name, { signal })
    if (lease === undefined) return this.#create(signal)
    this.observe(lease)
    const holder = holderOf(lease)
    if (holder !== undefined && holder !== this.#identity && this.runsOutInMs > 0 && !hasEnded(holder))
      return 'taken'
    return this.#write(lease, signal)
  }

  /**
   * Releases the lease if we hold it, so that others need not wait. Call it only when all work that it protects has
   * ended.
   * @throws ApiError, TransportError, the signal's reason.
   */
  async release(signal: AbortSignal): Promise<void> {
    let lease = this.#observed?.lease
    while (lease !== undefined && holderOf(lease) === this.#identity) {
      try {
        this.observe(await this.#update(lease, releaseOf(lease, this.#clock.now()), signal))
        return
      } catch (error) {
        if (!isApiError(error, 'Conflict')) throw error
        lease = await this.#client.getIfExists(Lease, this.#name, { signal })
      }
    }
  }

  /** Records the lease as sent by the server; ignores it unless it is newer than the last one. */
  observe(lease: Lease): void {
    const known = this.#observed?.lease.metadata.version
    if (known !== undefined && compareVersions(lease.metadata.version, known) <= 0) return
    this.#observed = { lease, at: this.#clock.monotonic() }
  }

  async #write(lease: Lease, signal: AbortSignal): Promise<ClaimOutcome> {
    try {
      this.observe(await this.#update(lease, this.#claim(lease), signal))
      return 'held'
    } catch (error) {
      if (isApiError(error, 'Conflict', 'NotFound')) return 'contended'
      throw error
    }
  }

  async #create(signal: AbortSignal): Promise<ClaimOutcome> {
    try {
      const spec = this.#claim(undefined)
      this.observe(await this.#client.create(Lease, { metadata: { name: this.#name }, spec }, { signal }))
      return 'held'
    } catch (error) {
      if (isApiError(error, 'AlreadyExists')) return 'contended'
      throw error
    }
  }

  #claim(lease: Lease | undefined): LeaseSpec {
    return claim(lease, {
      identity: this.#identity,
      leaseDurationMs: this.#leaseDurationMs,
      nowMs: this.#clock.now(),
    })
  }

  /** Keeps labels and annotations that others have set. */
  #update(lease: Lease, spec: LeaseSpec, signal: AbortSignal): Promise<Lease> {
    return this.#client.update(Lease, { ...lease, spec }, { signal })
  }
}
