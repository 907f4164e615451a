import type { Target } from '../authorize.ts'
import type { PolicyRule } from '../policy-rule.ts'
import { RuleIndex } from './rule-index.ts'

/** The rules that a role grants. They are indexed when a decision first needs them. */
export class RoleRules {
  readonly rules: readonly PolicyRule[]
  #index: RuleIndex | undefined

  constructor(rules: readonly PolicyRule[]) {
    this.rules = rules
  }

  allows(verb: string, target: Target): boolean {
    this.#index ??= new RuleIndex(this.rules)
    return this.#index.allows(verb, target)
  }
}
