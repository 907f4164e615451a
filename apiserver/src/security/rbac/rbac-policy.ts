import type { UserInfo } from '@setpoint/controller-runtime'
import type { Grant, Target } from '../authorize.ts'
import type { PolicyRule } from '../policy-rule.ts'
import { type Binding, BindingGrant, type RbacKey, type RoleRef, type Subject } from './binding.ts'
import { type LabelSelector, selects } from './label-selector.ts'
import { RuleIndex } from './rule-index.ts'

/** A Role or ClusterRole. */
export interface Role {
  readonly rules: readonly PolicyRule[]
  readonly labels: Readonly<Record<string, string>>
  /** Selects the ClusterRoles whose rules this one has instead of its own. */
  readonly aggregates?: readonly LabelSelector[]
}

/** The bindings of one subject in one scope, and their rules once a decision has needed them. */
interface Grants {
  readonly subject: Subject
  /** By name. */
  readonly bindings: Map<string, Binding>
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
 * The roles and bindings of `rbac.authorization.k8s.io`, indexed by subject. A decision looks up the user and the user's
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
    for (const subject of previous?.subjects ?? []) {
      const bySubject = scope[subject.kind]
      const grants = bySubject.get(subject.name)
      if (grants === undefined) continue
      grants.bindings.delete(name)
      grants.index = undefined
      if (grants.bindings.size === 0) bySubject.delete(subject.name)
    }
    if (binding === undefined) scope.bindings.delete(name)
    else scope.bindings.set(name, binding)
    for (const subject of binding?.subjects ?? []) {
      const bySubject = scope[subject.kind]
      const grants = bySubject.get(subject.name) ?? newGrants(subject)
      bySubject.set(subject.name, grants)
      if (binding !== undefined) grants.bindings.set(name, binding)
      grants.index = undefined
    }
    this.#forgetEmpty(scope)
  }

  /** Returns what allows a user to do something, or undefined. Cluster-wide bindings come first, as in Kubernetes. */
  grantOf(user: UserInfo, verb: string, target: Target): Grant | undefined {
    const clusterWide = this.#grantIn(this.#cluster, user, verb, target)
    if (clusterWide !== undefined || typeof target === 'string' || target.namespace === undefined)
      return clusterWide
    const scope = this.#namespaces.get(target.namespace)
    return scope && this.#grantIn(scope, user, verb, target)
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

  #grantIn(scope: Scope, { name, groups }: UserInfo, verb: string, target: Target): Grant | undefined {
    const own = scope.User.get(name)
    const found = own && this.#indexOf(scope, own).find(verb, target)
    if (found !== undefined) return found
    for (const group of groups) {
      const grants = scope.Group.get(group)
      const granted = grants && this.#indexOf(scope, grants).find(verb, target)
      if (granted !== undefined) return granted
    }
    return undefined
  }

  #indexOf({ namespace }: Scope, grants: Grants): RuleIndex {
    if (grants.index !== undefined && grants.epoch === this.#epoch) return grants.index
    const index = new RuleIndex()
    for (const [binding, role] of rolesOf(grants)) {
      const grant = new BindingGrant({ namespace, name: binding }, role, grants.subject)
      index.add(this.rulesOfRole(role, namespace) ?? [], grant, namespace === undefined)
    }
    grants.index = index
    grants.epoch = this.#epoch
    return index
  }

  #rulesOfGrants({ namespace }: Scope, grants: Grants): readonly PolicyRule[] {
    return [...rolesOf(grants).values()].flatMap(role => this.rulesOfRole(role, namespace) ?? [])
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

function newGrants(subject: Subject): Grants {
  return { subject, bindings: new Map(), index: undefined, epoch: 0 }
}

/** Returns the roles of a subject, each by the name of one binding that gives it. */
function rolesOf({ bindings }: Grants): Map<string, RoleRef> {
  const found = new Set<string>()
  const roles = new Map<string, RoleRef>()
  for (const [name, { role }] of bindings) {
    const id = `${role.kind}/${role.name}`
    if (!found.has(id)) roles.set(name, role)
    found.add(id)
  }
  return roles
}

function newScope(namespace: string | undefined): Scope {
  return { namespace, roles: new Map(), bindings: new Map(), User: new Map(), Group: new Map() }
}
