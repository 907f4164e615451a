import { isApiError } from '../api/errors.ts'
import { compareVersions } from '../api/version.ts'
import type { Client } from '../client/client.ts'
import type { Clock } from '../clock.ts'
import { claim, holderOf, type Lease, type LeaseModel, type LeaseSpec, releaseOf } from './lease.ts'
import { hasEnded } from './process-identity.ts'

export interface LeaseLockOptions {
  /** Not fenced: it is what the fence rests on. */
  readonly client: Client
  readonly clock: Clock
  readonly model: LeaseModel
  /** Of the `Lease` object. */
  readonly name: string
  readonly identity: string
  /** Whole seconds. */
  readonly leaseDurationMs: number
}

export type ClaimOutcome =
  /** The lease is ours as of the server's answer. */
  | 'held'
  /** It is somebody else's, and not to be taken yet. */
  | 'taken'
  /** Somebody else was faster, or a write of ours had arrived after all: what is true now is not known. */
  | 'contended'

/**
 * One candidate's hold on a `Lease` object. As client-go's `leaderelection.tryAcquireOrRenew`:
 *
 * - What others wrote is aged by our own monotonic clock from the moment at which we saw it change; times in the
 *   record are never compared. So clocks may differ by anything, as long as they run at the same speed.
 * - Every write carries the version that was seen last, so that of several candidates one succeeds.
 * - A holder that ran on this machine and is seen to have ended has nothing to be waited for.
 * - The holder renews without reading first (the fast path); only when that conflicts does it read (the slow path).
 */
export class LeaseLock {
  readonly #client: Client
  readonly #clock: Clock
  readonly #model: LeaseModel
  readonly #name: string
  readonly #identity: string
  readonly #leaseDurationMs: number
  #observed: { readonly lease: Lease; readonly at: number } | undefined
  #slowPaths = 0

  constructor(options: LeaseLockOptions) {
    this.#client = options.client
    this.#clock = options.clock
    this.#model = options.model
    this.#name = options.name
    this.#identity = options.identity
    this.#leaseDurationMs = options.leaseDurationMs
  }

  /** Who holds it, as far as we have seen. */
  get holder(): string | undefined {
    return holderOf(this.#observed?.lease)
  }

  /** Ms until the lease that was last seen has run out, unless it is renewed; 0 where it has, or none was seen. */
  get runsOutInMs(): number {
    if (this.#observed === undefined) return 0
    const { lease, at } = this.#observed
    const { leaseDurationSeconds } = lease.spec
    const durationMs =
      leaseDurationSeconds === undefined ? this.#leaseDurationMs : leaseDurationSeconds * 1000
    return Math.max(0, at + durationMs - this.#clock.monotonic())
  }

  /** Renewals that had to read first. */
  get slowPaths(): number {
    return this.#slowPaths
  }

  /** Takes the lease, or renews it. @throws ApiError, TransportError, the signal's reason. */
  async claim(signal: AbortSignal): Promise<ClaimOutcome> {
    if (this.#observed !== undefined && this.holder === this.#identity) {
      const outcome = await this.#write(this.#observed.lease, signal)
      if (outcome !== 'contended') return outcome
      this.#slowPaths++
    }
    const lease = await this.#client.getIfExists(this.#model, this.#name, { signal })
    if (lease === undefined) return this.#create(signal)
    this.observe(lease)
    const holder = holderOf(lease)
    if (holder !== undefined && holder !== this.#identity && this.runsOutInMs > 0 && !hasEnded(holder))
      return 'taken'
    return this.#write(lease, signal)
  }

  /**
   * Gives the lease up, if it is ours, so that others need not wait for its end. To be called when nothing that it
   * protects is going on any more. @throws ApiError, TransportError, the signal's reason.
   */
  async release(signal: AbortSignal): Promise<void> {
    let lease = this.#observed?.lease
    while (lease !== undefined && holderOf(lease) === this.#identity) {
      try {
        this.observe(await this.#update(lease, releaseOf(lease, this.#clock.now()), signal))
        return
      } catch (error) {
        if (!isApiError(error, 'Conflict')) throw error
        lease = await this.#client.getIfExists(this.#model, this.#name, { signal })
      }
    }
  }

  /** Takes note of the lease as the server told it; anything older than what is known is passed over. */
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
      this.observe(
        await this.#client.create(this.#model, { metadata: { name: this.#name }, spec }, { signal }),
      )
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

  /** Labels and annotations that people have put on it stay. */
  #update(lease: Lease, spec: LeaseSpec, signal: AbortSignal): Promise<Lease> {
    return this.#client.update(this.#model, { ...lease, spec }, { signal })
  }
}
