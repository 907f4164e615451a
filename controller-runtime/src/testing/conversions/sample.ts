import { isRecord } from '../../api/is-record.ts'
import type { SampleRandom } from './random.ts'

/** Generates the values of fields by path, such as `spec.email`, where the schema does not say enough. */
export type SampleValues = Readonly<Record<string, (random: SampleRandom) => unknown>>

/** No value can be generated for a schema. The message names the field and the remedy. */
export class SampleError extends Error {
  override readonly name = 'SampleError'
}

/** Tries at a string that matches a pattern. */
const patternTries = 200

/** Additional items and keys of a generated list or map. */
const extraItems = 3

/**
 * Returns a random value that satisfies a schema. Fields with a default are always present, as they are in stored
 * objects.
 * @throws SampleError for a pattern, a format or a `not` that needs an entry in `values`
 */
export function sampleOf(schema: unknown, path: string, random: SampleRandom, values: SampleValues): unknown {
  const given = values[path]
  if (given !== undefined) return given(random)
  if (!isRecord(schema)) return {}
  const merged = withBranches(schema, random)
  if (merged.nullable === true && random.integer(0, 9) === 0) return null
  if (Array.isArray(merged.enum)) return random.pick(merged.enum)
  if (merged['x-kubernetes-int-or-string'] === true)
    return random.boolean() ? random.integer(0, 100) : random.text(1, 8)
  switch (merged.type ?? (isRecord(merged.properties) ? 'object' : undefined)) {
    case 'string':
      return stringOf(merged, path, random)
    case 'integer':
    case 'number':
      return numberOf(merged, random)
    case 'boolean':
      return random.boolean()
    case 'array':
      return arrayOf(merged, path, random, values)
    case 'object':
      return objectOf(merged, path, random, values)
    default:
      return random.pick<unknown>(['text', 7, true])
  }
}

type Fields = Record<string, unknown>

/** Merges the parts of allOf, and one branch of anyOf and oneOf, into the schema. */
function withBranches(schema: Fields, random: SampleRandom): Fields {
  const parts: Fields[] = [schema]
  if (Array.isArray(schema.allOf)) parts.push(...schema.allOf.filter(isRecord))
  for (const keyword of ['anyOf', 'oneOf']) {
    const branches = schema[keyword]
    const branch: unknown = Array.isArray(branches) && branches.length > 0 ? random.pick(branches) : undefined
    if (isRecord(branch)) parts.push(branch)
  }
  if (parts.length === 1) return schema
  const merged: Fields = Object.assign({}, ...parts)
  merged.properties = Object.assign({}, ...parts.map(part => part.properties ?? {}))
  merged.required = parts.flatMap(part => (Array.isArray(part.required) ? part.required : []))
  return merged
}

function stringOf(
  { format, pattern, minLength, maxLength }: Fields,
  path: string,
  random: SampleRandom,
): string {
  const min = typeof minLength === 'number' ? minLength : 0
  const max = typeof maxLength === 'number' ? maxLength : min + 12
  const make = typeof format === 'string' ? formats[format] : undefined
  if (typeof format === 'string' && make === undefined)
    throw new SampleError(`${path}: no value is known for the format ${format}; give one in values`)
  const matches = typeof pattern === 'string' ? new RegExp(pattern, 'u') : undefined
  for (let tried = 0; tried < patternTries; tried++) {
    const text = make?.(random) ?? random.text(min, max)
    if (matches === undefined || matches.test(text)) return text
  }
  throw new SampleError(`${path}: no generated text matches the pattern ${pattern}; give one in values`)
}

const formats: Readonly<Record<string, (random: SampleRandom) => string>> = {
  'date-time': random => new Date(random.integer(0, 4_000_000_000) * 1000).toISOString(),
  date: random => new Date(random.integer(0, 40_000) * 86_400_000).toISOString().slice(0, 10),
  uuid: random => `00000000-0000-4000-8000-${String(random.integer(0, 999_999)).padStart(12, '0')}`,
  email: random => `user${random.integer(0, 999)}@example.com`,
  uri: random => `https://example.com/${random.integer(0, 999)}`,
  hostname: random => `host-${random.integer(0, 999)}.example.com`,
  ipv4: random => `192.0.2.${random.integer(0, 255)}`,
  ipv6: random => `2001:db8::${random.integer(1, 9)}`,
  byte: random => Buffer.from(random.text(0, 8)).toString('base64'),
  duration: random => `${random.integer(0, 999)}s`,
}

function numberOf(schema: Fields, random: SampleRandom): number {
  const { type, minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf } = schema
  const step = typeof multipleOf === 'number' ? multipleOf : type === 'integer' ? 1 : 0.5
  const low = typeof minimum === 'number' ? Math.ceil(minimum / step) : undefined
  const high = typeof maximum === 'number' ? Math.floor(maximum / step) : undefined
  const from = (low ?? (high ?? 1000) - 1000) + (exclusiveMinimum === true ? 1 : 0)
  const to = (high ?? from + 1000) - (exclusiveMaximum === true ? 1 : 0)
  return random.integer(from, Math.max(from, to)) * step
}

function arrayOf(schema: Fields, path: string, random: SampleRandom, values: SampleValues): unknown[] {
  const min = typeof schema.minItems === 'number' ? schema.minItems : 0
  const max = typeof schema.maxItems === 'number' ? schema.maxItems : min + extraItems
  const items: unknown[] = []
  const count = random.integer(min, Math.min(max, min + extraItems))
  const seen = new Set<string>()
  for (let tried = 0; items.length < count && tried < patternTries; tried++) {
    const item = sampleOf(schema.items, `${path}[]`, random, values)
    const text = JSON.stringify(item)
    if (schema.uniqueItems === true && seen.has(text)) continue
    seen.add(text)
    items.push(item)
  }
  return items
}

function objectOf(schema: Fields, path: string, random: SampleRandom, values: SampleValues): Fields {
  const { properties, required, additionalProperties } = schema
  const needed = new Set<unknown>(Array.isArray(required) ? required : [])
  const object: Fields = {}
  for (const [name, property] of Object.entries(isRecord(properties) ? properties : {})) {
    const hasDefault = isRecord(property) && property.default !== undefined
    if (needed.has(name) || hasDefault || random.boolean())
      object[name] = sampleOf(property, `${path}.${name}`, random, values)
  }
  if (isRecord(additionalProperties)) {
    for (let count = random.integer(0, extraItems); count > 0; count--)
      object[`key-${count}`] = sampleOf(additionalProperties, `${path}[*]`, random, values)
  }
  return object
}
