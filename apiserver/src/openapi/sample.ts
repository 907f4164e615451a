import { isRecord } from '@setpoint/controller-runtime/api'
import { type JsonObject, setOwn } from '../model/index.ts'

/**
 * Returns a value that an OpenAPI schema accepts, for an example: the declared example or default, else the simplest
 * value that follows from the schema. Returns undefined if that cannot be told, as for a pattern or a rule: no example
 * is better than a wrong one.
 */
export function sampleOf(schema: unknown): unknown {
  if (!isRecord(schema)) return undefined
  const { example, default: preset, enum: values } = schema
  if (example !== undefined) return example
  if (preset !== undefined) return preset
  if (Array.isArray(values)) return values.find(value => value !== null)
  if (schema['x-kubernetes-int-or-string'] === true) return 1
  if (unforeseeable.some(keyword => schema[keyword] !== undefined)) return undefined
  switch (schema.type) {
    case 'string':
      return sampleText(schema)
    case 'integer':
    case 'number':
      return sampleNumber(schema)
    case 'boolean':
      return true
    case 'array':
      return sampleList(schema)
    case 'object':
      return sampleObject(schema)
    default:
      return schema.properties === undefined ? 'example' : sampleObject(schema)
  }
}

/** Keywords that a value can be checked against, but not made from. */
const unforeseeable = [
  'pattern',
  'not',
  'allOf',
  'anyOf',
  'oneOf',
  'x-kubernetes-validations',
  'x-kubernetes-embedded-resource',
]

const formats: Readonly<Record<string, string>> = {
  'date-time': '2026-01-31T10:00:00.000Z',
  'iso-date-time': '2026-01-31T10:00:00.000Z',
  date: '2026-01-31',
  time: '10:00:00Z',
  'iso-time': '10:00:00Z',
  duration: 'PT1H',
  email: 'ann@example.com',
  hostname: 'www.example.com',
  ipv4: '192.0.2.1',
  ipv6: '2001:db8::1',
  uri: 'https://example.com/',
  'uri-reference': 'https://example.com/',
  'uri-template': 'https://example.com/{id}',
  url: 'https://example.com/',
  uuid: '0b5a4c1e-7a0b-4c0e-9d2f-3f6c1a2b4d5e',
  'json-pointer': '/spec',
  'json-pointer-uri-fragment': '#/spec',
  'relative-json-pointer': '0/spec',
  regex: '^[a-z]+$',
  byte: 'ZXhhbXBsZQ==',
}

function sampleText({ format, minLength, maxLength }: JsonObject): string | undefined {
  const min = numberOf(minLength) ?? 0
  const max = numberOf(maxLength) ?? Infinity
  const known = typeof format === 'string' && Object.hasOwn(formats, format) ? formats[format] : undefined
  if (known !== undefined) return known.length >= min && known.length <= max ? known : undefined
  // A long example would only be noise.
  if (min > 64 || min > max) return undefined
  return 'example'.padEnd(min, 'x').slice(0, max)
}

function sampleNumber(schema: JsonObject): number | undefined {
  const min = numberOf(schema.minimum) ?? -Infinity
  const max = numberOf(schema.maximum) ?? Infinity
  const step = numberOf(schema.multipleOf) ?? 1
  if (!Number.isInteger(step)) return undefined
  const above = (value: number) => (schema.exclusiveMinimum === true ? value > min : value >= min)
  const below = (value: number) => (schema.exclusiveMaximum === true ? value < max : value <= max)
  const at = (value: number) => Math.ceil(value / step) * step
  const candidates = [at(1), at(min), at(min) + step, at(max), at(max) - step]
  return candidates.find(value => Number.isSafeInteger(value) && above(value) && below(value))
}

function sampleList(schema: JsonObject): unknown[] | undefined {
  const min = numberOf(schema.minItems) ?? 0
  const max = numberOf(schema.maxItems) ?? Infinity
  const item = sampleOf(schema.items)
  const items = item === undefined || max === 0 ? [] : [item]
  return items.length >= min ? items : undefined
}

function sampleObject(schema: JsonObject): JsonObject | undefined {
  const properties = isRecord(schema.properties) ? schema.properties : {}
  const required = new Set(Array.isArray(schema.required) ? schema.required.map(String) : [])
  const result: JsonObject = {}
  const others = isRecord(schema.additionalProperties) ? schema.additionalProperties : {}
  for (const name of required) {
    const value = sampleOf(Object.hasOwn(properties, name) ? properties[name] : others)
    if (value === undefined) return undefined
    setOwn(result, name, value)
  }
  const max = numberOf(schema.maxProperties) ?? Infinity
  let count = required.size
  for (const [name, property] of Object.entries(properties)) {
    if (count >= max) break
    if (required.has(name) || !isRecord(property)) continue
    const value = sampleOf(property)
    // An empty list or object says nothing.
    if (value === undefined || isEmpty(value)) continue
    setOwn(result, name, value)
    count++
  }
  return count >= (numberOf(schema.minProperties) ?? 0) && count <= max ? result : undefined
}

function isEmpty(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0
}

function numberOf(value: unknown): number | undefined {
  return typeof value === 'number' ? value : undefined
}
