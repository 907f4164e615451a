import type { UserInfo } from '@setpoint/controller-runtime'
import type { Grant, Target } from '../authorize.ts'
import type { PolicyRule } from '../policy-rule.ts'
import { type Binding, BindingGrant, type RbacKey, type RoleRef, type Subject } from './binding.ts'
import { combinationsOf } from './combinations.ts'
import { type LabelSelector, selects } from './label-selector.ts'
import { RoleRules } from './role-rules.ts'
import { RuleIndex } from './rule-index.ts'

/** A Role or ClusterRole. */
export interface Role {
  readonly rules: readonly PolicyRule[]
  readonly labels: Readonly<Record<string, string>>
  /** Selects the ClusterRoles whose rules this one has instead of its own. */
  readonly aggregates?: readonly LabelSelector[]
}

/** What the roles and bindings of a namespace cost. */
export interface PolicyCost {
  readonly roles: number
  /** Combinations of verb and target in the rules of the roles. */
  readonly combinations: number
  /** Subjects of the bindings; a binding without any counts as one. */
  readonly subjects: number
}

/** A role with its own rules. Those of an aggregated one are not what it grants. */
interface KnownRole {
  readonly role: Role
  readonly own: RoleRules
}

/** The bindings of one subject in one scope. */
interface Grants {
  readonly subject: Subject
  /** By name. */
  readonly bindings: Map<string, Binding>
  /**
   * Each role once, with one binding that gives it. Undefined until a decision needs it, and after a change of the
   * bindings.
   */
  roles: readonly BindingGrant[] | undefined
}

/** The bindings of one namespace, or those that are cluster-wide, by subject. */
interface Scope {
  readonly namespace: string | undefined
  readonly roles: Map<string, KnownRole>
  readonly bindings: Map<string, Binding>
  readonly User: Map<string, Grants>
  readonly Group: Map<string, Grants>
  /** See `PolicyCost`. */
  combinations: number
  subjects: number
}

/**
 * The roles and bindings of `rbac.authorization.k8s.io`, indexed by subject. A decision looks up the user and the
 * user's groups, and asks the index of each role that they have. It depends neither on the number of bindings nor on
 * the rules in a role.
 *
 * Each role has an index of its own, and keeps it until that role changes. So a change of one role costs the decisions
 * after it no more than that role, whoever has it. Only a change of a ClusterRole makes the aggregated ones anew.
 */
export class RbacPolicy {
  #cluster = newScope(undefined)
  readonly #namespaces = new Map<string, Scope>()
  /** The rules of aggregated ClusterRoles that have been needed since the last change of a ClusterRole. */
  readonly #aggregated = new Map<string, RoleRules>()

  clear(): void {
    this.#cluster = newScope(undefined)
    this.#namespaces.clear()
    this.#aggregated.clear()
  }

  setRole({ namespace, name }: RbacKey, role: Role | undefined): void {
    const scope = this.#scopeOf(namespace)
    scope.combinations += costOfRules(role?.rules) - costOfRules(scope.roles.get(name)?.role.rules)
    if (role === undefined) scope.roles.delete(name)
    else scope.roles.set(name, { role, own: new RoleRules(role.rules) })
    if (namespace === undefined) this.#aggregated.clear()
    this.#forgetEmpty(scope)
  }

  setBinding({ namespace, name }: RbacKey, binding: Binding | undefined): void {
    const scope = this.#scopeOf(namespace)
    const previous = scope.bindings.get(name)
    scope.subjects += costOfBinding(binding) - costOfBinding(previous)
    for (const subject of previous?.subjects ?? []) {
      const bySubject = scope[subject.kind]
      const grants = bySubject.get(subject.name)
      if (grants === undefined) continue
      grants.bindings.delete(name)
      grants.roles = undefined
      if (grants.bindings.size === 0) bySubject.delete(subject.name)
    }
    if (binding === undefined) scope.bindings.delete(name)
    else scope.bindings.set(name, binding)
    for (const subject of binding?.subjects ?? []) {
      const bySubject = scope[subject.kind]
      const grants = bySubject.get(subject.name) ?? newGrants(subject)
      bySubject.set(subject.name, grants)
      if (binding !== undefined) grants.bindings.set(name, binding)
      grants.roles = undefined
    }
    this.#forgetEmpty(scope)
  }

  costOf(namespace: string): PolicyCost {
    const { roles, combinations, subjects } = this.#namespaces.get(namespace) ?? newScope(namespace)
    return { roles: roles.size, combinations, subjects }
  }

  /** Returns what allows a user to do something, or undefined. Cluster-wide bindings come first, as in Kubernetes. */
  grantOf(user: UserInfo, verb: string, target: Target): Grant | undefined {
    const clusterWide = this.#grantIn(this.#cluster, user, verb, target)
    if (clusterWide !== undefined || typeof target === 'string' || target.namespace === undefined)
      return clusterWide
    const scope = this.#namespaces.get(target.namespace)
    return scope && this.#grantIn(scope, user, verb, target)
  }

