import { followPath } from '../../../model/index.ts'
import type { Findings } from '../../findings.ts'
import type { SchemaFacts } from './schema-facts.ts'
import type { RuleProps, SchemaProps } from './schema-props.ts'

const reasons = ['FieldValueDuplicate', 'FieldValueForbidden', 'FieldValueInvalid', 'FieldValueRequired']

/** Checks the fields of the rules of one schema, but for the expressions. */
export function checkRuleFields(
  schema: SchemaProps,
  place: string,
  facts: SchemaFacts,
  found: Findings,
): void {
  const { 'x-kubernetes-validations': rules = [] } = schema
  for (const [at, rule] of rules.entries())
    checkFields(rule, schema, `${place}.x-kubernetes-validations[${at}]`, facts, found)
}

function checkFields(
  { rule, message = '', messageExpression = '', reason, fieldPath = '' }: RuleProps,
  schema: SchemaProps,
  place: string,
  facts: SchemaFacts,
  found: Findings,
): void {
  if (rule.trim() === '') found.required(`${place}.rule`)
  else if (message !== '' && message.trim() === '') found.invalid(`${place}.message`, 'must not be blank')
  else if (hasLines(message.trim())) found.invalid(`${place}.message`, 'must not have line breaks')
  else if (hasLines(rule.trim()) && message.trim() === '')
    found.required(`${place}.message`, 'is required if the rule has line breaks')
  if (messageExpression !== '' && messageExpression.trim() === '')
    found.required(`${place}.messageExpression`, 'must not be blank')
  if (reason !== undefined && !reasons.includes(reason)) found.unsupported(`${place}.reason`, reason, reasons)
  if (fieldPath === '') return
  if (fieldPath.trim() === '') found.invalid(`${place}.fieldPath`, 'must not be blank')
  if (hasLines(fieldPath)) found.invalid(`${place}.fieldPath`, 'must not have line breaks')
  if (facts.of(schema).unreadable !== undefined) return
  const field = followPath(fieldPath, schema)
  if (typeof field === 'string') found.invalid(`${place}.fieldPath`, field)
}

function hasLines(text: string): boolean {
  return /[\n\r]/.test(text)
}
