import { isRecord } from '@setpoint/controller-runtime/api'
import { type JsonObject, setOwn } from '../model/index.ts'

/**
 * Returns the OpenAPI 3.0 schema for a schema of a model. Both are nearly the same: models may use a few keywords and
 * values that OpenAPI 3.0 does not have, and the server implies what some keywords of Kubernetes mean.
 *
 * The model's schema is known to be valid (`toJsonSchema`), except for the annotations.
 */
export function toOpenApiSchema(schema: unknown): JsonObject {
  const result: JsonObject = {}
  if (!isRecord(schema)) return result
  for (const [keyword, value] of Object.entries(schema)) {
    if (value === undefined || !isAllowed(keyword, value)) continue
    if (keyword === 'properties' && isRecord(value)) {
      const properties: JsonObject = {}
      for (const [name, property] of Object.entries(value))
        setOwn(properties, name, toOpenApiSchema(property))
      // Says nothing, and Kubernetes' types for Go lose it.
      if (Object.keys(properties).length > 0) result.properties = properties
    } else if (keyword === 'items' || keyword === 'not') result[keyword] = toOpenApiSchema(value)
    // kubectl 1.27 and 1.28 cannot explain true.
    else if (keyword === 'additionalProperties')
      result[keyword] = value === false ? value : toOpenApiSchema(value)
    else if (keyword === 'allOf' || keyword === 'anyOf' || keyword === 'oneOf')
      result[keyword] = Array.isArray(value) ? value.map(toOpenApiSchema) : value
    else result[keyword] = value
  }
  translateBound(result, 'minimum', 'exclusiveMinimum', Math.max)
  translateBound(result, 'maximum', 'exclusiveMaximum', Math.min)
  addNull(result)
  if (result.type === 'array') result.items ??= {}
  if (result.example === undefined && Array.isArray(schema.examples)) {
    const [example] = schema.examples
    if (example !== undefined) result.example = example
  }
  if (
    result['x-kubernetes-int-or-string'] === true &&
    result.anyOf === undefined &&
    result.oneOf === undefined
  )
    result.anyOf = [{ type: 'integer' }, { type: 'string' }]
  if (result['x-kubernetes-embedded-resource'] === true) addEmbeddedFields(result)
  // Says what is true anyway. Without it, code generators make types that allow no field.
  if (result.type === 'object' && result.properties === undefined) result.additionalProperties ??= {}
  return result
}

/** Keywords that models may use and OpenAPI 3.0 does not have, or that make no sense without named schemas. */
const dropped: ReadonlySet<string> = new Set(['$comment', 'examples', 'discriminator', 'xml'])

/** The server does not check annotations, but a document with an annotation of the wrong type is invalid. */
const annotationTypes: ReadonlyMap<string, string> = new Map([
  ['title', 'string'],
  ['description', 'string'],
  ['deprecated', 'boolean'],
  ['readOnly', 'boolean'],
  ['writeOnly', 'boolean'],
])

function isAllowed(keyword: string, value: unknown): boolean {
  if (dropped.has(keyword)) return false
  const type = annotationTypes.get(keyword)
  if (type !== undefined) return typeof value === type
  if (keyword === 'externalDocs')
    return isRecord(value) && typeof value.url === 'string' && URL.canParse(value.url)
  // OpenAPI 3.0 does not allow an empty list.
  if (keyword === 'required') return Array.isArray(value) && value.length > 0
  return true
}

/** Models may give an exclusive bound as a number. OpenAPI 3.0 has a boolean next to the bound. */
function translateBound(
  result: JsonObject,
  bound: 'minimum' | 'maximum',
  exclusive: 'exclusiveMinimum' | 'exclusiveMaximum',
  stricter: (a: number, b: number) => number,
): void {
  const limit = result[exclusive]
  if (typeof limit !== 'number') return
  const inclusive = typeof result[bound] === 'number' ? result[bound] : limit
  result[bound] = stricter(limit, inclusive)
  result[exclusive] = result[bound] === limit
}

/** The server admits null to a nullable enum that does not list it. */
function addNull(result: JsonObject): void {
  const { enum: values } = result
  if (result.nullable === true && Array.isArray(values) && !values.includes(null))
    result.enum = [...values, null]
}

/** The server requires these fields of every embedded resource. */
function addEmbeddedFields(result: JsonObject): void {
  const { properties, required } = result
  result.properties = {
    apiVersion: { type: 'string' },
    kind: { type: 'string' },
    metadata: { type: 'object', additionalProperties: {} },
    ...(isRecord(properties) ? properties : {}),
  }
  result.required = [...new Set(['apiVersion', 'kind', ...(Array.isArray(required) ? required : [])])]
}
