import type { Lease } from '../kinds/lease.ts'

/** The namespace of the server's own objects, such as the leases of its plugins. It always exists. */
export const systemNamespace = 'setpoint-system'

/** The content of a lease: the fields of Kubernetes' `coordination.k8s.io/v1`. */
export type LeaseSpec = NonNullable<Lease['spec']>

/** Returns the holder of the lease, or undefined if it is free. */
export function holderOf(lease: Lease | undefined): string | undefined {
  const holder = lease?.spec?.holderIdentity
  return holder === '' ? undefined : holder
}

/**
 * Returns the record that acquires or renews a lease for `identity`. A renewal keeps `acquireTime`; a change of the
 * holder counts as a transition.
 */
export function claim(
  lease: Lease | undefined,
  { identity, leaseDurationMs, nowMs }: { identity: string; leaseDurationMs: number; nowMs: number },
): LeaseSpec {
  const now = timeAfter(lease?.spec?.renewTime, nowMs)
  const { acquireTime = now, leaseTransitions = 0 } = lease?.spec ?? {}
  const kept = holderOf(lease) === identity
  return {
    holderIdentity: identity,
    leaseDurationSeconds: leaseDurationMs / 1000,
    acquireTime: kept ? acquireTime : now,
    renewTime: now,
    leaseTransitions: kept || lease === undefined ? leaseTransitions : leaseTransitions + 1,
  }
}

/** Returns the record of a released lease: free, and expired at once for readers of only the times. */
export function releaseOf(lease: Lease, nowMs: number): LeaseSpec {
  const now = timeAfter(lease.spec?.renewTime, nowMs)
  return { ...lease.spec, holderIdentity: '', leaseDurationSeconds: 1, acquireTime: now, renewTime: now }
}

/**
 * In microseconds, as Kubernetes writes it. Always differs from the previous time, since an unchanged write is a no-op.
 */
function timeAfter(previous: string | undefined, nowMs: number): string {
  const now = microTime(nowMs)
  return now === previous ? microTime(nowMs + 1) : now
}

/** As Kubernetes writes a MicroTime. */
export function microTime(ms: number): string {
  return new Date(ms).toISOString().replace('Z', '000Z')
}
