import { isRecord } from '@setpoint/controller-runtime/api'
import { deepEqual } from './deep-equal.ts'
import type { JsonObject } from './json-value.ts'
import { keysOf } from './schema-extensions.ts'
import type { Violation } from './violation.ts'

/**
 * Returns the violations of values that have changed, as Kubernetes' ratcheting does: a value that stays as it is is
 * not checked again. An item of a list has an old value only if the list is a map, by its keys.
 * @param schema of the whole objects
 */
export function changedViolations(
  schema: JsonObject,
  violations: readonly Violation[],
  next: unknown,
  previous: unknown,
): Violation[] {
  return violations.filter(({ path, reason }) => {
    // A field that is missing was not checked again only if its object stays as it is.
    const place = reason === 'FieldValueRequired' ? path.slice(0, -1) : path
    return !isUnchangedAt(schema, place, next, previous)
  })
}

/** Returns true if the value at a path, or one around it, is the same in both objects. */
function isUnchangedAt(
  root: JsonObject,
  path: readonly (string | number)[],
  next: unknown,
  previous: unknown,
): boolean {
  let schema: unknown = root
  let value = next
  let before = previous
  for (const step of path) {
    if (before === undefined) return false
    if (deepEqual(value, before)) return true
    const { properties, additionalProperties, items } = isRecord(schema) ? schema : {}
    if (typeof step === 'number') {
      if (!Array.isArray(value) || !Array.isArray(before)) return false
      const item: unknown = value[step]
      before = itemLike(item, before, isRecord(schema) ? keysOf(schema) : [])
      value = item
      schema = items
    } else {
      if (!isRecord(value) || !isRecord(before)) return false
      const isDeclared = isRecord(properties) && Object.hasOwn(properties, step)
      schema = isDeclared ? properties[step] : additionalProperties
      value = Object.hasOwn(value, step) ? value[step] : undefined
      before = Object.hasOwn(before, step) ? before[step] : undefined
    }
  }
  return before !== undefined && deepEqual(value, before)
}

/** Returns the item of an old list with the same keys. */
function itemLike(item: unknown, before: readonly unknown[], keys: readonly string[]): unknown {
  if (keys.length === 0 || !isRecord(item)) return undefined
  return before.find(old => isRecord(old) && keys.every(key => deepEqual(old[key], item[key])))
}
