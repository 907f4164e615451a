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

/** The kind of an identity, for metrics. */
export type IdentityKind = 'users' | 'service-accounts' | 'plugins' | 'unauthenticated'
