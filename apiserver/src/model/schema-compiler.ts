import { Ajv, type FuncKeywordDefinition, type SchemaValidateFunction } from 'ajv'
import formats from 'ajv-formats'
import { isJsonObject, type JsonObject } from './json-value.ts'

/** Longest string that is looked at for a format; the patterns of some take time that grows with the square. */
const maxFormatLength = 2048

/** Formats of content rather than of a notation: any length, and checked in linear time. */
const contentFormats = new Set(['byte', 'binary', 'password'])

/** An ajv that compiles JSON Schemas of `toJsonSchema`, and reports all errors of a value rather than the first. */
export function createCompiler(): Ajv {
  const ajv = new Ajv({
    allErrors: true,
    messages: false,
    // Names such as `constructor` are ordinary fields.
    ownProperties: true,
    // Unknown formats are let through, and nothing is printed about it.
    strict: false,
    logger: false,
    code: { regExp: tolerantRegExp },
  })
  formats.default(ajv)
  for (const [name, format] of Object.entries(ajv.formats)) {
    const test = testOf(format)
    if (test === undefined || contentFormats.has(name)) continue
    ajv.addFormat(name, { type: 'string', validate: text => text.length <= maxFormatLength && test(text) })
  }
  ajv.addFormat('regex', { type: 'string', validate: isPattern })
  ajv.removeKeyword('uniqueItems')
  ajv.addKeyword(uniqueItems)
  return ajv
}

function isPattern(text: string): boolean {
  try {
    tolerantRegExp(text, 'u')
    return true
  } catch {
    return false
  }
}

/** Unicode rules where a pattern keeps to them; else, as for `[\w\-]`, the older ones that most authors know. */
const tolerantRegExp = Object.assign(
  (pattern: string, flags: string) => {
    try {
      return new RegExp(pattern, flags)
    } catch {
      return new RegExp(pattern)
    }
  },
  { code: 'new RegExp' },
)

/** The check of a format for strings; undefined for formats of numbers and those that check nothing. */
function testOf(format: Ajv['formats'][string]): ((text: string) => boolean) | undefined {
  if (format instanceof RegExp) return text => format.test(text)
  if (typeof format !== 'object' || format.async === true || format.type === 'number') return undefined
  const { validate } = format
  if (validate instanceof RegExp) return text => validate.test(text)
  return typeof validate === 'function' ? text => validate(text) : undefined
}

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
