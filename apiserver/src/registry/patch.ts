import { isRecord } from '@setpoint/controller-runtime/api'
/** Applies and creates merge patches (RFC 7386). JSON patches are in `json-patch.ts`. */
import { deepEqual, type JsonObject, setOwn } from '../model/index.ts'
import { applyJsonPatch } from './json-patch.ts'
import { badRequest } from './refusals.ts'
import { applyStrategicMerge, type MergeType } from './strategic-merge/index.ts'

export { applyJsonPatch, jsonPatchDefaults } from './json-patch.ts'

/** A patch of an existing object. */
export type Patch =
  | { readonly type: 'json'; readonly document: unknown }
  | { readonly type: 'merge'; readonly document: unknown }
  | { readonly type: 'strategic'; readonly document: unknown; readonly mergeType: MergeType }

export type PatchType = Patch['type']

/** Returns the patched object. Changes neither argument. @throws ApiError 400, 413, 422 */
export function applyPatch(target: unknown, patch: Patch): unknown {
  if (patch.type === 'json') return applyJsonPatch(target, patch.document)
  if (patch.type === 'merge') {
    if (!isRecord(patch.document)) throw badRequest('a merge patch must be an object')
    return applyMergePatch(target, patch.document)
  }
  return applyStrategicMerge(target, patch.document, patch.mergeType)
}

/**
 * Applies an RFC 7386 merge patch. Changes neither argument. The result shares parts with them. Both must be decoded
 * JSON values, since the decoder bounds their nesting.
 */
export function applyMergePatch(target: unknown, patch: unknown): unknown {
  if (!isRecord(patch)) return patch
  const result: JsonObject = {}
  if (isRecord(target)) {
    for (const key in target) {
      const value = target[key]
      if (!Object.hasOwn(patch, key)) setOwn(result, key, value)
      else if (patch[key] !== null) setOwn(result, key, applyMergePatch(value, patch[key]))
    }
  }
  for (const key in patch) {
    const value = patch[key]
    if (value !== null && !Object.hasOwn(result, key)) setOwn(result, key, applyMergePatch(undefined, value))
  }
  return result
}

/** Returns true if a patch sets or removes this field of the metadata. */
export function changesMetadata({ type, document }: Patch, field: string): boolean {
  if (type !== 'json')
    return isRecord(document) && isRecord(document.metadata) && Object.hasOwn(document.metadata, field)
  const paths = ['', '/metadata', `/metadata/${field}`]
  return (
    Array.isArray(document) &&
    document.some(
      operation => isRecord(operation) && operation.op !== 'test' && paths.includes(String(operation.path)),
    )
  )
}

/**
 * Returns the smallest RFC 7386 merge patch that turns `from` into `to`, or undefined if they are equal. Lists are
 * replaced whole. The patch shares parts with `to`.
 *
 * Caveat: a merge patch cannot set a field to null. A field that becomes null in `to` is absent from the result.
 */
export function createMergePatch(from: unknown, to: unknown): unknown | undefined {
  if (deepEqual(from, to)) return undefined
  if (!isRecord(from) || !isRecord(to)) return to
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

/** An undefined property counts as absent, as in JSON. */
function has(object: JsonObject, key: string): boolean {
  return Object.hasOwn(object, key) && object[key] !== undefined
}
