import { checkLabelKey } from '@setpoint/controller-runtime/api'
import { recordsOf, textOf } from '../../../kubernetes/index.ts'
import type { Findings } from '../../findings.ts'
import { problemOfExpression } from '../cel-environment.ts'
import { checkDistinct } from './lists.ts'

export const conditionLimits = Object.freeze({
  /** Match conditions of a policy or a webhook, as in Kubernetes. */
  conditions: 64,
})

/** Checks match conditions. They cannot use the variables of a policy. */
export function* checkConditions(
  value: unknown,
  hasParams: boolean,
  place: string,
  found: Findings,
): Generator<void> {
  const conditions = recordsOf(value)
  const { conditions: most } = conditionLimits
  if (conditions.length > most)
    found.tooMany(place, `must have at most ${most} items, has ${conditions.length}`)
  for (const [at, condition] of conditions.entries()) {
    yield
    const [expression, name] = [textOf(condition.expression).trim(), textOf(condition.name)]
    const field = `${place}[${at}]`
    if (expression === '') found.required(`${field}.expression`)
    else
      found.addClause(
        `${field}.expression`,
        problemOfExpression(expression, { hasParams, hasAuthorizer: true }, ['bool']),
      )
    if (name === '') found.required(`${field}.name`)
    else found.addClause(`${field}.name`, checkLabelKey(name))
  }
  checkDistinct(
    conditions.map(({ name }) => textOf(name)),
    at => `${place}[${at}].name`,
    found,
  )
}
