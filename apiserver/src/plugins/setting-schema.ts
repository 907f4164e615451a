import type { SettingSchema } from '@setpoint/controller-runtime'
import type { Schema } from '@setpoint/controller-runtime/api'
import { isRecord } from '@setpoint/controller-runtime/api'

/**
 * Returns the value of a setting that was written as text: in an environment variable, a file, or YAML whose scalars
 * are texts. Text that does not fit stays text, and the schema refuses it.
 *
 *     string            the text
 *     integer, number   a decimal number
 *     boolean           true or false
 *     array             JSON, or elements separated by commas
 *     object            JSON
 */
export function parseSetting(value: unknown, schema: Schema): unknown {
  if (Array.isArray(value)) return value.map(item => parseSetting(item, schema.items ?? {}))
  if (isRecord(value)) {
    const { properties = {}, additionalProperties } = schema
    const rest = isRecord(additionalProperties) ? additionalProperties : {}
    return Object.fromEntries(
      Object.entries(value).map(([name, part]) => {
        const known = Object.hasOwn(properties, name) ? properties[name] : undefined
        return [name, parseSetting(part, known ?? rest)]
      }),
    )
  }
  if (typeof value !== 'string') return value
  if (schema.nullable === true && schema.type !== 'string' && value === 'null') return null
  if (schema.type === 'boolean') return value === 'true' ? true : value === 'false' ? false : value
  if (schema.type === 'integer' || schema.type === 'number') return parseNumber(value)
  if (schema.type === 'object') return parseJson(value)
  if (schema.type === 'array') {
    if (value.trim().startsWith('[')) return parseJson(value)
    const items = value.trim() === '' ? [] : value.split(',')
    return items.map(item => parseSetting(item.trim(), schema.items ?? {}))
  }
  return value
}

/** A whole number that would be rounded stays text. */
function parseNumber(text: string): number | string {
  if (!/^\s*[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?\s*$/i.test(text)) return text
  const value = Number(text)
  return Number.isInteger(value) && !Number.isSafeInteger(value) ? text : value
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** Returns the schema without `secret`, as the models' schemas are. */
export function withoutSecrets(schema: SettingSchema): Schema {
  const { secret: _, properties, items, additionalProperties, ...rest } = schema
  return {
    ...rest,
    ...(properties && {
      properties: Object.fromEntries(
        Object.entries(properties).map(([name, property]) => [name, withoutSecrets(property)]),
      ),
    }),
    ...(items && { items: withoutSecrets(items) }),
    ...(additionalProperties !== undefined && {
      additionalProperties:
        typeof additionalProperties === 'boolean'
          ? additionalProperties
          : withoutSecrets(additionalProperties),
    }),
  }
}

/** Returns true if a setting or a part of it is secret. */
export function hasSecret({ secret, properties = {}, items, additionalProperties }: SettingSchema): boolean {
  if (secret === true) return true
  const parts = [...Object.values(properties), items, additionalProperties]
  return parts.some(part => typeof part === 'object' && hasSecret(part))
}

/** Yields the texts of the secret parts of a value. */
export function* secretTexts(value: unknown, schema: SettingSchema, isSecret = false): Generator<string> {
  const secret = isSecret || schema.secret === true
  if (Array.isArray(value)) {
    for (const item of value) yield* secretTexts(item, schema.items ?? {}, secret)
  } else if (isRecord(value)) {
    const { properties = {}, additionalProperties } = schema
    const rest = typeof additionalProperties === 'object' ? additionalProperties : {}
    for (const [name, part] of Object.entries(value)) {
      const known = Object.hasOwn(properties, name) ? properties[name] : undefined
      yield* secretTexts(part, known ?? rest, secret)
    }
  } else if (secret && (typeof value === 'string' || typeof value === 'number')) yield String(value)
}
