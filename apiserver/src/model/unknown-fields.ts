import { isRecord } from '@setpoint/controller-runtime/api'
import { type FieldPath, formatPath } from './field-path.ts'
import type { JsonObject } from './json-value.ts'

/**
 * Paths of the fields in `value` that its schema says nothing about, at most `limit`. Only objects whose schema
 * declares `properties` are looked at; there a field is known if any of the schemas that apply (branches of allOf,
 * anyOf and oneOf count, whichever holds) declares it, or takes additional properties. Where additional properties
 * are forbidden the field is a violation, not merely unknown, and is left out here.
 */
export function findUnknownFields(schema: unknown, value: unknown, path: FieldPath, limit: number): string[] {
  const found: string[] = []
  visit(withBranches([schema]), value, path, field => {
    if (found.length < limit) found.push(formatPath(field))
  })
  return found
}

function visit(
  schemas: readonly JsonObject[],
  value: unknown,
  path: FieldPath,
  report: (field: FieldPath) => void,
): void {
  if (schemas.length === 0) return
  if (Array.isArray(value)) {
    const items = withBranches(schemas.map(schema => schema.items))
    if (items.length > 0)
      for (const [index, item] of value.entries())
        if (isNested(item)) visit(items, item, [...path, index], report)
    return
  }
  if (!isRecord(value)) return
  const closed = schemas.some(schema => isRecord(schema.properties)) && !schemas.some(takesAnything)
  for (const [name, item] of Object.entries(value)) {
    const applying: unknown[] = []
    for (const { properties, additionalProperties } of schemas) {
      if (isRecord(properties) && Object.hasOwn(properties, name)) applying.push(properties[name])
      else if (isRecord(additionalProperties)) applying.push(additionalProperties)
    }
    if (applying.length > 0) {
      if (isNested(item)) visit(withBranches(applying), item, [...path, name], report)
    } else if (closed) report([...path, name])
  }
}

/** Whether there can be fields in it. */
function isNested(value: unknown): boolean {
  return typeof value === 'object' && value !== null
}

function takesAnything(schema: JsonObject): boolean {
  return schema.additionalProperties !== undefined || schema['x-kubernetes-preserve-unknown-fields'] === true
}

/** The schemas themselves and all branches that apply to the same value. */
function withBranches(schemas: readonly unknown[]): JsonObject[] {
  const all: JsonObject[] = []
  for (const schema of schemas) {
    if (!isRecord(schema)) continue
    all.push(schema)
    for (const keyword of ['allOf', 'anyOf', 'oneOf']) {
      const branches = schema[keyword]
      if (Array.isArray(branches)) all.push(...withBranches(branches))
    }
  }
  return all
}
