/**
 * Translates a model's OpenAPI 3.0 schemas to JSON Schema draft 7 for ajv. Rejects keywords that cannot be enforced,
 * since a constraint without effect is misleading.
 */

import { isRecord, nearestName } from '@setpoint/controller-runtime/api'
import { echo } from '@setpoint/controller-runtime/internal'
import type { JsonObject } from './json-value.ts'
import { Pattern, PatternError } from './pattern.ts'
import { SchemaError } from './schema-error.ts'
import { addExtensions, isExtension, refuseExtensions } from './schema-extensions.ts'
import { errorBudget, patternKeyword } from './schema-keywords.ts'

interface ValueRule {
  readonly holds: (value: unknown) => boolean
  /** Follows the place of the keyword. */
  readonly rule: string
}

const count: ValueRule = {
  holds: value => Number.isSafeInteger(value) && Number(value) >= 0,
  rule: 'must be an integer of at least 0',
}
const number: ValueRule = { holds: Number.isFinite, rule: 'must be a number' }

/**
 * Keywords that constrain in the same way in both dialects and hold no schemas, with the values that ajv can compile.
 */
const plain: ReadonlyMap<string, ValueRule> = new Map([
  [
    'enum',
    {
      holds: value => Array.isArray(value) && value.length > 0,
      rule: 'must be an array of at least one value',
    },
  ],
  ['format', { holds: value => typeof value === 'string', rule: 'must be a string' }],
  ['minLength', count],
  ['maxLength', count],
  ['pattern', { holds: value => typeof value === 'string', rule: 'must be a string' }],
  ['minimum', number],
  ['maximum', number],
  [
    'multipleOf',
    { holds: value => Number.isFinite(value) && Number(value) > 0, rule: 'must be a number above 0' },
  ],
  ['minItems', count],
  ['maxItems', count],
  ['uniqueItems', { holds: value => typeof value === 'boolean', rule: 'must be true or false' }],
  [
    'required',
    {
      holds: value =>
        Array.isArray(value) &&
        value.every(name => typeof name === 'string') &&
        new Set(value).size === value.length,
      rule: 'must be an array of distinct strings',
    },
  ],
  ['minProperties', count],
  ['maxProperties', count],
])

/** Keywords that hold schemas, or mean something else in JSON Schema. */
const translated = [
  'type',
  'nullable',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'items',
  'properties',
  'additionalProperties',
  'allOf',
  'anyOf',
  'oneOf',
  'not',
]

/**
 * The keywords that constrain values; docs/reference/schemas.md describes each. Those of Kubernetes are
 * `kubernetesKeywords`.
 */
export const enforcedKeywords: ReadonlySet<string> = new Set([...plain.keys(), ...translated])

/** Keywords for people and other tools, without constraints. */
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

const types = new Set(['object', 'array', 'string', 'integer', 'number', 'boolean'])

/**
 * Returns the JSON Schema for an OpenAPI schema. `nullable` admits null in addition to the type, and to an enum even if
 * that does not list it. The `x-kubernetes-*` keywords are those of `schema-extensions.ts`; other `x-*` keywords are
 * ignored. ajv compiles every schema that this function returns.
 * @param isBranch true inside allOf, anyOf, oneOf and not
 * @throws SchemaError for keywords outside the dialect, such as `$ref` and `const`, and for invalid values
 */
