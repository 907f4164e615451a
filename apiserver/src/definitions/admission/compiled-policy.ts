import { type Fields, recordsOf, textOf } from '../../kubernetes/index.ts'
import type { Budget, CelType, CelValue } from '../../model/index.ts'
import { cel, type ExpressionScope } from './cel-environment.ts'
import { LazyMap } from './cel-values.ts'
import { MatchConditions } from './conditions.ts'
import { type Expression, evaluate, type Outcome, type Variables } from './evaluation.ts'
import { compile } from './expressions.ts'

/** One validation of a policy. */
interface Validation {
  readonly expression: string
  readonly message: string
  readonly messageExpression: string
  readonly reason: string
}

/** The result of one validation that is not true. */
export interface Decision {
  /** The position of the validation. */
  readonly index: number
  readonly message: string
  /** Empty for an evaluation that failed. */
  readonly reason: string
  readonly isError: boolean
}

/** The result of the expressions of a policy for one write and one parameter. */
export interface PolicyResult {
  readonly decisions: readonly Decision[]
  readonly annotations: readonly { readonly key: string; readonly value: string }[]
  /** What failed as a whole: the match conditions, or the policy for its steps. */
  readonly failures: readonly string[]
  /** Why annotations could not be made. */
  readonly annotationFailures: readonly string[]
}

export const policyDefaults = Object.freeze({
  /** Steps of the validations and messages of a policy for one write and one parameter, and of its audit annotations. */
  steps: 500_000,
  /** Characters of a message that an expression makes, and of the value of an annotation, as in Kubernetes. */
  messageLength: 5 * 1024,
  annotationLength: 10 * 1024,
})

const nothing: PolicyResult = Object.freeze({
  decisions: [],
  annotations: [],
  failures: [],
  annotationFailures: [],
})
const outOfBudget =
  'validation failed due to running out of cost budget, no further validation rules will be run'

/** The expressions of a ValidatingAdmissionPolicy, compiled when they are first evaluated. */
export class CompiledPolicy {
  readonly hasParams: boolean
  readonly #spec: Fields
  readonly #conditions: MatchConditions
  readonly #validations: readonly Validation[]
  readonly #annotations: readonly { readonly key: string; readonly expression: string }[]
  #programs: Programs | undefined

  constructor(spec: Fields) {
    this.#spec = spec
    this.hasParams = spec.paramKind !== undefined
    this.#conditions = new MatchConditions(spec.matchConditions, this.hasParams)
    this.#validations = recordsOf(spec.validations).map(fields => ({
      expression: textOf(fields.expression),
      message: textOf(fields.message).trim(),
      messageExpression: textOf(fields.messageExpression),
      reason: textOf(fields.reason) || 'Invalid',
    }))
    this.#annotations = recordsOf(spec.auditAnnotations).map(({ key, valueExpression }) => ({
      key: textOf(key),
      expression: textOf(valueExpression).trim(),
    }))
  }

  /** Evaluates the policy. `loadCel` must have been awaited. @param variables all but the policy's own */
  evaluate(variables: Variables): PolicyResult {
    if (!this.#conditions.isEmpty) {
      const match = this.#conditions.evaluate(variables)
      if (match === 'no') return nothing
      if (match !== 'yes') return { ...nothing, failures: [match.problem] }
    }
    const { Budget } = cel()
    const budget = new Budget(policyDefaults.steps)
    const programs = this.#compiled()
    const all = { ...variables, variables: programs.variablesFor(variables, budget) }
    const decisions: Decision[] = []
    try {
      for (const [index, validation] of this.#validations.entries()) {
        const decision = this.#decide(validation, index, programs, all, budget)
        if (decision !== undefined) decisions.push(decision)
      }
    } catch (error) {
      if (!(error instanceof cel().BudgetExceededError)) throw error
      return { ...nothing, failures: [outOfBudget] }
    }
    return { ...nothing, decisions, ...this.#annotate(programs, variables) }
  }

  #decide(
    { message: standing, messageExpression, expression, reason }: Validation,
    index: number,
    { validations, messages }: Programs,
    variables: Variables,
    budget: Budget,
  ): Decision | undefined {
    const validation = validations[index]
    if (validation === undefined) return undefined
    const outcome = evaluate(validation, variables, budget)
    if (outcome.error !== undefined) return { index, message: outcome.error, reason: '', isError: true }
    if (outcome.value === true) return undefined
    const made = messageExpression === '' ? undefined : messages[index]
    const text = made && messageOf(evaluate(made, variables, budget))
    const message = text || standing || `failed expression: ${expression.trim()}`
    return { index, message, reason, isError: false }
  }

  #annotate(
    programs: Programs,
    variables: Variables,
  ): Pick<PolicyResult, 'annotations' | 'annotationFailures'> {
    const budget = new (cel().Budget)(policyDefaults.steps)
    const all = { ...variables, variables: programs.variablesFor(variables, budget) }
    const annotations: { key: string; value: string }[] = []
    const failures: string[] = []
    try {
      for (const [at, annotation] of programs.annotations.entries()) {
        const { error, value } = { value: null, ...evaluate(annotation, all, budget) }
        const text = typeof value === 'string' ? value.trim() : ''
        if (error !== undefined) failures.push(error)
        else if (value !== null && typeof value !== 'string')
          failures.push(`valueExpression '${annotation.expression}' must be a string or null`)
        else if (text !== '') annotations.push({ key: this.#annotations[at]?.key ?? '', value: text })
      }
    } catch (error) {
      if (!(error instanceof cel().BudgetExceededError)) throw error
      failures.push(outOfBudget)
    }
    return { annotations, annotationFailures: failures }
  }

  #compiled(): Programs {
    this.#programs ??= new Programs(
      this.#spec,
      this.hasParams,
      this.#validations,
      this.#annotations.map(({ expression }) => expression),
    )
    return this.#programs
  }
}

