import type { BareObject } from '../../model/index.ts'
import type { NamespaceGrowth } from '../../registry/index.ts'
import { costOfBinding, costOfRules, type PolicyCost, type RbacAuthorizer } from '../../security/index.ts'
import type { Bound, BoundSource } from '../quota/index.ts'
import { rbacGroup, readBinding, readRules } from './read-roles.ts'

/**
 * What the roles and bindings of one namespace may cost. Its administrator decides about them, but every decision reads
 * them.
 */
export const roleBoundsDefaults: PolicyCost = Object.freeze({
  /** A decision asks each role of the user, which takes some 60 ns. */
  roles: 1_000,
  /**
   * A check against escalation merges the rules of the writer: up to 2.5 microseconds for each combination in one turn.
   */
  combinations: 20_000,
  /** Some 500 bytes each. */
  subjects: 10_000,
})

const title = "the server's limits of a namespace"
const none: readonly Bound[] = Object.freeze([])

/** The limits that every namespace has for its Roles and RoleBindings. */
export class RoleBounds implements BoundSource {
  readonly #authorizer: Pick<RbacAuthorizer, 'policy'>

  constructor(authorizer: Pick<RbacAuthorizer, 'policy'>) {
    this.#authorizer = authorizer
  }

  boundsOf(namespace: string, { served, object, previous }: NamespaceGrowth): readonly Bound[] {
    const { group, plural } = served.model
    if (group !== rbacGroup) return none
    const after = costOf(plural, object)
    const before = costOf(plural, previous)
    const measures = (['roles', 'combinations', 'subjects'] as const).flatMap(name => {
      const requested = after[name] - before[name]
      if (requested <= 0) return []
      const limit = roleBoundsDefaults[name]
      const used = () => this.#authorizer.policy.costOf(namespace)[name]
      return [{ name, requested, used, limit, limitText: String(limit) }]
    })
    return measures.length === 0 ? none : [{ title, measures }]
  }
}

/** Returns what a Role or RoleBinding costs. */
function costOf(plural: string, object: BareObject | undefined): PolicyCost {
  if (object === undefined) return { roles: 0, combinations: 0, subjects: 0 }
  if (plural === 'roles') return { roles: 1, combinations: costOfRules(readRules(object.rules)), subjects: 0 }
  return { roles: 0, combinations: 0, subjects: costOfBinding(readBinding(object, '')) }
}