export function toJsonSchema(schema: unknown, place: string, isBranch = false): JsonObject {
  if (!isRecord(schema)) throw new SchemaError(`${place} must be a schema, which is an object`)
  if (isBranch) refuseExtensions(schema, place)
  const result: JsonObject = {}
  for (const [keyword, value] of Object.entries(schema)) {
    if (value === undefined || annotations.has(keyword)) continue
    if (keyword.startsWith('x-')) {
      isExtension(keyword, place)
      continue
    }
    const at = `${place}.${keyword}`
    const rule = plain.get(keyword)
    if (rule !== undefined) {
      if (!rule.holds(value)) throw new SchemaError(`${at} ${rule.rule}, is ${show(value)}`)
      if (keyword === 'pattern') result[patternKeyword] = patternOf(String(value), at)
      else result[keyword] = value
    } else if (keyword === 'not') result[keyword] = toJsonSchema(value, at, true)
    else if (keyword === 'items')
      result[keyword] = { [errorBudget]: true, ...toJsonSchema(value, at, isBranch) }
    else if (keyword === 'additionalProperties') {
      result[keyword] =
        typeof value === 'boolean' ? value : { [errorBudget]: true, ...toJsonSchema(value, at, isBranch) }
    } else if (keyword === 'allOf' || keyword === 'anyOf' || keyword === 'oneOf') {
      if (!Array.isArray(value) || value.length === 0)
        throw new SchemaError(`${at} must be a list of schemas, at least one`)
      result[keyword] = value.map((branch, index) => toJsonSchema(branch, `${at}[${index}]`, true))
    } else if (keyword === 'properties') {
      if (!isRecord(value)) throw new SchemaError(`${at} must be an object of schemas`)
      result[keyword] = Object.fromEntries(
        Object.entries(value).map(([name, property]) => [
          name,
          toJsonSchema(property, `${at}.${name}`, isBranch),
        ]),
      )
    } else if (keyword === 'type') {
      if (typeof value !== 'string' || !types.has(value)) {
        throw new SchemaError(`${at} must be one of ${[...types].join(', ')}, is ${show(value)}`)
      }
    } else if (!enforcedKeywords.has(keyword)) {
      const nearest = nearestName(keyword, [...enforcedKeywords, ...annotations])
      throw new SchemaError(
        `${at} is not a keyword of OpenAPI 3.0 schemas that this server enforces${nearest === undefined ? '' : `, did you mean ${nearest}?`}`,
      )
    }
  }
  addTypes(result, schema)
  addBounds(result, schema, place)
  if (result[patternKeyword] !== undefined && typeof result.maxLength === 'number') {
    // ajv checks all rules. A string past maxLength is not worth the steps of a match.
    result.if = { minLength: result.maxLength + 1 }
    result.else = { [patternKeyword]: result[patternKeyword] }
    delete result[patternKeyword]
  }
  addExtensions(result, schema, place)
  return result
}

function patternOf(source: string, place: string): Pattern {
  try {
    return new Pattern(source)
  } catch (error) {
    if (!(error instanceof PatternError)) throw error
    throw new SchemaError(`${place} is not a regular expression of RE2: ${error.message}`)
  }
}

function show(value: unknown): string {
  return echo(JSON.stringify(value) ?? String(value))
}

function addTypes(result: JsonObject, schema: JsonObject): void {
  const { type, nullable, enum: values } = schema
  if (type !== undefined) result.type = nullable === true ? [type, 'null'] : type
  if (nullable === true && Array.isArray(values) && !values.includes(null)) result.enum = [...values, null]
}

/** Translates exclusive bounds: OpenAPI has a boolean next to the bound, JSON Schema has a second bound. */
function addBounds(result: JsonObject, schema: JsonObject, place: string): void {
  for (const [bound, exclusive] of [
    ['minimum', 'exclusiveMinimum'],
    ['maximum', 'exclusiveMaximum'],
  ] as const) {
    const value = schema[exclusive]
    if (value === undefined || value === false) continue
    if (typeof value === 'number') {
      if (!number.holds(value))
        throw new SchemaError(`${place}.${exclusive} ${number.rule}, is ${show(value)}`)
      result[exclusive] = value
      continue
    }
    if (value !== true) throw new SchemaError(`${place}.${exclusive} must be true or false`)
    if (schema[bound] === undefined) throw new SchemaError(`${place}.${exclusive} needs a ${bound}`)
    result[exclusive] = schema[bound]
    delete result[bound]
  }
}
