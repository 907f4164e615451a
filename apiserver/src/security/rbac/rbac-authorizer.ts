import type { UserInfo } from '@setpoint/controller-runtime'
import { ApiError } from '@setpoint/controller-runtime/api'
import { retryAfterSeconds } from '@setpoint/controller-runtime/internal'
import { builtInGroups } from '../access.ts'
import type { Authorizer, Grant, Target, UserRules } from '../authorize.ts'
import { forbidden } from '../forbidden.ts'
import type { PolicyRule } from '../policy-rule.ts'
import { RbacPolicy } from './rbac-policy.ts'

export const rbacDefaults = Object.freeze({
  /**
   * Characters of the rules that a review lists, as JSON: some milliseconds of work. A role may have a megabyte of
   * names.
   */
  listedCharacters: 1024 * 1024,
})

interface RbacAuthorizerOptions {
  /** Returns true for kinds whose objects viewers may not read. */
  readonly isSensitive: (group: string, plural: string) => boolean
}

const everything: readonly PolicyRule[] = Object.freeze([
  Object.freeze({ verbs: ['*'], apiGroups: ['*'], resources: ['*'] }),
  Object.freeze({ verbs: ['*'], nonResourceURLs: ['*'] }),
])

const readings: readonly PolicyRule[] = Object.freeze([
  Object.freeze({ verbs: ['get', 'list', 'watch'], apiGroups: ['*'], resources: ['*'] }),
  Object.freeze({ verbs: ['get'], nonResourceURLs: ['*'] }),
])

const adminsGrant = grantOfGroup(builtInGroups.admins)
const viewersGrant = grantOfGroup(builtInGroups.viewers)

const readingVerbs: ReadonlySet<string> = new Set(['get', 'list', 'watch', 'head'])

/**
 * At and below these paths are operations such as backups, which contain every object, the settings of the server, and
 * profiles, which stop it or contain its secrets.
 */
const pathsOfAdmins = ['/operations', '/configz', '/debug'] as const

const viewersProblem = `${builtInGroups.viewers} may not read Secrets, kinds that are sensitive, and ${pathsOfAdmins.join(', ')}`

/**
 * Decides by roles and their bindings, and by the built-in groups:
 *
 *     setpoint:admins ──▶ everything, also while the roles are being read
 *     setpoint:viewers ──▶ reading, except for sensitive kinds and what only administrators may see
 *     others ──▶ what the bindings of the user and the user's groups grant, nothing else
 */
export class RbacAuthorizer implements Authorizer {
  readonly #policy = new RbacPolicy()
  readonly #isSensitive: RbacAuthorizerOptions['isSensitive']
  readonly #listeners = new Set<() => void>()
  #isReady = false

  constructor({ isSensitive }: RbacAuthorizerOptions) {
    this.#isSensitive = isSensitive
  }

  get policy(): Pick<RbacPolicy, 'rulesOfRole' | 'aggregated' | 'costOf'> {
    return this.#policy
  }

  /** Changes the roles and bindings, and tells the listeners. They are complete from the first change on. */
  update(change: (policy: RbacPolicy) => void): void {
    change(this.#policy)
    this.#isReady = true
    for (const listener of [...this.#listeners]) listener()
  }

  authorize(user: UserInfo, verb: string, target: Target): void {
    if (this.grantOf(user, verb, target) === undefined) throw forbidden(user, verb, target)
  }

  allows(user: UserInfo, verb: string, target: Target): boolean {
    return this.grantOf(user, verb, target) !== undefined
  }

  grantOf(user: UserInfo, verb: string, target: Target): Grant | undefined {
    const { groups } = user
    if (groups.includes(builtInGroups.admins)) return adminsGrant
    this.#checkReady()
    if (groups.includes(builtInGroups.viewers) && this.#viewersMay(verb, target)) return viewersGrant
    return this.#policy.grantOf(user, verb, target)
  }

  /**
   * Returns `allows` for one user in one namespace, or cluster-wide without one. It is valid until the next change, and
   * costs less for each of thousands of questions.
   * @throws ApiError 503 as `grantOf`
   */
  checkOf(user: UserInfo, namespace: string | undefined): (verb: string, target: Target) => boolean {
    const { groups } = user
    if (groups.includes(builtInGroups.admins)) return () => true
    this.#checkReady()
    const check = this.#policy.checkOf(user, namespace)
    if (!groups.includes(builtInGroups.viewers)) return check
    return (verb, target) => this.#viewersMay(verb, target) || check(verb, target)
  }

  rulesOf(user: UserInfo, namespace: string | undefined): UserRules {
    if (user.groups.includes(builtInGroups.admins)) return { rules: everything }
    this.#checkReady()
    const isViewer = user.groups.includes(builtInGroups.viewers)
    const rules: PolicyRule[] = isViewer ? [...readings] : []
    const problems = isViewer ? [viewersProblem] : []
    let left = rbacDefaults.listedCharacters
    for (const rule of this.#policy.rulesOf(user, namespace)) {
      left -= JSON.stringify(rule).length
      if (left < 0) {
        problems.push('there are more rules than a review lists')
        break
      }
      rules.push(rule)
    }
    return problems.length === 0 ? { rules } : { rules, problem: problems.join('; ') }
  }

  onChange(changed: () => void): () => void {
    this.#listeners.add(changed)
    return () => this.#listeners.delete(changed)
  }

  /** A wildcard stands for sensitive kinds, too. */
  #viewersMay(verb: string, target: Target): boolean {
    if (!readingVerbs.has(verb)) return false
    if (typeof target === 'string')
      return !target.includes('*') && !pathsOfAdmins.some(path => isBelow(target, path))
    const { group, plural } = target
    return group !== '*' && plural !== '*' && !this.#isSensitive(group, plural)
  }

  #checkReady(): void {
    if (this.#isReady) return
    throw new ApiError(
      'ServiceUnavailable',
      'the roles are being read, so no permission can be checked yet',
      {
        retryAfterSeconds,
      },
    )
  }
}

function grantOfGroup(group: string): Grant {
  return Object.freeze({ reason: `allowed by the built-in group ${JSON.stringify(group)}` })
}

function isBelow(path: string, root: string): boolean {
  return path === root || path.startsWith(`${root}/`)
}
