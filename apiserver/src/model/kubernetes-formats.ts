import { isIP } from 'node:net'
import { isRecord } from '@setpoint/controller-runtime/api'
import { Duration } from './cel/time.ts'
import type { JsonObject } from './json-value.ts'

/** Precedes the names of formats that Kubernetes checks differently than models of plugins do, or that those do not know. */
const prefix = 'kubernetes:'

const isIsbn = (text: string): boolean => isIsbn10(text) || isIsbn13(text)

/** The formats of Kubernetes (`kube-openapi/pkg/validation/strfmt`) that `ajv-formats` does not have in the same way. */
const formats: Readonly<Record<string, (text: string) => boolean>> = {
  bsonobjectid: text => /^[0-9a-f]{24}$/i.test(text),
  cidr: isCidr,
  creditcard: isCreditCard,
  datetime: text => !Number.isNaN(Date.parse(text)) && /^\d{4}-\d{2}-\d{2}T/.test(text),
  duration: isDuration,
  hexcolor: text => /^#?([0-9a-f]{3}|[0-9a-f]{6})$/i.test(text),
  isbn: isIsbn,
  isbn10: isIsbn10,
  isbn13: isIsbn13,
  mac: text =>
    /^([0-9a-f]{2})([:-])[0-9a-f]{2}(\2[0-9a-f]{2}){4}$/i.test(text) ||
    /^([0-9a-f]{2})([:-])[0-9a-f]{2}(\2[0-9a-f]{2}){6}$/i.test(text) ||
    /^[0-9a-f]{4}(\.[0-9a-f]{4}){2,3}$/i.test(text),
  rgbcolor: text => /^rgb\((\s*(\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5])\s*(,|(?=\)))){3}\)$/.test(text),
  ssn: text => /^\d{3}[- ]?\d{2}[- ]?\d{4}$/.test(text),
}

/** The checks by the names that `withKubernetesFormats` gives them. */
export const kubernetesFormats: readonly (readonly [name: string, (text: string) => boolean])[] =
  Object.entries(formats).map(([name, check]) => [prefix + name, check])

/** Formats of numbers, which Kubernetes does not check. */
const unchecked: ReadonlySet<unknown> = new Set(['int32', 'int64', 'float', 'double'])

/** Returns a schema whose formats are checked as Kubernetes checks them. */
export function withKubernetesFormats(schema: JsonObject): JsonObject {
  const result: JsonObject = {}
  for (const [keyword, value] of Object.entries(schema)) {
    if (keyword === 'format') {
      if (unchecked.has(value)) continue
      result.format = typeof value === 'string' && Object.hasOwn(formats, value) ? prefix + value : value
    } else if (keyword === 'properties') {
      const properties = isRecord(value) ? Object.entries(value) : []
      result.properties = Object.fromEntries(properties.map(([name, part]) => [name, converted(part)]))
    } else if (keyword === 'items' || keyword === 'additionalProperties' || keyword === 'not')
      result[keyword] = converted(value)
    else if (keyword === 'allOf' || keyword === 'anyOf' || keyword === 'oneOf')
      result[keyword] = Array.isArray(value) ? value.map(converted) : value
    else result[keyword] = value
  }
  return result
}

/** Returns the name of a format as schemas have it. */
export function formatName(name: unknown): string {
  const text = String(name)
  return text.startsWith(prefix) ? text.slice(prefix.length) : text
}

function converted(part: unknown): unknown {
  return isRecord(part) ? withKubernetesFormats(part) : part
}

function isCidr(text: string): boolean {
  const [address = '', length = '', ...more] = text.split('/')
  const version = isIP(address)
  if (version === 0 || more.length > 0 || !/^(0|[1-9]\d{0,2})$/.test(length)) return false
  return Number(length) <= (version === 4 ? 32 : 128)
}

/** A duration of Go, or a number with a unit in words. */
function isDuration(text: string): boolean {
  if (/^\s*\d+\s*(ns|nano|us|µs|micro|ms|milli|s|sec|m|min|h|hr|hour|d|day|w|week|wk)s?\s*$/i.test(text))
    return true
  try {
    Duration.parse(text)
    return true
  } catch {
    return false
  }
}

function isCreditCard(text: string): boolean {
  const digits = text.replace(/[ -]/g, '')
  if (!/^\d{13,19}$/.test(digits)) return false
  let sum = 0
  for (const [at, digit] of [...digits].reverse().entries()) {
    const value = Number(digit) * (at % 2 === 0 ? 1 : 2)
    sum += value > 9 ? value - 9 : value
  }
  return sum % 10 === 0
}

function isIsbn10(text: string): boolean {
  const digits = text.replace(/[ -]/g, '')
  if (!/^\d{9}[\dX]$/.test(digits)) return false
  const sum = [...digits].reduce(
    (total, digit, at) => total + (10 - at) * (digit === 'X' ? 10 : Number(digit)),
    0,
  )
  return sum % 11 === 0
}

function isIsbn13(text: string): boolean {
  const digits = text.replace(/[ -]/g, '')
  if (!/^\d{13}$/.test(digits)) return false
  return (
    [...digits].reduce((total, digit, at) => total + Number(digit) * (at % 2 === 0 ? 1 : 3), 0) % 10 === 0
  )
}
