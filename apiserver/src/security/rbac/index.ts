/**
 * Decides by the roles of `rbac.authorization.k8s.io`, with Kubernetes' semantics: rules only add up, and nothing is
 * allowed that no rule allows. Knows neither objects nor stores: `kubernetes/rbac` has the kinds, whose room is above
 * this one, and keeps the policy up to date.
 */

export type { Binding, RbacKey, RoleRef, Subject } from './binding.ts'
export { everyCombination } from './combinations.ts'
export { type LabelSelector, selects } from './label-selector.ts'
export { RbacAuthorizer } from './rbac-authorizer.ts'
export { costOfBinding, costOfRules, type PolicyCost, type RbacPolicy, type Role } from './rbac-policy.ts'
export { RuleIndex } from './rule-index.ts'