/** A message of one line, or an empty text. */
function messageOf({ error, value }: Outcome & { readonly value?: CelValue }): string {
  if (error !== undefined || typeof value !== 'string') return ''
  const text = value.trim()
  return text.length > policyDefaults.messageLength || text.includes('\n') ? '' : text
}

/** The compiled expressions of a policy. */
class Programs {
  readonly validations: readonly Expression[]
  /** One for each validation; of those without one it is never evaluated. */
  readonly messages: readonly Expression[]
  readonly annotations: readonly Expression[]
  readonly #variables = new Map<string, Expression>()

  constructor(
    spec: Fields,
    hasParams: boolean,
    validations: readonly Validation[],
    annotations: readonly string[],
  ) {
    const types = new Map<string, CelType>()
    const scope: ExpressionScope = { hasParams, hasAuthorizer: true, variables: types }
    for (const variable of recordsOf(spec.variables)) {
      const name = textOf(variable.name)
      const compiled = compile(textOf(variable.expression), { ...scope, variables: new Map(types) })
      this.#variables.set(name, compiled)
      types.set(name, compiled.program?.type ?? { kind: 'dyn' })
    }
    this.validations = validations.map(({ expression }) => compile(expression, scope, ['bool']))
    const messageScope = { ...scope, hasAuthorizer: false }
    this.messages = validations.map(({ messageExpression }) =>
      compile(messageExpression || "''", messageScope, ['string']),
    )
    this.annotations = annotations.map(expression => compile(expression, scope, ['string', 'null']))
  }

  /** Returns the value of `variables`. Each variable is evaluated when it is first used. */
  variablesFor(variables: Variables, budget: Budget): CelValue {
    const lazy: LazyMap = new LazyMap(
      [...this.#variables].map(([name, { program, problem }]) => {
        const { CelEvaluationError } = cel()
        const make = (): CelValue => {
          if (program === undefined)
            throw new CelEvaluationError(`composited variable "${name}" fails to compile: ${problem}`)
          try {
            return program.evaluate({ ...variables, variables: lazy }, budget)
          } catch (error) {
            if (!(error instanceof CelEvaluationError)) throw error
            throw new CelEvaluationError(`composited variable "${name}" fails to evaluate: ${error.message}`)
          }
        }
        return [name, make] as const
      }),
    )
    return lazy
  }
}

/** Reads the failure policy of a webhook or a policy. */
export function isIgnoring({ failurePolicy }: Fields): boolean {
  return failurePolicy === 'Ignore'
}
