import { singleValueIndex } from '../api/index-spec.ts'
import { defineModel, type ObjectOf } from '../api/model.ts'

/**
 * The kind by which processes agree on who works: `coordination.<reserved domain>/v1`, of the shape and meaning of
 * `coordination.k8s.io/v1` in Kubernetes. The server serves it beside the kinds of plugins.
 */
export function leaseModel(reservedDomain: string) {
  return defineModel({
    group: `coordination.${reservedDomain}`,
    version: 'v1',
    kind: 'Lease',
    singular: 'lease',
    plural: 'leases',
    schema: {
      spec: {
        type: 'object',
        properties: {
          holderIdentity: { type: 'string', description: 'Who holds the lease; empty or absent: nobody.' },
          leaseDurationSeconds: {
            type: 'integer',
            minimum: 1,
            description:
              'How long others wait, after they last saw the lease change, before they take it from its holder.',
          },
          acquireTime: {
            type: 'string',
            format: 'date-time',
            description: "When the holder got it, by the holder's clock. For people; nobody measures by it.",
          },
          renewTime: {
            type: 'string',
            format: 'date-time',
            description: "When the holder last renewed it, by the holder's clock. For people, too.",
          },
          leaseTransitions: {
            type: 'integer',
            minimum: 0,
            description: 'How often it went to another holder.',
          },
        },
      },
    },
    indexes: [
      singleValueIndex({ name: 'spec.holderIdentity', indexFunc: lease => lease.spec?.holderIdentity }),
    ],
    printerColumns: [
      { name: 'Holder', type: 'string', jsonPath: '.spec.holderIdentity' },
      { name: 'Renewed', type: 'date', jsonPath: '.spec.renewTime' },
    ],
  })
}

/** The model of the kind `Lease`. */
export type LeaseModel = ReturnType<typeof leaseModel>
/** Who may act, and until when, unless it is renewed. */
export type Lease = ObjectOf<LeaseModel>
/** What a lease says: Kubernetes' fields of `coordination.k8s.io/v1`. */
export type LeaseSpec = NonNullable<Lease['spec']>

/** Who holds the lease; undefined where nobody does, and anyone may take it. */
export function holderOf(lease: Lease | undefined): string | undefined {
  const holder = lease?.spec?.holderIdentity
  return holder === '' ? undefined : holder
}

/**
 * The record with which `identity` takes or renews a lease: the holder keeps its `acquireTime`, anybody else counts
 * as a transition.
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

/** The record of a lease that its holder gives up: anyone may take it at once, also who reads only the times. */
export function releaseOf(lease: Lease, nowMs: number): LeaseSpec {
  const now = timeAfter(lease.spec?.renewTime, nowMs)
  return { ...lease.spec, holderIdentity: '', leaseDurationSeconds: 1, acquireTime: now, renewTime: now }
}

/** Microseconds, as Kubernetes writes it. Never the previous time again: a write that changes nothing is none. */
function timeAfter(previous: string | undefined, nowMs: number): string {
  const now = microTime(nowMs)
  return now === previous ? microTime(nowMs + 1) : now
}

function microTime(ms: number): string {
  return new Date(ms).toISOString().replace('Z', '000Z')
}