  /**
   * Returns a check of what a user may do in one namespace, or cluster-wide without one, until the next change. Merges
   * the rules of all roles of the user, so that thousands of questions cost little each, however many roles there are.
   */
  checkOf(user: UserInfo, namespace: string | undefined): (verb: string, target: Target) => boolean {
    const clusterWide = new RuleIndex(this.#rulesIn(this.#cluster, user))
    const scope = namespace === undefined ? undefined : this.#namespaces.get(namespace)
    const inNamespace = scope && new RuleIndex(this.#rulesIn(scope, user))
    return (verb, target) =>
      clusterWide.allows(verb, target) ||
      (typeof target !== 'string' && inNamespace?.allows(verb, target) === true)
  }

  /** Yields each rule that applies to a user in a namespace, or cluster-wide without one. */
  *rulesOf(user: UserInfo, namespace: string | undefined): Generator<PolicyRule> {
    const inNamespace = namespace === undefined ? undefined : this.#namespaces.get(namespace)
    const found = new Set<PolicyRule>()
    for (const scope of inNamespace === undefined ? [this.#cluster] : [this.#cluster, inNamespace])
      for (const rule of this.#rulesIn(scope, user)) {
        if (found.has(rule)) continue
        found.add(rule)
        yield rule
      }
  }

  *#rulesIn(scope: Scope, { name, groups }: UserInfo): Generator<PolicyRule> {
    for (const grants of [scope.User.get(name), ...groups.map(group => scope.Group.get(group))])
      for (const { role } of grants === undefined ? [] : rolesOf(scope, grants))
        yield* this.#rulesOf(role, scope.namespace)?.rules ?? []
  }

  /**
   * Returns the rules of the role that a binding in `namespace` refers to, or undefined if it does not exist. They are
   * the same array until the role changes.
   */
  rulesOfRole(role: RoleRef, namespace: string | undefined): readonly PolicyRule[] | undefined {
    return this.#rulesOf(role, namespace)?.rules
  }

  /** The names of the ClusterRoles that have the rules of others. */
  aggregated(): string[] {
    return [...this.#cluster.roles].flatMap(([name, { role }]) => (role.aggregates ? [name] : []))
  }

  #grantIn(scope: Scope, { name, groups }: UserInfo, verb: string, target: Target): Grant | undefined {
    const own = this.#grantOfSubject(scope, scope.User.get(name), verb, target)
    if (own !== undefined) return own
    for (const group of groups) {
      const grant = this.#grantOfSubject(scope, scope.Group.get(group), verb, target)
      if (grant !== undefined) return grant
    }
    return undefined
  }

  #grantOfSubject(scope: Scope, grants: Grants | undefined, verb: string, target: Target): Grant | undefined {
    if (grants === undefined) return undefined
    for (const grant of rolesOf(scope, grants))
      if (this.#rulesOf(grant.role, scope.namespace)?.allows(verb, target)) return grant
    return undefined
  }

  #rulesOf({ kind, name }: RoleRef, namespace: string | undefined): RoleRules | undefined {
    if (kind === 'Role')
      return namespace === undefined ? undefined : this.#namespaces.get(namespace)?.roles.get(name)?.own
    const known = this.#cluster.roles.get(name)
    if (known?.role.aggregates === undefined) return known?.own
    const made = this.#aggregated.get(name) ?? new RoleRules(this.#aggregate(name, known.role))
    this.#aggregated.set(name, made)
    return made
  }

  /** Returns the rules of all roles that an aggregated role selects, also through other aggregated ones. */
  #aggregate(name: string, role: Role): readonly PolicyRule[] {
    const { roles } = this.#cluster
    const found = new Map([[name, role]])
    for (const { aggregates } of found.values()) {
      if (aggregates === undefined) continue
      for (const [other, { role: each }] of roles)
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
  return { subject, bindings: new Map(), roles: undefined }
}

function rolesOf({ namespace }: Scope, grants: Grants): readonly BindingGrant[] {
  if (grants.roles !== undefined) return grants.roles
  const roles = new Map<string, BindingGrant>()
  for (const [name, { role }] of grants.bindings) {
    const id = `${role.kind}/${role.name}`
    if (!roles.has(id)) roles.set(id, new BindingGrant({ namespace, name }, role, grants.subject))
  }
  grants.roles = [...roles.values()]
  return grants.roles
}

function newScope(namespace: string | undefined): Scope {
  const byName = { roles: new Map(), bindings: new Map() }
  return { namespace, ...byName, User: new Map(), Group: new Map(), combinations: 0, subjects: 0 }
}

export function costOfBinding(binding: Binding | undefined): number {
  return binding === undefined ? 0 : Math.max(1, binding.subjects.length)
}

export function costOfRules(rules: readonly PolicyRule[] = []): number {
  return rules.reduce((sum, rule) => sum + combinationsOf(rule), 0)
}
