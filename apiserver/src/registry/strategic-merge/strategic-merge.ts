import { ApiError, isRecord } from '@setpoint/controller-runtime/api'
import { cloneJson, echo, type JsonObject, quote, setOwn } from '../../model/index.ts'
import { badRequest } from '../refusals.ts'
import {
  deleteItems,
  elementOrder,
  hasPatchDirective,
  listOf,
  patchDirective,
  plainValue,
  retainKeys,
} from './directives.ts'
import { checkItems, checkOrder, deleteFromList, type ItemKind, inOrder, mergeList } from './merge-list.ts'
import type { MergeField, MergeType } from './merge-type.ts'

export const strategicMergeDefaults = Object.freeze({
  /**
   * Items and fields that the merges of one patch walk over. A patch that names an item several times merges its lists
   * each time, so without a bound the work could grow with the square of the request. Each takes up to 1.5 µs.
   */
  work: 30_000,
})

/**
 * Applies a strategic merge patch of Kubernetes. Changes neither argument, and the result shares nothing with them.
 * Both must be decoded JSON values, since the decoder bounds their nesting.
 *
 * Objects are merged as in a JSON merge patch. A list is replaced, unless its type says that it is merged: scalars as a
 * set, objects by their merge key. Fields that the type does not have are merged as objects and replaced as lists.
 * @throws ApiError 400 for a malformed directive; 422 for lists of lists; 413 if the patch takes too much work
 */
export function applyStrategicMerge(target: unknown, patch: unknown, type: MergeType): unknown {
  if (!isRecord(patch)) throw badRequest('a strategic merge patch must be an object')
  const object = cloneJson(target)
  return new StrategicMerge().object(isRecord(object) ? object : {}, patch, type)
}

const noFields: MergeType = () => undefined

/** One application of a patch. Changes the objects that it merges into, never the patch. */
class StrategicMerge {
  #work = 0

  object(into: JsonObject, patch: JsonObject, type: MergeType): JsonObject {
    if (hasPatchDirective(patch)) {
      const directive = patch[patchDirective]
      if (directive === 'delete') return {}
      if (directive === 'replace') return replacement(patch)
      throw badRequest(`$patch must be delete or replace in an object, is ${quote(directive)}`)
    }
    const keys = Object.keys(patch)
    this.#spend(keys.length)
    this.#retain(into, patch)
    // Directives come first. Kubernetes reads the fields in any order.
    for (const key of keys) {
      if (key.startsWith(deleteItems)) this.#deleteItems(into, key, patch[key], type)
    }
    for (const key of keys) {
      if (key.startsWith(elementOrder)) this.#orderedList(into, key, patch, type)
    }
    for (const key of keys) {
      if (key === retainKeys || key.startsWith(deleteItems) || key.startsWith(elementOrder)) continue
      if (!Object.hasOwn(patch, elementOrder + key)) this.#field(into, key, patch[key], type(key))
    }
    return into
  }

  #field(into: JsonObject, key: string, patch: unknown, field: MergeField = {}): void {
    const current = Object.hasOwn(into, key) ? into[key] : undefined
    if (patch === null) delete into[key]
    else if (isRecord(current) && isRecord(patch)) {
      const merged =
        field.strategy === 'replace'
          ? replacement(patch)
          : this.object(current, patch, field.type ?? noFields)
      setOwn(into, key, merged)
    } else if (Array.isArray(current) && Array.isArray(patch))
      setOwn(into, key, this.#list(current, patch, field))
    else if (hasPatchDirective(patch)) delete into[key]
    else setOwn(into, key, plainValue(patch))
  }

  #list(list: unknown[], patch: readonly unknown[], field: MergeField): unknown[] {
    if (field.strategy !== 'merge') return patch.map(plainValue)
    this.#spend(list.length + patch.length)
    return mergeList(list, patch, this.#itemsOf(field, list, patch))
  }

  #itemsOf({ mergeKey, type = noFields }: MergeField, ...lists: (readonly unknown[])[]): ItemKind {
    if (mergeKey === undefined && lists.flat().some(isRecord))
      throw badRequest('a list of objects without a merge key cannot be merged')
    return { mergeKey, merge: (into, patch) => this.object(into, patch, type) }
  }

  /** Removes the fields that the patch does not retain. @throws ApiError 400 if it sets one of them */
  #retain(into: JsonObject, patch: JsonObject): void {
    if (!Object.hasOwn(patch, retainKeys)) return
    const retained = new Set(listOf(patch[retainKeys], retainKeys))
    for (const [key, value] of Object.entries(patch)) {
      const isSet = key !== retainKeys && value !== null
      if (isSet && !key.startsWith(deleteItems) && !key.startsWith(elementOrder) && !retained.has(key))
        throw badRequest(`the patch sets ${quote(key)}, which its $retainKeys does not have`)
    }
    const keys = Object.keys(into)
    this.#spend(keys.length)
    for (const key of keys) if (!retained.has(key)) delete into[key]
  }

  #deleteItems(into: JsonObject, directive: string, deleted: unknown, type: MergeType): void {
    const key = directive.slice(deleteItems.length)
    const list = Object.hasOwn(into, key) ? into[key] : undefined
    const items = listOf(deleted, directive)
    if (!Array.isArray(list)) return
    if (type(key) === undefined) throw unknownField(directive)
    this.#spend(list.length + items.length)
    setOwn(into, key, deleteFromList(list, items))
  }

  /** Merges a list, if the patch has it, and orders the result. */
  #orderedList(into: JsonObject, directive: string, patch: JsonObject, type: MergeType): void {
    const key = directive.slice(elementOrder.length)
    const order = listOf(patch[directive], directive)
    const field = type(key)
    if (field === undefined) throw unknownField(directive)
    const has = (object: JsonObject) => Object.hasOwn(object, key)
    const before = has(into) ? listOf(into[key], key) : []
    const items = has(patch) ? listOf(patch[key], key) : []
    if (!has(into) && !has(patch)) return
    this.#spend(order.length + before.length + items.length)
    const of = this.#itemsOf(field, before, items)
    checkItems([...before, ...items, ...order], of)
    checkOrder(items, order, of)
    const merged = has(into)
      ? has(patch)
        ? this.#list([...before], items, field)
        : before
      : listOf(plainValue(items), key)
    setOwn(into, key, inOrder(merged, before, order, of))
  }

  #spend(work: number): void {
    this.#work += work
    if (this.#work > strategicMergeDefaults.work)
      throw new ApiError('RequestEntityTooLarge', 'the strategic merge patch takes too much work; split it')
  }
}

/** Returns an object that replaces another one, without its directive. */
function replacement(patch: JsonObject): JsonObject {
  const { [patchDirective]: _, ...fields } = patch
  const value = plainValue(fields)
  return isRecord(value) ? value : {}
}

function unknownField(directive: string): ApiError {
  return badRequest(`${echo(directive)} names a field that the kind does not have`)
}
