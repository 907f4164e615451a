import { recordsOf, textOf } from '../../kubernetes/index.ts'
import { cel } from './cel-environment.ts'
import { type Expression, evaluate, type Variables } from './evaluation.ts'
import { compile } from './expressions.ts'

export const conditionDefaults = Object.freeze({
  /** Steps for the match conditions of a webhook or a policy: a quarter of those for validations, as in Kubernetes. */
  steps: 125_000,
})

/** What the match conditions say of a write. `problem` says why they cannot tell, while no condition is false. */
export type Match = 'yes' | 'no' | { readonly problem: string }

/** The match conditions of a webhook or a policy, compiled when they are first evaluated. */
export class MatchConditions {
  readonly #conditions: readonly string[]
  readonly #hasParams: boolean
  #compiled: readonly Expression[] | undefined

  constructor(value: unknown, hasParams: boolean) {
    this.#conditions = recordsOf(value).map(({ expression }) => textOf(expression))
    this.#hasParams = hasParams
  }

  get isEmpty(): boolean {
    return this.#conditions.length === 0
  }

  /** As in Kubernetes, one condition that is false outweighs all errors. `loadCel` must have been awaited. */
  evaluate(variables: Variables): Match {
    const scope = { hasParams: this.#hasParams, hasAuthorizer: true }
    this.#compiled ??= this.#conditions.map(expression => compile(expression, scope, ['bool']))
    const budget = new (cel().Budget)(conditionDefaults.steps)
    const problems: string[] = []
    try {
      for (const condition of this.#compiled) {
        const outcome = evaluate(condition, variables, budget)
        if (outcome.error !== undefined) problems.push(outcome.error)
        else if (outcome.value !== true) return 'no'
      }
    } catch (error) {
      if (!(error instanceof cel().BudgetExceededError)) throw error
      problems.push('match conditions take too many steps')
    }
    if (problems.length === 0) return 'yes'
    return { problem: problems.length === 1 ? String(problems[0]) : `[${problems.join(', ')}]` }
  }
}
