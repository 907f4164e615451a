import { isRecord } from '@setpoint/controller-runtime/api'
import { type FieldPath, formatPath } from './field-path.ts'
import type { JsonObject } from './json-value.ts'

/**
 * Returns the paths of unknown fields in `value`, at most `limit`. Only an object whose schema has `properties` can have
 * unknown fields. A field is known if the schema, or any branch of its allOf, anyOf and oneOf, declares it or allows
 * additional properties. If they are forbidden, the field is a violation and is left out here.
 */
export function findUnknownFields(schema: unknown, value: unknown, path: FieldPath, limit: number): string[] {
  const found: string[] = []
  if (limit > 0) visit(withBranches([schema]), value, path, field => found.push(formatPath(field)) < limit)
  return found
}

/** Reports unknown fields until `report` returns false. Returns false then, too. */
function visit(
  schemas: readonly JsonObject[],
  value: unknown,
  path: FieldPath,
  report: (field: FieldPath) => boolean,
): boolean {
  if (schemas.length === 0) return true
  if (Array.isArray(value)) {
    const items = withBranches(schemas.map(schema => schema.items))
    if (items.length > 0)
      for (const [index, item] of value.entries())
        if (isNested(item) && !visit(items, item, [...path, index], report)) return false
    return true
  }
  if (!isRecord(value)) return true
  const isResource = schemas.some(schema => schema['x-kubernetes-embedded-resource'] === true)
  const closed = schemas.some(schema => isRecord(schema.properties)) && !schemas.some(allowsAnything)
  for (const name of Object.keys(value)) {
    const item = value[name]
    const applying: unknown[] = []
    for (const { properties, additionalProperties } of schemas) {
      if (isRecord(properties) && Object.hasOwn(properties, name)) applying.push(properties[name])
      else if (isRecord(additionalProperties)) applying.push(additionalProperties)
    }
    if (applying.length > 0) {
      if (isNested(item) && !visit(withBranches(applying), item, [...path, name], report)) return false
    } else if (isResource && resourceFields.has(name)) continue
    else if (closed && !report([...path, name])) return false
  }
  return true
}

/** The fields of every embedded resource, declared or not. */
const resourceFields = new Set(['apiVersion', 'kind', 'metadata'])

/** Returns true if the value can contain fields. */
function isNested(value: unknown): boolean {
  return typeof value === 'object' && value !== null
}

function allowsAnything(schema: JsonObject): boolean {
  return schema.additionalProperties !== undefined || schema['x-kubernetes-preserve-unknown-fields'] === true
}

/** Returns the schemas and all their branches. */
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
