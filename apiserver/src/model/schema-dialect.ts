/**
 * Turns the OpenAPI 3.0 dialect that models are written in into the JSON Schema (draft 7) that ajv reads. What
 * cannot be enforced is refused rather than dropped: a constraint that silently does nothing is worse than none.
 */
import { isJsonObject, type JsonObject } from './json-value.ts'

/** A schema breaks the dialect; the message names the place in it. */
export class SchemaError extends Error {
  override readonly name = 'SchemaError'
}

/** Keywords that constrain in the same way in both dialects and hold no schemas. */
const plain = new Set([
  'enum',
  'format',
  'minLength',
  'maxLength',
  'pattern',
  'minimum',
  'maximum',
  'multipleOf',
  'minItems',
  'maxItems',
  'uniqueItems',
  'required',
  'minProperties',
  'maxProperties',
])

/** Keywords that say something to people and other tools only. */
const annotations = new Set([
  '$comment',
  'default',
  'deprecated',
  'description',
  'discriminator',
  'example',
  'examples',
  'externalDocs',
  'readOnly',
  'title',
  'writeOnly',
  'xml',
])

/** Keyword of `schema-compiler.ts` that bounds the errors of a value. Compilers without it ignore it. */
export const errorBudget = 'setpointErrorBudget'

const types = new Set(['object', 'array', 'string', 'integer', 'number', 'boolean'])

/**
 * The JSON Schema for an OpenAPI schema. `nullable` admits null beside the type, and beside an enum too, whether or
 * not null is listed there.
 * @throws SchemaError for keywords that are not in the dialect (`$ref` and `const` among them); `x-*` are ignored.
 */
export function toJsonSchema(schema: unknown, place: string): JsonObject {
  if (!isJsonObject(schema)) throw new SchemaError(`${place} must be a schema, which is an object`)
  const result: JsonObject = {}
  for (const [keyword, value] of Object.entries(schema)) {
    if (value === undefined || keyword.startsWith('x-') || annotations.has(keyword)) continue
    const at = `${place}.${keyword}`
    if (keyword === 'pattern') checkPattern(value, at)
    if (plain.has(keyword)) result[keyword] = value
    else if (keyword === 'not') result[keyword] = toJsonSchema(value, at)
    else if (keyword === 'items') result[keyword] = { [errorBudget]: true, ...toJsonSchema(value, at) }
    else if (keyword === 'additionalProperties') {
      result[keyword] =
        typeof value === 'boolean' ? value : { [errorBudget]: true, ...toJsonSchema(value, at) }
    } else if (keyword === 'allOf' || keyword === 'anyOf' || keyword === 'oneOf') {
      if (!Array.isArray(value)) throw new SchemaError(`${at} must be a list of schemas`)
      result[keyword] = value.map((branch, index) => toJsonSchema(branch, `${at}[${index}]`))
    } else if (keyword === 'properties') {
      if (!isJsonObject(value)) throw new SchemaError(`${at} must be an object of schemas`)
      result[keyword] = Object.fromEntries(
        Object.entries(value).map(([name, property]) => [name, toJsonSchema(property, `${at}.${name}`)]),
      )
    } else if (keyword === 'type') {
      if (typeof value !== 'string' || !types.has(value)) {
        throw new SchemaError(`${at} must be one of ${[...types].join(', ')}, is ${JSON.stringify(value)}`)
      }
    } else if (keyword !== 'nullable' && keyword !== 'exclusiveMinimum' && keyword !== 'exclusiveMaximum') {
      throw new SchemaError(`${at} is not a keyword of OpenAPI 3.0 schemas that this server enforces`)
    }
  }
  addTypes(result, schema)
  addBounds(result, schema, place)
  if (result.pattern !== undefined && typeof result.maxLength === 'number') {
    // Authors bound the length of what their pattern may see, but all rules are checked, not only those up to the first
    // that fails; and a pattern over megabytes can take minutes.
    result.if = { minLength: result.maxLength + 1 }
    result.else = { pattern: result.pattern }
    delete result.pattern
  }
  return result
}

/** Unicode rules where a pattern keeps to them; else, as for `[\w\-]`, the older ones that most authors know. */
export function compilePattern(pattern: string, flags = 'u'): RegExp {
  try {
    return new RegExp(pattern, flags)
  } catch {
    return new RegExp(pattern)
  }
}

function checkPattern(pattern: unknown, place: string): void {
  if (typeof pattern !== 'string') throw new SchemaError(`${place} must be a string`)
  try {
    compilePattern(pattern)
  } catch (error) {
    throw new SchemaError(
      `${place} is no regular expression: ${error instanceof Error ? error.message : error}`,
    )
  }
}

function addTypes(result: JsonObject, schema: JsonObject): void {
  const { type, nullable, enum: values } = schema
  if (type !== undefined) result.type = nullable === true ? [type, 'null'] : type
  if (nullable === true && Array.isArray(values) && !values.includes(null)) result.enum = [...values, null]
}

/** OpenAPI's exclusive bounds are booleans beside the bound, JSON Schema's are bounds themselves. */
function addBounds(result: JsonObject, schema: JsonObject, place: string): void {
  for (const [bound, exclusive] of [
    ['minimum', 'exclusiveMinimum'],
    ['maximum', 'exclusiveMaximum'],
  ] as const) {
    const value = schema[exclusive]
    if (value === undefined || value === false) continue
    if (typeof value === 'number') {
      result[exclusive] = value
      continue
    }
    if (value !== true) throw new SchemaError(`${place}.${exclusive} must be true or false`)
    if (schema[bound] === undefined) throw new SchemaError(`${place}.${exclusive} needs a ${bound} beside it`)
    result[exclusive] = schema[bound]
    delete result[bound]
  }
}
