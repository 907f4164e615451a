import { isServiceAccountUser } from '../service-account-user.ts'

/** Bounds of a class of requests. */
export interface ClassLimits {
  /** Requests that wait, in all and of one identity. One more is refused with 429. */
  readonly waiting: number
  readonly waitingPerIdentity: number
  /** Bytes that the requests under way hold, in all and of one identity. Later requests wait. */
  readonly bytes: number
  readonly bytesPerIdentity: number
}

/** A request that waits holds its socket and headers, some 5 KB, but no body. */
const waiting = Object.freeze({ waiting: 10_000, waitingPerIdentity: 5_000 })
const unbounded = Object.freeze({ bytes: Infinity, bytesPerIdentity: Infinity })
/** Ten of the largest bodies at once for an identity, and four such identities. */
const bodies = Object.freeze({ bytes: 128 * 1024 * 1024, bytesPerIdentity: 32 * 1024 * 1024 })

export const requestClassNames = Object.freeze([
  'leases',
  'reads',
  'lists',
  'watches',
  'writes',
  'bodies',
  'routes',
  'unauthenticated',
] as const)

/** A class has the same share of the processor as any other with waiting requests. */
export type RequestClass = (typeof requestClassNames)[number]

export const requestClasses: Readonly<Record<RequestClass, ClassLimits>> = Object.freeze({
  /** Single leases: an overloaded server must not lose its leader. */
  leases: { ...waiting, ...bodies },
  /** Single objects, discovery, API documents, metrics. */
  reads: { ...waiting, ...unbounded },
  lists: { ...waiting, ...unbounded },
  /** The start of a watch. */
  watches: { ...waiting, ...unbounded },
  writes: { ...waiting, ...bodies },
  /** Large bodies that have arrived and wait to be parsed. `writes`, `routes` and `leases` bound their bytes. */
  bodies: { ...waiting, ...unbounded },
  /** Routes of plugins. A handler that never returns must not hold what other requests need. */
  routes: { ...waiting, ...bodies },
  /** Refusals of requests whose caller is unknown. Each address counts as an identity. */
  unauthenticated: { ...waiting, ...unbounded },
})

/** The kind of an identity, for metrics. */
export type IdentityKind = 'users' | 'service-accounts' | 'plugins' | 'unauthenticated'

export function kindOfUser(name: string): IdentityKind {
  return isServiceAccountUser(name) ? 'service-accounts' : 'users'
}
