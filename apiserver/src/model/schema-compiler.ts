import {
  Ajv,
  type ErrorObject,
  type FuncKeywordDefinition,
  type SchemaValidateFunction,
  type ValidateFunction,
} from 'ajv'
import formats from 'ajv-formats'
import { isJsonObject, type JsonObject } from './json-value.ts'
import { compilePattern } from './schema-dialect.ts'

/** Longest string that is looked at for a format; the patterns of some take time that grows with the square. */
const maxFormatLength = 2048

/** The formats of strings, but those of content rather than of a notation: these are as long as they are. */
const boundedFormats = [
  'date',
  'date-time',
  'duration',
  'email',
  'hostname',
  'ipv4',
  'ipv6',
  'iso-date-time',
  'iso-time',
  'json-pointer',
  'json-pointer-uri-fragment',
  'relative-json-pointer',
  'time',
  'uri',
  'uri-reference',
  'uri-template',
  'url',
  'uuid',
]

/**
 * An ajv that compiles JSON Schemas of `toJsonSchema`. Its checks stop at the first error, or collect them: then run
 * them by `collectErrors`, which knows of the bound.
 */
export function createCompiler(options: { collect: boolean }): Ajv {
  const ajv = new Ajv({
    allErrors: options.collect,
    messages: false,
    // Names such as `constructor` are ordinary fields.
    ownProperties: true,
    // Unknown formats are let through, and nothing is printed about it.
    strict: false,
    logger: false,
    code: {
      regExp: Object.assign(compilePattern, { code: 'new RegExp' }),
      process: options.collect ? stopAtBound : undefined,
    },
  })
  formats.default(ajv)
  for (const name of boundedFormats) {
    // ajv's types leave open what a format is made of; a schema of nothing but the format calls it all the same.
    const check = formatChecker.compile({ format: name })
    ajv.addFormat(name, { type: 'string', validate: text => text.length <= maxFormatLength && check(text) })
  }
  ajv.removeKeyword('uniqueItems')
  ajv.addKeyword(uniqueItems)
  return ajv
}

/** Errors that are collected of one value. A list of a million wrong items would else take a gigabyte to refuse. */
const maxErrors = 1000

/** ajv has no such bound; its generated code adds each error in this one way. */
function stopAtBound(code: string): string {
  return code.replaceAll('vErrors.push(', `if(vErrors.length>=${maxErrors})throw vErrors;vErrors.push(`)
}

/** Errors of one value, in ajv's order. */
export interface CollectedErrors {
  readonly errors: readonly ErrorObject[]
  /** False where there were too many. Errors may then be of branches of a union that another branch would satisfy. */
  readonly complete: boolean
}

export function collectErrors(check: ValidateFunction, value: unknown): CollectedErrors {
  try {
    return { errors: check(value) ? [] : (check.errors ?? []), complete: true }
  } catch (thrown) {
    if (Array.isArray(thrown)) return { errors: thrown, complete: false }
    throw thrown
  }
}

const formatChecker = new Ajv({ logger: false })
formats.default(formatChecker)

const validateUniqueItems: SchemaValidateFunction = (wanted: unknown, items: unknown[]) => {
  if (wanted !== true) return true
  const seen = new Map<string, number>()
  for (const [second, item] of items.entries()) {
    const text = canonical(item)
    const first = seen.get(text)
    if (first !== undefined) {
      validateUniqueItems.errors = [{ keyword: 'uniqueItems', params: { first, second } }]
      return false
    }
    seen.set(text, second)
  }
  return true
}

/** ajv's own compares each item of other types than scalars with every other: minutes for one large body. */
const uniqueItems: FuncKeywordDefinition = {
  keyword: 'uniqueItems',
  type: 'array',
  schemaType: 'boolean',
  validate: validateUniqueItems,
}

/** A text that two JSON values share exactly when they are equal. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, part: unknown) => (isJsonObject(part) ? sorted(part) : part))
}

function sorted(object: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(object).sort(([a], [b]) => (a < b ? -1 : 1)))
}
