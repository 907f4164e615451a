import { isRecord } from '@setpoint/controller-runtime/api'
import { itemsOf, propertyOf, type SchemaProps, valuesOf } from './schema-props.ts'

const metadataFields: ReadonlySet<string> = new Set(['apiVersion', 'kind', 'metadata'])
const preserve = 'x-kubernetes-preserve-unknown-fields'
const embedded = 'x-kubernetes-embedded-resource'

/**
 * Returns true if pruning, as it is done to stored objects, takes fields away from a value.
 * @param isRoot true if the value is a whole object
 */
export function hasUnknownFields(schema: SchemaProps | undefined, value: unknown, isRoot = false): boolean {
  if (schema?.[preserve]) return hasUnknownInside(schema, value, isRoot)
  if (Array.isArray(value)) return value.some(item => hasUnknownFields(schema && itemsOf(schema), item))
  if (!isRecord(value)) return false
  const isResource = isRoot || schema?.[embedded] === true
  return Object.entries(value).some(([name, item]) => {
    if (schema === undefined) return true
    if (isResource && metadataFields.has(name)) return false
    const property = propertyOf(schema, name)
    if (property !== undefined) return hasUnknownFields(property, item)
    return schema.additionalProperties === undefined || hasUnknownFields(valuesOf(schema), item)
  })
}

/** Within what preserves unknown fields, the declared ones are pruned. */
function hasUnknownInside(schema: SchemaProps | undefined, value: unknown, isRoot: boolean): boolean {
  if (schema === undefined) return false
  if (Array.isArray(value)) return value.some(item => hasUnknownInside(itemsOf(schema), item, false))
  if (!isRecord(value)) return false
  const isResource = isRoot || schema[embedded] === true
  return Object.entries(value).some(([name, item]) => {
    if (isResource && metadataFields.has(name)) return false
    const property = propertyOf(schema, name)
    if (property !== undefined) return hasUnknownFields(property, item)
    return schema.additionalProperties !== undefined && hasUnknownFields(valuesOf(schema), item)
  })
}
