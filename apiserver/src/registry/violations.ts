import type { StatusCause, ViolationReason } from '@setpoint/controller-runtime/api'
import { type BareObject, remainingViolations, type SchemaValidator, type Violation } from '../model/index.ts'

/** Returns the violations of the schema and its rules, without those that the stored object has in the same place. */
export function violationsLeft(
  schemas: SchemaValidator,
  object: BareObject,
  stored: BareObject | undefined,
): StatusCause[] {
  return findViolations(schemas, object, stored).map(({ field, reason, message }) => ({
    field,
    reason,
    message,
  }))
}

function findViolations(
  schemas: SchemaValidator,
  object: BareObject,
  stored: BareObject | undefined,
): Violation[] {
  let violations = schemas.validate(object)
  if (violations.length === 0 && schemas.rules === undefined) return violations
  // A newer default must not make an unchanged field look changed.
  const before = stored && schemas.withDefaults(stored)
  if (violations.length > 0 && before !== undefined)
    violations = remainingOf(schemas, violations, object, before)
  if (schemas.rules === undefined) return violations
  if (violations.some(({ reason }) => blocksRules.has(reason))) return [...violations, rulesNotChecked]
  const { state, transitions } = schemas.rules.validate(object, before)
  if (state.length === 0 || before === undefined) return [...violations, ...state, ...transitions]
  const left =
    schemas.remaining?.(state, object, before) ??
    remainingViolations(state, schemas.rules.validate(before, before).state, object, before)
  return [...violations, ...left, ...transitions]
}

/** Returns the violations of the schema that the stored object does not excuse. */
function remainingOf(
  schemas: SchemaValidator,
  violations: Violation[],
  object: BareObject,
  before: BareObject,
): Violation[] {
  if (schemas.remaining === undefined)
    return remainingViolations(violations, schemas.validate(before), object, before)
  const left = schemas.remaining(violations, object, before)
  // In Kubernetes, one duplicate in the stored lists excuses all.
  const isDuplicate = ({ reason }: Violation) => reason === 'FieldValueDuplicate'
  if (!left.some(isDuplicate) || !schemas.validate(before).some(isDuplicate)) return left
  return left.filter(violation => !isDuplicate(violation))
}

/** Violations that keep rules from being evaluated, as in Kubernetes: values of wrong types, and values too large. */
const blocksRules: ReadonlySet<ViolationReason> = new Set([
  'FieldValueRequired',
  'FieldValueTypeInvalid',
  'FieldValueTooLong',
  'FieldValueTooMany',
])

const rulesNotChecked: Violation = Object.freeze({
  field: '',
  path: [],
  reason: 'FieldValueInvalid',
  message:
    'some validation rules were not checked because the object was invalid; correct the existing errors to complete validation',
})
