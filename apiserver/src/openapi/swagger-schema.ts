import { isRecord } from '@setpoint/controller-runtime/api'
import type { JsonObject } from '../model/index.ts'

/** The keywords of OpenAPI 3.0 that mean the same in Swagger 2.0, besides extensions and those that hold schemas. */
const kept: ReadonlySet<string> = new Set([
  'title',
  'description',
  'default',
  'example',
  'externalDocs',
  'readOnly',
  'type',
  'format',
  'enum',
  'pattern',
  'minLength',
  'maxLength',
  'minimum',
  'exclusiveMinimum',
  'maximum',
  'exclusiveMaximum',
  'multipleOf',
  'minItems',
  'maxItems',
  'uniqueItems',
  'minProperties',
  'maxProperties',
])

/**
 * Returns the Swagger 2.0 schema for a schema of OpenAPI 3.0. It accepts more than the original, never less.
 *
 * As kube-apiserver does it for custom kinds (`ToStructuralOpenAPIV2` of apiextensions-apiserver): without allOf,
 * anyOf, oneOf and not, and without the types that kubectl would take for more than they say. kubectl reads no kind at
 * all if it cannot read one of the schemas.
 */
export function toSwaggerSchema(schema: unknown): JsonObject {
  if (!isRecord(schema)) return {}
  const { description } = schema
  const ref = referenceOf(schema)
  // Kubernetes describes references, although Swagger ignores what is beside one.
  if (ref !== undefined) return { ...(description !== undefined && { description }), $ref: swaggerRef(ref) }
  const result: JsonObject = Object.fromEntries(
    Object.entries(schema).filter(
      ([keyword, value]) => value !== undefined && (kept.has(keyword) || keyword.startsWith('x-')),
    ),
  )
  const { additionalProperties } = schema
  if (additionalProperties !== undefined) {
    result.additionalProperties =
      typeof additionalProperties === 'boolean' ? additionalProperties : toSwaggerSchema(additionalProperties)
  }
  const required = requiredOf(schema)
  if (required.length > 0) result.required = required
  const isNullable = schema.nullable === true
  const isOpen = schema['x-kubernetes-preserve-unknown-fields'] === true
  // kubectl takes the fields for all that there are, and null for a wrong type.
  if (isNullable || (isOpen && schema.type === 'object')) delete result.type
  if (isNullable || isOpen) return withoutOpenArray(result)
  if (isRecord(schema.properties)) result.properties = mapValues(schema.properties, toSwaggerSchema)
  if (schema.items !== undefined) result.items = toSwaggerSchema(schema.items)
  return withoutOpenArray(result)
}

/** kubectl cannot read an array without a schema of its items. */
function withoutOpenArray(result: JsonObject): JsonObject {
  if (result.type === 'array' && result.items === undefined) delete result.type
  return result
}

/** A field that can be null counts as absent then. */
function requiredOf({ required, properties }: JsonObject): unknown[] {
  if (!Array.isArray(required)) return []
  if (!isRecord(properties)) return required
  return required.filter(name => {
    const property = Object.hasOwn(properties, name) ? properties[name] : undefined
    return !(isRecord(property) && property.nullable === true)
  })
}

/** Returns the target of a reference. One with a description is in an `allOf` of its own. */
function referenceOf({ $ref, allOf }: JsonObject): string | undefined {
  if (typeof $ref === 'string') return $ref
  const [only, ...others] = Array.isArray(allOf) ? allOf : []
  return others.length === 0 && isRecord(only) && typeof only.$ref === 'string' ? only.$ref : undefined
}

/** Returns where Swagger 2.0 has a component. */
export function swaggerRef(ref: string): string {
  return ref.replace('#/components/schemas/', '#/definitions/').replace('#/components/', '#/')
}

export function mapValues(object: JsonObject, convert: (value: unknown, key: string) => unknown): JsonObject {
  return Object.fromEntries(Object.entries(object).map(([key, value]) => [key, convert(value, key)]))
}
