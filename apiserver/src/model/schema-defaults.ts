import { isRecord } from '@setpoint/controller-runtime/api'
import { cloneJson, type JsonObject, setOwn } from './json-value.ts'

/**
 * Fills in the defaults of absent fields, and then the defaults inside them. Changes `value` in place. As in
 * Kubernetes, null counts as absent if the field is not nullable, and an absent object without a default of its own
 * stays absent. Applies defaults in properties, items, additionalProperties and allOf, but not in anyOf and oneOf.
 * @returns true if a field was filled in
 */
export function fillDefaults(schema: unknown, value: unknown): boolean {
  if (!isRecord(schema)) return false
  const { properties, items, additionalProperties, allOf } = schema
  let isChanged = false
  if (Array.isArray(value)) {
    if (items !== undefined) for (const item of value) isChanged = fillDefaults(items, item) || isChanged
  } else if (isRecord(value)) {
    const declared = isRecord(properties) ? properties : {}
    for (const [name, property] of Object.entries(declared)) {
      if (isRecord(property) && property.default !== undefined && isAbsent(value, name, property)) {
        setOwn(value, name, cloneJson(property.default))
        isChanged = true
      }
      if (Object.hasOwn(value, name)) isChanged = fillDefaults(property, value[name]) || isChanged
    }
    if (isRecord(additionalProperties)) {
      for (const [name, item] of Object.entries(value)) {
        if (!Object.hasOwn(declared, name)) isChanged = fillDefaults(additionalProperties, item) || isChanged
      }
    }
  }
  if (Array.isArray(allOf)) for (const part of allOf) isChanged = fillDefaults(part, value) || isChanged
  return isChanged
}

function isAbsent(object: Record<string, unknown>, name: string, schema: Record<string, unknown>): boolean {
  if (!Object.hasOwn(object, name) || object[name] === undefined) return true
  return object[name] === null && schema.nullable !== true
}

/**
 * Returns a value without the fields that are null but not nullable, as in Kubernetes. Go clients send null for nil
 * slices and maps. Nulls in lists stay, and so do those of fields whose schema has no type.
 */
export function withoutNulls(schema: unknown, value: unknown): unknown {
  if (!isRecord(schema)) return value
  const { properties, items, additionalProperties } = schema
  if (Array.isArray(value)) return items === undefined ? value : value.map(item => withoutNulls(items, item))
  if (!isRecord(value)) return value
  const result: JsonObject = {}
  for (const [name, item] of Object.entries(value)) {
    const field =
      isRecord(properties) && Object.hasOwn(properties, name) ? properties[name] : additionalProperties
    if (item !== null || !rejectsNull(field)) setOwn(result, name, withoutNulls(field, item))
  }
  return result
}

function rejectsNull(schema: unknown): boolean {
  if (!isRecord(schema) || schema.nullable === true) return false
  return schema.type !== undefined || schema['x-kubernetes-int-or-string'] === true
}

/**
 * Returns content of a built-in kind without nulls, as Go decodes it into the type that the schema describes. A field
 * that is null is absent. A null in a list or map leaves the new element at the zero value of its type, such as an
 * empty text: "the JSON null value has no effect" (encoding/json, `Unmarshal`). One that the schema does not describe
 * stays in a list, and so do all nulls of content that the schema leaves to the kind
 * (`x-kubernetes-preserve-unknown-fields`).
 */
export function withoutNullsAsInGo(schema: unknown, value: unknown): unknown {
  const {
    properties,
    items,
    additionalProperties,
    [preserveKeyword]: isPreserved,
  } = isRecord(schema) ? schema : {}
  if (isPreserved === true) return value
  if (Array.isArray(value))
    return value.map(item => (item === null ? zeroOf(items) : withoutNullsAsInGo(items, item)))
  if (!isRecord(value)) return value
  const result: JsonObject = {}
  for (const [name, item] of Object.entries(value)) {
    const isField = isRecord(properties) && Object.hasOwn(properties, name)
    const field = isField ? properties[name] : additionalProperties
    if (item !== null) setOwn(result, name, withoutNullsAsInGo(field, item))
    else if (!isField && isRecord(additionalProperties)) setOwn(result, name, zeroOf(additionalProperties))
  }
  return result
}

const preserveKeyword = 'x-kubernetes-preserve-unknown-fields'

/** Returns the zero value of the Go type that a schema describes, or null for one without a type. */
function zeroOf(schema: unknown): unknown {
  const { type, default: given } = isRecord(schema) ? schema : {}
  if (given !== undefined) return cloneJson(given)
  switch (type) {
    case 'string':
      return ''
    case 'object':
      return {}
    case 'array':
      return []
    default:
      return null
  }
}

/** Yields every schema inside `schema` that has a default, with its place. */
export function* schemasWithDefault(
  schema: unknown,
  place: string,
): Generator<[place: string, schema: Record<string, unknown>]> {
  if (!isRecord(schema)) return
  if (schema.default !== undefined) yield [place, schema]
  const { properties, items, additionalProperties, allOf } = schema
  if (isRecord(properties)) {
    for (const [name, property] of Object.entries(properties))
      yield* schemasWithDefault(property, `${place}.${name}`)
  }
  yield* schemasWithDefault(items, `${place}[]`)
  yield* schemasWithDefault(additionalProperties, `${place}[*]`)
  if (Array.isArray(allOf)) for (const part of allOf) yield* schemasWithDefault(part, place)
}
