import { defineModel, type ObjectOf } from '../api/model.ts'

/** The kind for leader election: Kubernetes' `coordination.k8s.io/v1`. A built-in kind of the server. */
export const leaseModel = defineModel({
  group: 'coordination.k8s.io',
  version: 'v1',
  kind: 'Lease',
  singular: 'lease',
  plural: 'leases',
  scope: 'Namespaced',
  names: 'dns-subdomain',
  schema: {
    spec: {
      type: 'object',
      description: 'Who holds the lease, and for how long.',
      properties: {
        holderIdentity: {
          type: 'string',
          description: 'The identity of the holder; empty or absent if the lease is free.',
        },
        leaseDurationSeconds: {
          type: 'integer',
          format: 'int32',
          minimum: 1,
          description:
            'How long candidates wait, after they last saw the lease change, before they acquire it.',
        },
        acquireTime: {
          type: 'string',
          format: 'date-time',
          description: "When the holder acquired it, by the holder's clock. Informational only.",
        },
        renewTime: {
          type: 'string',
          format: 'date-time',
          description: "When the holder last renewed it, by the holder's clock. Informational only.",
        },
        leaseTransitions: {
          type: 'integer',
          format: 'int32',
          minimum: 0,
          description: 'The number of changes of the holder.',
        },
        strategy: {
          type: 'string',
          description: 'How the leader is chosen in a coordinated election. The server does not use it.',
        },
        preferredHolder: {
          type: 'string',
          description: 'To whom the holder should hand the lease over. Only with a strategy.',
        },
      },
    },
  },
  printerColumns: [
    { name: 'Holder', type: 'string', jsonPath: '.spec.holderIdentity' },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
})

/** The namespace of the server's own objects, such as the leases of its plugins. It always exists. */
export const systemNamespace = 'setpoint-system'

/** The model of the kind `Lease`. */
export type LeaseModel = typeof leaseModel
/** Records which process may act, and for how long. */
export type Lease = ObjectOf<LeaseModel>
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

/** In microseconds, as Kubernetes writes it. Always differs from the previous time, since an unchanged write is a no-op. */
function timeAfter(previous: string | undefined, nowMs: number): string {
  const now = microTime(nowMs)
  return now === previous ? microTime(nowMs + 1) : now
}

/** As Kubernetes writes a MicroTime. */
export function microTime(ms: number): string {
  return new Date(ms).toISOString().replace('Z', '000Z')
}
