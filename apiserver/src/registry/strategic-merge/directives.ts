import { ApiError, isRecord } from '@setpoint/controller-runtime/api'
import { type JsonObject, setOwn } from '../../model/index.ts'
import { badRequest } from '../refusals.ts'

/** The directives of strategic merge patches: fields of a patch that are commands. */

/** In an object: `delete` or `replace` it. In an item of a merged list: delete the item, or replace the list. */
export const patchDirective = '$patch'
/** The fields that the object keeps. */
export const retainKeys = '$retainKeys'
/** Followed by the name of a list: its items to delete. */
export const deleteItems = '$deleteFromPrimitiveList/'
/** Followed by the name of a list: the order of its items. */
export const elementOrder = '$setElementOrder/'

function isDirective(key: string): boolean {
  return (
    key === patchDirective ||
    key === retainKeys ||
    key.startsWith(deleteItems) ||
    key.startsWith(elementOrder)
  )
}

/**
 * Returns a copy of a part of a patch, as a value to store: without nulls, directives, and the objects that have a
 * `$patch` directive themselves. Kubernetes drops the same when it decodes the object.
 */
export function plainValue(patch: unknown): unknown {
  if (Array.isArray(patch)) return patch.filter(item => !hasPatchDirective(item)).map(plainValue)
  if (!isRecord(patch)) return patch
  const value: JsonObject = {}
  for (const [key, item] of Object.entries(patch)) {
    if (item !== null && !isDirective(key) && !hasPatchDirective(item)) setOwn(value, key, plainValue(item))
  }
  return value
}

export function hasPatchDirective(value: unknown): value is JsonObject {
  return isRecord(value) && Object.hasOwn(value, patchDirective)
}

/** Returns the list of a directive. @throws ApiError 400 for another value */
export function listOf(value: unknown, directive: string): readonly unknown[] {
  if (Array.isArray(value)) return value
  throw badRequest(`${directive} must be a list`)
}

export type Scalar = string | number | boolean

/** @throws ApiError 400 for null, an object or a list; 422 for a list of lists, as in Kubernetes */
export function scalarOf(value: unknown, what: string): Scalar {
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') return value
  if (Array.isArray(value)) throw new ApiError('Invalid', 'lists of lists are not supported')
  throw badRequest(`${what} must be a string, a number or a boolean`)
}
