import { isRecord, type ValidationRule } from '@setpoint/controller-runtime/api'
import type { FieldPath } from './field-path.ts'
import type { JsonObject } from './json-value.ts'
import { SchemaError } from './schema-error.ts'
import { followPath } from './schema-path.ts'

/** One rule of `x-kubernetes-validations`, read and checked. */
export interface RuleSpec {
  readonly rule: string
  readonly text: string | undefined
  readonly messageExpression: string | undefined
  readonly reason: NonNullable<ValidationRule['reason']>
  readonly fieldPath: FieldPath
  readonly optionalOldSelf: boolean
}

const reasons = [
  'FieldValueInvalid',
  'FieldValueForbidden',
  'FieldValueRequired',
  'FieldValueDuplicate',
] as const

const keys = ['rule', 'message', 'messageExpression', 'reason', 'fieldPath', 'optionalOldSelf']

/** Reads the rules of one schema. @throws SchemaError that names the wrong key */
export function readRules(schema: JsonObject, place: string): RuleSpec[] {
  const rules = schema['x-kubernetes-validations']
  if (rules === undefined) return []
  const at = `${place}.x-kubernetes-validations`
  if (!Array.isArray(rules)) throw new SchemaError(`${at} must be a list of rules`)
  return rules.map((rule: unknown, index) => readRule(rule, schema, `${at}[${index}]`))
}

function readRule(given: unknown, schema: JsonObject, place: string): RuleSpec {
  const fail = (key: string, why: string): never => {
    throw new SchemaError(`${place}.${key} ${why}`)
  }
  if (!isRecord(given)) throw new SchemaError(`${place} must be an object with a rule`)
  for (const key of Object.keys(given))
    if (!keys.includes(key)) fail(key, `is not a key of a rule, which has ${keys.join(', ')}`)
  const text = (key: string): string | undefined => {
    const value = given[key]
    if (value === undefined || (typeof value === 'string' && value.trim() !== '')) return value
    return fail(key, 'must be a string that is not empty')
  }
  const { optionalOldSelf = false, reason = 'FieldValueInvalid' } = given
  const rule = text('rule') ?? fail('rule', 'is missing')
  const message = text('message')
  if (message !== undefined && /[\r\n]/.test(message)) fail('message', 'must be one line')
  if (message === undefined && /[\r\n]/.test(rule.trim()))
    fail('message', 'is required, since the rule has several lines')
  if (typeof optionalOldSelf !== 'boolean') fail('optionalOldSelf', 'must be true or false')
  return {
    rule: rule.trim(),
    text: message?.trim(),
    messageExpression: text('messageExpression'),
    reason: reasons.find(known => known === reason) ?? fail('reason', `must be one of ${reasons.join(', ')}`),
    fieldPath: readFieldPath(text('fieldPath') ?? '', schema, why => fail('fieldPath', why)),
    optionalOldSelf: optionalOldSelf === true,
  }
}

function readFieldPath(text: string, schema: JsonObject, fail: (why: string) => never): FieldPath {
  const field = followPath(text, schema)
  return typeof field === 'string' ? fail(field) : field.steps
}
