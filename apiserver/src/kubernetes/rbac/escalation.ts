import type { UserInfo } from '@setpoint/controller-runtime'
import { ApiError } from '@setpoint/controller-runtime/api'
import { type BareObject, echoName, quote } from '../../model/index.ts'
import {
  everyCombination,
  forbiddenObject,
  type PolicyRule,
  type RbacAuthorizer,
  type ResourceTarget,
} from '../../security/index.ts'
import { rbacGroup, readRoleRef, readRules } from './read-roles.ts'

type Plural = 'roles' | 'clusterroles' | 'rolebindings' | 'clusterrolebindings'

/**
 * Keeps users from granting what they do not hold, as Kubernetes does: before a role is written, its rules are compared
 * with those of the writer, who may have the verb `escalate` instead; before a binding, those of its role, or the verb
 * `bind`.
 */
export class EscalationCheck {
  readonly #authorizer: Pick<RbacAuthorizer, 'allows' | 'checkOf' | 'policy'>

  constructor(authorizer: Pick<RbacAuthorizer, 'allows' | 'checkOf' | 'policy'>) {
    this.#authorizer = authorizer
  }

  /** @throws ApiError 403 */
  checkRole(
    plural: 'roles' | 'clusterroles',
    object: BareObject,
    previous: BareObject | undefined,
    user: UserInfo,
  ): void {
    const target = targetOf(plural, object)
    if (this.#authorizer.allows(user, 'escalate', target)) return
    const aggregates = object.aggregationRule !== undefined || previous?.aggregationRule !== undefined
    if (aggregates && !this.#holdsEverything(user))
      throw forbiddenObject(target, 'must have cluster-admin privileges to use the aggregationRule')
    this.#checkHeld(readRules(object.rules), target, user)
  }

  /** @throws ApiError 403; 404 if the role does not exist */
  checkBinding(plural: 'rolebindings' | 'clusterrolebindings', object: BareObject, user: UserInfo): void {
    const target = targetOf(plural, object)
    const { namespace } = target
    const role = readRoleRef(object.roleRef)
    const rolePlural = role.kind === 'Role' ? 'roles' : 'clusterroles'
    const bound = { ...target, plural: rolePlural, name: role.name }
    if (this.#authorizer.allows(user, 'bind', bound)) return
    const rules = this.#authorizer.policy.rulesOfRole(role, namespace)
    if (rules === undefined)
      throw new ApiError('NotFound', `${rolePlural}.${rbacGroup} ${quote(role.name)} not found`, {
        group: rbacGroup,
        kind: rolePlural,
        name: echoName(role.name),
      })
    this.#checkHeld(rules, target, user)
  }

  #holdsEverything(user: UserInfo): boolean {
    const all = { group: '*', plural: '*', namespace: undefined, name: undefined, subresource: undefined }
    return this.#authorizer.allows(user, '*', all) && this.#authorizer.allows(user, '*', '*')
  }

  #checkHeld(rules: readonly PolicyRule[], target: ResourceTarget, user: UserInfo): void {
    const holds = this.#authorizer.checkOf(user, target.namespace)
    const missing = rules.filter(rule => !everyCombination(rule, target.namespace, holds))
    if (missing.length === 0) return
    const shown = missing.slice(0, 5).map(showRule)
    if (missing.length > shown.length) shown.push(`and ${missing.length - shown.length} more`)
    throw forbiddenObject(
      target,
      `user ${quote(user.name)} (groups=${quote(user.groups)}) is attempting to grant RBAC permissions not currently held:\n${shown.join('\n')}`,
    )
  }
}

function targetOf(plural: Plural, { metadata: { name, namespace } }: BareObject) {
  return { group: rbacGroup, plural, namespace, name, subresource: undefined }
}

/** As Kubernetes shows a rule. */
function showRule({ verbs, apiGroups, resources, resourceNames, nonResourceURLs }: PolicyRule): string {
  const fields = Object.entries({
    APIGroups: apiGroups,
    Resources: resources,
    ResourceNames: resourceNames,
    NonResourceURLs: nonResourceURLs,
    Verbs: verbs,
  })
  return `{${fields.flatMap(([name, list]) => (list ? [`${name}:${quote(list)}`] : [])).join(', ')}}`
}
