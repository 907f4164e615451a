import type { UserInfo } from '@setpoint/controller-runtime'
import type { ResourceTarget } from '../security/index.ts'

/** How much of a request is recorded, from the least. */
export const auditLevels = ['None', 'Metadata', 'Request', 'RequestResponse'] as const
export type AuditLevel = (typeof auditLevels)[number]

/**
 * The points of a request's life that have an event. `ResponseStarted` is for watches. `Panic` exists for policies of
 * Kubernetes: this server never emits it.
 */
export const auditStages = ['RequestReceived', 'ResponseStarted', 'ResponseComplete', 'Panic'] as const
export type AuditStage = (typeof auditStages)[number]

/** What a policy decides by. */
export interface AuditAttributes {
  /**
   * The authenticated user, also if the request impersonates another. Undefined if the caller was not authenticated.
   */
  readonly user: UserInfo | undefined
  readonly verb: string
  /** Objects, or a path that is not about objects. */
  readonly target: ResourceTarget | string
}

/** What a rule says about the requests that it matches. */
export interface AuditDecision {
  readonly level: AuditLevel
  readonly omitStages: ReadonlySet<AuditStage>
  readonly omitManagedFields: boolean
}

/** Resources of one group in a rule. */
export interface AuditResources {
  /** Empty for the core group. */
  readonly group: string
  /** `pods`, `pods/status`, `pods/*` for pods with all subresources, `*\/status` or `*`. Empty for all of the group. */
  readonly resources: readonly string[]
  /** Empty for all. */
  readonly resourceNames: readonly string[]
}

/** A rule of a policy. A list that is empty matches everything. */
export interface AuditRule extends AuditDecision {
  readonly users: readonly string[]
  readonly userGroups: readonly string[]
  readonly verbs: readonly string[]
  readonly resources: readonly AuditResources[]
  /** `''` for objects without a namespace. */
  readonly namespaces: readonly string[]
  readonly nonResourceURLs: readonly string[]
}

const unmatched: AuditDecision = Object.freeze({
  level: 'None',
  omitStages: new Set<AuditStage>(),
  omitManagedFields: false,
})

/**
 * The rules of an `audit.k8s.io/v1` Policy. The first that matches a request decides; a request that matches no rule is
 * not recorded. The semantics are those of Kubernetes' `audit/policy/checker.go`.
 */
export class AuditPolicy {
  readonly #rules: readonly AuditRule[]

  constructor(rules: readonly AuditRule[]) {
    this.#rules = rules
  }

  decide(attributes: AuditAttributes): AuditDecision {
    for (const rule of this.#rules) if (matches(rule, attributes)) return rule
    return unmatched
  }
}

/**
 * In force without a policy file: the metadata of every request, once it is complete, and of a watch when it starts.
 */
export const metadataPolicy = new AuditPolicy([
  {
    level: 'Metadata',
    omitStages: new Set<AuditStage>(['RequestReceived']),
    omitManagedFields: false,
    users: [],
    userGroups: [],
    verbs: [],
    resources: [],
    namespaces: [],
    nonResourceURLs: [],
  },
])

function matches(rule: AuditRule, { user, verb, target }: AuditAttributes): boolean {
  const { users, userGroups, verbs, resources, namespaces, nonResourceURLs } = rule
  if (users.length > 0 && (user === undefined || !users.includes(user.name))) return false
  if (userGroups.length > 0 && !user?.groups.some(group => userGroups.includes(group))) return false
  if (verbs.length > 0 && !verbs.includes(verb)) return false
  if (resources.length > 0 || namespaces.length > 0)
    return typeof target !== 'string' && matchesObjects(rule, target)
  if (nonResourceURLs.length > 0)
    return typeof target === 'string' && nonResourceURLs.some(pattern => matchesPath(pattern, target))
  return true
}

function matchesObjects({ resources, namespaces }: AuditRule, target: ResourceTarget): boolean {
  if (namespaces.length > 0 && !namespaces.includes(target.namespace ?? '')) return false
  return resources.length === 0 || resources.some(each => includesTarget(each, target))
}

function includesTarget(
  { group, resources, resourceNames }: AuditResources,
  { group: wanted, plural, name = '', subresource = '' }: ResourceTarget,
): boolean {
  if (group !== wanted) return false
  if (resources.length === 0) return true
  if (resourceNames.length > 0 && !resourceNames.includes(name)) return false
  const combined = subresource === '' ? plural : `${plural}/${subresource}`
  return resources.some(
    resource =>
      resource === '*' ||
      resource === combined ||
      resource === `${plural}/*` ||
      (subresource !== '' && resource === `*/${subresource}`),
  )
}

/** @param pattern a path, or a prefix of paths with `*` at its end */
function matchesPath(pattern: string, path: string): boolean {
  return pattern.endsWith('*') ? path.startsWith(pattern.slice(0, -1)) : path === pattern
}
