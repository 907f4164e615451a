import { checkLabelKey, checkLabelValue, type HookViolation } from '@setpoint/controller-runtime/api'
import type { LabelSelector } from '../security/index.ts'
import { type Fields, recordOf, recordsOf, textOf, textsOf } from './fields.ts'

/** Returns a selector of an object. Ignores what its validation would refuse. */
export function readSelector({ matchLabels, matchExpressions }: Fields): LabelSelector {
  return {
    matchLabels: textMapOf(matchLabels),
    matchExpressions: recordsOf(matchExpressions).map(({ key, operator, values }) => ({
      key: textOf(key),
      operator: textOf(operator),
      values: textsOf(values),
    })),
  }
}

/** Returns the entries of a map that are texts. */
export function textMapOf(value: unknown): Record<string, string> {
  const entries = Object.entries(recordOf(value))
  return Object.fromEntries(
    entries.flatMap(([key, text]) => (typeof text === 'string' ? [[key, text] as const] : [])),
  )
}

/** As Kubernetes validates a label selector. @param place the field of the selector */
export function problemsOfSelector(
  { matchLabels, matchExpressions }: Fields,
  place: string,
): HookViolation[] {
  return [
    ...Object.entries(recordOf(matchLabels)).flatMap(([key, value]) => [
      ...problem(`${place}.matchLabels`, checkLabelKey(key)),
      ...problem(`${place}.matchLabels`, checkLabelValue(textOf(value))),
    ]),
    ...recordsOf(matchExpressions).flatMap((expression, at) =>
      problemsOfExpression(expression, `${place}.matchExpressions[${at}]`),
    ),
  ]
}

function problemsOfExpression({ key, operator, values }: Fields, place: string): HookViolation[] {
  const texts = textsOf(values)
  return [
    ...problemsOfOperator(textOf(operator), texts.length, place),
    // Kubernetes reports an empty name twice.
    ...problem(`${place}.key`, textOf(key) === '' ? 'must not be empty' : undefined),
    ...problem(`${place}.key`, checkLabelKey(textOf(key))),
    ...texts.flatMap((text, at) => problem(`${place}.values[${at}]`, checkLabelValue(text))),
  ]
}

function problemsOfOperator(operator: string, values: number, place: string): HookViolation[] {
  const field = `${place}.values`
  switch (operator) {
    case 'In':
    case 'NotIn': {
      const message = 'must be specified when `operator` is `In` or `NotIn`'
      return values > 0 ? [] : [{ field, message, reason: 'FieldValueRequired' }]
    }
    case 'Exists':
    case 'DoesNotExist': {
      const message = 'may not be specified when `operator` is `Exists` or `DoesNotExist`'
      return values === 0 ? [] : [{ field, message, reason: 'FieldValueForbidden' }]
    }
    default:
      return [{ field: `${place}.operator`, message: 'not a valid selector operator' }]
  }
}

function problem(field: string, message: string | undefined): HookViolation[] {
  return message === undefined ? [] : [{ field, message }]
}
