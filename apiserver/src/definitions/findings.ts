import type { HookViolation, ViolationReason } from '@setpoint/controller-runtime/api'
import { shorten } from '../model/index.ts'

export const findingsDefaults = Object.freeze({
  /** Violations kept of one object. A response has fewer. */
  maxViolations: 1000,
})

/** Collects violations. Places are texts such as `spec.versions[0].name`, as in Kubernetes' causes. */
export class Findings {
  readonly violations: HookViolation[] = []
  /** How many were found, with those past the bound. */
  total = 0

  invalid(field: string, message: string): void {
    this.add('FieldValueInvalid', field, message)
  }

  mistyped(field: string, message: string): void {
    this.add('FieldValueTypeInvalid', field, message)
  }

  required(field: string, message = 'is required'): void {
    this.add('FieldValueRequired', field, message)
  }

  forbidden(field: string, message: string): void {
    this.add('FieldValueForbidden', field, message)
  }

  unsupported(field: string, given: string, supported: readonly string[]): void {
    const message = `must be one of ${supported.join(', ')}, is ${JSON.stringify(given)}`
    this.add('FieldValueNotSupported', field, message)
  }

  duplicate(field: string, message: string): void {
    this.add('FieldValueDuplicate', field, message)
  }

  tooLong(field: string, message: string): void {
    this.add('FieldValueTooLong', field, message)
  }

  tooMany(field: string, message: string): void {
    this.add('FieldValueTooMany', field, message)
  }

  /** Adds the violations of a part. */
  addAll(violations: readonly HookViolation[]): void {
    for (const { reason = 'FieldValueInvalid', field = '', message } of violations)
      this.add(reason, field, message)
  }

  /** Adds a clause about a field, unless it is undefined. */
  addClause(field: string, clause: string | undefined): void {
    if (clause !== undefined) this.invalid(field, clause)
  }

  get isEmpty(): boolean {
    return this.violations.length === 0
  }

  add(reason: ViolationReason, field: string, message: string): void {
    this.total++
    if (this.violations.length >= findingsDefaults.maxViolations) return
    this.violations.push({ reason, field: shorten(field, 1000), message: shorten(message, 1000) })
  }
}
