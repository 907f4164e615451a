import { isServiceAccountUser } from '../service-account-user.ts'

/** Bounds of a class of requests. */
export interface ClassLimits {
  /** Requests that wait, in all and of one identity. One more is refused with 429. */
  readonly waiting: number
  readonly waitingPerIdentity: number
}

export const requestClassNames = Object.freeze([
  /** Single leases: an overloaded server must not lose its leader. */
  'leases',
  /** Single objects, discovery, API documents, metrics. */
  'reads',
  'lists',
  /** The start of a watch. */
  'watches',
  'writes',
  /** Large bodies that have arrived and wait to be parsed. */
  'bodies',
  /** Routes of plugins. */
  'routes',
  /** Refusals of requests whose caller is unknown. Each address counts as an identity. */
  'unauthenticated',
] as const)

/** A class has the same share of the processor as any other with waiting requests. */
export type RequestClass = (typeof requestClassNames)[number]

/** A request that waits holds its socket and headers, some 5 KB, but no body. */
export const classLimits: ClassLimits = Object.freeze({ waiting: 10_000, waitingPerIdentity: 5_000 })

/** The kind of an identity, for metrics. */
export type IdentityKind = 'users' | 'service-accounts' | 'plugins' | 'unauthenticated'

export function kindOfUser(name: string): IdentityKind {
  return isServiceAccountUser(name) ? 'service-accounts' : 'users'
}
