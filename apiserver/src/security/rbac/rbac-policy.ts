import type { UserInfo } from '@setpoint/controller-runtime'
import type { Target } from '../authorize.ts'
import type { PolicyRule } from '../policy-rule.ts'
import { type LabelSelector, selects } from './label-selector.ts'
import { RuleIndex } from './rule-index.ts'

/** A Role or ClusterRole. */
export interface Role {
  readonly rules: readonly PolicyRule[]
  readonly labels: Readonly<Record<string, string>>
  /** Selects the ClusterRoles whose rules this one has instead of its own. */
  readonly aggregates?: readonly LabelSelector[]
}

export interface RoleRef {
  readonly kind: 'Role' | 'ClusterRole'
  readonly name: string
}

/** A user or group. A service account is the user `system:serviceaccount:<namespace>:<name>`. */
export interface Subject {
  readonly kind: 'User' | 'Group'
  readonly name: string
}

/** A RoleBinding or ClusterRoleBinding. */
export interface Binding {
  readonly role: RoleRef
  readonly subjects: readonly Subject[]
}

/** The place of a role or binding. */
export interface RbacKey {
  /** Undefined for a ClusterRole or ClusterRoleBinding. */
  readonly namespace: string | undefined
  readonly name: string
}

/** The bindings of one subject in one scope, and their rules once a decision has needed them. */
interface Grants {
  readonly bindings: Set<Binding>
  index: RuleIndex | undefined
  /** The state of the roles that `index` was made from. */
  epoch: number
}

/** The bindings of one namespace, or those that are cluster-wide, by subject. */
interface Scope {
  readonly namespace: string | undefined
  readonly roles: Map<string, Role>
  readonly bindings: Map<string, Binding>
  readonly User: Map<string, Grants>
  readonly Group: Map<string, Grants>
}

/**
 * The roles and bindings of `rbac.authorization.k8s.io`, indexed by subject. A decision looks up the user and each of his
 * groups, so it does not depend on the number of bindings. The rules of a subject are merged when a decision first needs
 * them, and again after a change that concerns them.
 */
export class RbacPolicy {
  readonly #cluster = newScope(undefined)
  readonly #namespaces = new Map<string, Scope>()
  /** Rises with each change of a role. */
  #epoch = 0

