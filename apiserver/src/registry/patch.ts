/** Merge patches (RFC 7386): applying one, and making the smallest one. JSON patches are in `json-patch.ts`. */
import { deepEqual } from '../model/deep-equal.ts'
import { cloneJson, isJsonObject, type JsonObject, setOwn } from '../model/json-value.ts'

export { applyJsonPatch, jsonPatchDefaults } from './json-patch.ts'

/**
 * The target with an RFC 7386 merge patch applied. Neither argument is changed, and the result shares nothing with
 * them. Both must be decoded JSON values: the nesting is bounded there.
 */
export function applyMergePatch(target: unknown, patch: unknown): unknown {
  if (!isJsonObject(patch)) return cloneJson(patch)
  const result: JsonObject = {}
  if (isJsonObject(target)) {
    for (const [key, value] of Object.entries(target)) {
      if (!Object.hasOwn(patch, key)) setOwn(result, key, cloneJson(value))
      else if (patch[key] !== null) setOwn(result, key, applyMergePatch(value, patch[key]))
    }
  }
  for (const [key, value] of Object.entries(patch)) {
    if (value !== null && !Object.hasOwn(result, key)) setOwn(result, key, applyMergePatch(undefined, value))
  }
  return result
}

/**
 * The smallest RFC 7386 merge patch that turns `from` into `to`, or undefined where they are equal. Lists are
 * replaced whole. The patch shares parts with `to`.
 *
 * Caveat: a merge patch cannot set a field to null. A null field of an object in `to` that `from` does not have just
 * so is absent after the patch has been applied.
 */
export function createMergePatch(from: unknown, to: unknown): unknown | undefined {
  if (deepEqual(from, to)) return undefined
  if (!isJsonObject(from) || !isJsonObject(to)) return to
  const patch: JsonObject = {}
  for (const [key, value] of Object.entries(from)) {
    if (value !== undefined && !has(to, key)) setOwn(patch, key, null)
  }
  for (const [key, value] of Object.entries(to)) {
    if (value === undefined) continue
    const change = has(from, key) ? createMergePatch(from[key], value) : value
    if (change !== undefined) setOwn(patch, key, change)
  }
  return patch
}

/** A property that is undefined counts as absent, as it does when the value is written. */
function has(object: JsonObject, key: string): boolean {
  return Object.hasOwn(object, key) && object[key] !== undefined
}
