import { type HookViolation, isRecord } from '@setpoint/controller-runtime/api'
import { type BareObject, deepEqual, formatPath } from '../../model/index.ts'
import { type Fields, recordOf } from '../fields.ts'

/** What `ConfigMap` and `Secret` have in common. */

const dataLimits = Object.freeze({
  /** Bytes of all values of an object, as in Kubernetes. */
  bytes: 1024 * 1024,
  /** Characters of a key. */
  key: 253,
})

const keyCharacters = /^[-._a-zA-Z0-9]+$/

/** Returns the violations of the keys in a map. */
export function problemsOfKeys(object: Fields, field: string): HookViolation[] {
  return Object.keys(recordOf(object[field])).flatMap(key => {
    const message = problemOfKey(key)
    return message === undefined ? [] : [{ field: formatPath([field, key]), message }]
  })
}

function problemOfKey(key: string): string | undefined {
  if (key.length > dataLimits.key) return `must be at most ${dataLimits.key} characters, is ${key.length}`
  if (!keyCharacters.test(key)) return "a key must consist of letters, digits, '-', '_' or '.'"
  if (key === '.') return "must not be '.'"
  return key.startsWith('..') ? "must not start with '..'" : undefined
}

/** Returns a violation if the values are too large together. `bytesOf` returns the bytes of one value. */
export function problemsOfSize(
  maps: readonly { readonly map: unknown; readonly bytesOf: (value: unknown) => number }[],
): HookViolation[] {
  let bytes = 0
  for (const { map, bytesOf } of maps)
    for (const value of Object.values(recordOf(map))) bytes += bytesOf(value)
  if (bytes <= dataLimits.bytes) return []
  const message = `must be at most ${dataLimits.bytes} bytes in all, is ${bytes}`
  return [{ field: 'data', message, reason: 'FieldValueTooLong' }]
}

/** Returns the violations of an object whose stored state is immutable. */
export function problemsOfImmutable(
  object: Fields,
  previous: Fields | undefined,
  fields: readonly string[],
): HookViolation[] {
  if (previous?.immutable !== true) return []
  return ['immutable', ...fields]
    .filter(field => !deepEqual(contentOf(object[field]), contentOf(previous[field])))
    .map(field => ({
      field,
      reason: 'FieldValueForbidden',
      message: 'field is immutable when `immutable` is set',
    }))
}

/**
 * Removes line breaks from the base64 in a map, as Kubernetes does. Leaves what is not a map of texts to the schema.
 */
export function joinBase64(object: BareObject, field: 'data' | 'binaryData'): void {
  const map = object[field]
  if (!isRecord(map)) return
  const join = (value: unknown) => (typeof value === 'string' ? value.replaceAll(/[\r\n]/g, '') : value)
  object[field] = Object.fromEntries(Object.entries(map).map(([key, value]) => [key, join(value)]))
}

/** An empty map is the same as none. */
function contentOf(value: unknown): unknown {
  return isRecord(value) && Object.keys(value).length === 0 ? undefined : value
}

export function bytesOfText(value: unknown): number {
  return typeof value === 'string' ? Buffer.byteLength(value) : 0
}

export function bytesOfBase64(value: unknown): number {
  return typeof value === 'string' ? Buffer.byteLength(value, 'base64') : 0
}

/** Returns the number of entries in a map. */
export function countOf(map: unknown): number {
  return Object.keys(recordOf(map)).length
}