  clear(): void {
    this.#epoch++
    this.#namespaces.clear()
    for (const map of [this.#cluster.roles, this.#cluster.bindings, this.#cluster.User, this.#cluster.Group])
      map.clear()
  }

  setRole({ namespace, name }: RbacKey, role: Role | undefined): void {
    this.#epoch++
    const scope = this.#scopeOf(namespace)
    if (role === undefined) scope.roles.delete(name)
    else scope.roles.set(name, role)
    this.#forgetEmpty(scope)
  }

  setBinding({ namespace, name }: RbacKey, binding: Binding | undefined): void {
    const scope = this.#scopeOf(namespace)
    const previous = scope.bindings.get(name)
    for (const { kind, name } of previous?.subjects ?? []) {
      const grants = scope[kind].get(name)
      if (previous === undefined || grants === undefined) continue
      grants.bindings.delete(previous)
      grants.index = undefined
      if (grants.bindings.size === 0) scope[kind].delete(name)
    }
    if (binding === undefined) scope.bindings.delete(name)
    else scope.bindings.set(name, binding)
    for (const { kind, name } of binding?.subjects ?? []) {
      const grants = scope[kind].get(name) ?? { bindings: new Set<Binding>(), index: undefined, epoch: 0 }
      scope[kind].set(name, grants)
      if (binding !== undefined) grants.bindings.add(binding)
      grants.index = undefined
    }
    this.#forgetEmpty(scope)
  }

  allows(user: UserInfo, verb: string, target: Target): boolean {
    if (this.#allowsIn(this.#cluster, user, verb, target)) return true
    if (typeof target === 'string' || target.namespace === undefined) return false
    const scope = this.#namespaces.get(target.namespace)
    return scope !== undefined && this.#allowsIn(scope, user, verb, target)
  }

  /** Returns all rules that apply to a user in a namespace, or cluster-wide without one. */
  rulesOf({ name, groups }: UserInfo, namespace: string | undefined): PolicyRule[] {
    const inNamespace = namespace === undefined ? undefined : this.#namespaces.get(namespace)
    const rules = new Set<PolicyRule>()
    for (const scope of inNamespace === undefined ? [this.#cluster] : [this.#cluster, inNamespace]) {
      for (const grants of [scope.User.get(name), ...groups.map(group => scope.Group.get(group))])
        for (const rule of grants === undefined ? [] : this.#rulesOfGrants(scope, grants)) rules.add(rule)
    }
    return [...rules]
  }

  /** Returns the rules of the role that a binding in `namespace` refers to, or undefined if it does not exist. */
  rulesOfRole({ kind, name }: RoleRef, namespace: string | undefined): readonly PolicyRule[] | undefined {
    if (kind === 'ClusterRole') return this.#clusterRules(name)
    return namespace === undefined ? undefined : this.#namespaces.get(namespace)?.roles.get(name)?.rules
  }

  /** The names of the ClusterRoles that have the rules of others. */
  aggregated(): string[] {
    return [...this.#cluster.roles].flatMap(([name, { aggregates }]) => (aggregates ? [name] : []))
  }

  #allowsIn(scope: Scope, { name, groups }: UserInfo, verb: string, target: Target): boolean {
    const own = scope.User.get(name)
    if (own !== undefined && this.#indexOf(scope, own).allows(verb, target)) return true
    for (const group of groups) {
      const grants = scope.Group.get(group)
      if (grants !== undefined && this.#indexOf(scope, grants).allows(verb, target)) return true
    }
    return false
  }

  #indexOf(scope: Scope, grants: Grants): RuleIndex {
    if (grants.index !== undefined && grants.epoch === this.#epoch) return grants.index
    const index = new RuleIndex()
    index.add(this.#rulesOfGrants(scope, grants), scope.namespace === undefined)
    grants.index = index
    grants.epoch = this.#epoch
    return index
  }

  #rulesOfGrants({ namespace }: Scope, { bindings }: Grants): readonly PolicyRule[] {
    const roles = new Map([...bindings].map(({ role }) => [`${role.kind}/${role.name}`, role]))
    return [...roles.values()].flatMap(role => this.rulesOfRole(role, namespace) ?? [])
  }

  /** An aggregated role has the rules of all roles that it selects, also through other aggregated ones. */
  #clusterRules(name: string): readonly PolicyRule[] | undefined {
    const { roles } = this.#cluster
    const role = roles.get(name)
    if (role?.aggregates === undefined) return role?.rules
    const found = new Map([[name, role]])
    for (const { aggregates } of found.values()) {
      if (aggregates === undefined) continue
      for (const [other, each] of roles)
        if (!found.has(other) && aggregates.some(selector => selects(selector, each.labels)))
          found.set(other, each)
    }
    const rules = new Map<string, PolicyRule>()
    for (const [, { aggregates, rules: own }] of [...found].sort(([a], [b]) => (a < b ? -1 : 1)))
      if (aggregates === undefined) for (const rule of own) rules.set(JSON.stringify(rule), rule)
    return [...rules.values()]
  }

  #scopeOf(namespace: string | undefined): Scope {
    if (namespace === undefined) return this.#cluster
    const scope = this.#namespaces.get(namespace) ?? newScope(namespace)
    this.#namespaces.set(namespace, scope)
    return scope
  }

  #forgetEmpty({ namespace, roles, bindings }: Scope): void {
    if (namespace !== undefined && roles.size === 0 && bindings.size === 0) this.#namespaces.delete(namespace)
  }
}

function newScope(namespace: string | undefined): Scope {
  return { namespace, roles: new Map(), bindings: new Map(), User: new Map(), Group: new Map() }
}
