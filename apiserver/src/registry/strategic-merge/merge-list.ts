import { ApiError, isRecord } from '@setpoint/controller-runtime/api'
import { type JsonObject, quote } from '../../model/index.ts'
import { badRequest } from '../refusals.ts'
import { hasPatchDirective, patchDirective, plainValue, type Scalar, scalarOf } from './directives.ts'

/** The items of a list, which are of one kind. */
export interface ItemKind {
  /** The field that identifies an object. Undefined for scalars, which identify themselves. */
  readonly mergeKey: string | undefined
  /** Merges an item of the patch into the item that has the same key. Changes `into`. */
  merge(into: JsonObject, patch: JsonObject): JsonObject
}

/**
 * Merges the items of a patch into a list, with their directives. Returns the items in order: those of the patch in its
 * order, the others in theirs, and the two interleaved as they were in the list. May change `list` and its items.
 * @throws ApiError 400 for an item without its key, and for an unknown directive
 */
export function mergeList(list: unknown[], patch: readonly unknown[], of: ItemKind): unknown[] {
  if (list.length === 0 && patch.length === 0) return list
  checkItems([...list, ...patch], of)
  if (of.mergeKey === undefined) {
    const merged = [...new Set([...list, ...patch])]
    return inOrder(merged, list, patch, of)
  }
  const { deleted, replaces, items } = readDirectives(patch, of)
  if (replaces) return items.map(plainValue)
  const kept = list.filter(item => !deleted.has(keyOf(item, of)))
  const places = new Map<Scalar, number>()
  for (const [at, item] of kept.entries()) {
    const key = keyOf(item, of)
    if (!places.has(key)) places.set(key, at)
  }
  const merged = [...kept]
  for (const item of items) {
    const key = keyOf(item, of)
    const at = places.get(key)
    const into = at === undefined ? undefined : merged[at]
    if (at !== undefined && isRecord(into)) merged[at] = of.merge(into, item)
    else places.set(key, merged.push(plainValue(item)) - 1)
  }
  return inOrder(merged, kept, items, of)
}

/** Removes scalars from a list. @throws ApiError 400 if the list has other items */
export function deleteFromList(list: readonly unknown[], deleted: readonly unknown[]): unknown[] {
  const what = 'an item of a list for $deleteFromPrimitiveList'
  const values = new Set(deleted.map(value => scalarOf(value, what)))
  return list.filter(item => !values.has(scalarOf(item, what)))
}

/**
 * Orders a merged list. Items of `order` have the order there, the others that of the list before the patch. Each of
 * the others stands before the first ordered item that followed it in that list.
 * @param order items of the patch, or of `$setElementOrder`
 */
export function inOrder(
  merged: readonly unknown[],
  before: readonly unknown[],
  order: readonly unknown[],
  of: ItemKind,
): unknown[] {
  const ordered = placesOf(order, of)
  const former = placesOf(before, of)
  const by = (places: ReadonlyMap<Scalar, number>) => (a: unknown, b: unknown) =>
    (places.get(keyOf(a, of)) ?? Infinity) - (places.get(keyOf(b, of)) ?? Infinity) || 0
  const right = merged.filter(item => ordered.has(keyOf(item, of))).sort(by(ordered))
  const left = merged.filter(item => !ordered.has(keyOf(item, of))).sort(by(former))
  const result: unknown[] = []
  let at = 0
  for (const item of left) {
    const place = former.get(keyOf(item, of)) ?? Infinity
    for (; at < right.length; at++) {
      const next = former.get(keyOf(right[at], of))
      if (next !== undefined && place < next) break
      result.push(right[at])
    }
    result.push(item)
  }
  return [...result, ...right.slice(at)]
}

/** Checks that the order of a list contains the items of the patch, in the same order. @throws ApiError 400 */
export function checkOrder(patch: readonly unknown[], order: readonly unknown[], of: ItemKind): void {
  if (patch.length === 0 || order.length === 0) return
  let at = 0
  for (const item of patch) {
    if (hasPatchDirective(item)) continue
    const key = keyOf(item, of)
    while (at < order.length && keyOf(order[at], of) !== key) at++
    if (at === order.length)
      throw badRequest(
        `the order of the items in the patch does not match its $setElementOrder: ${quote(key)}`,
      )
    at++
  }
}

/** @throws ApiError 400 for items of different types; 422 for a list of lists, as in Kubernetes */
export function checkItems(items: readonly unknown[], of: ItemKind): void {
  for (const item of items) {
    if (of.mergeKey === undefined) {
      if (typeof scalarOf(item, 'an item of a merged list') !== typeof items[0])
        throw badRequest('the items of a merged list must be of one type')
    } else if (Array.isArray(item)) throw new ApiError('Invalid', 'lists of lists are not supported')
    else if (!isRecord(item)) throw badRequest('an item of a list with a merge key must be an object')
  }
}

function readDirectives(patch: readonly unknown[], of: ItemKind) {
  const deleted = new Set<Scalar>()
  const items: JsonObject[] = []
  let replaces = false
  for (const item of patch) {
    if (!isRecord(item)) continue
    if (!hasPatchDirective(item)) items.push(item)
    else if (item[patchDirective] === 'delete') deleted.add(keyOf(item, of))
    else if (item[patchDirective] === 'replace') replaces = true
    else
      throw badRequest(
        `$patch must be delete or replace in an item of a list, is ${quote(item[patchDirective])}`,
      )
  }
  return { deleted, replaces, items }
}

/** Returns the place of each item; of equal items, the first one's. */
function placesOf(items: readonly unknown[], of: ItemKind): Map<Scalar, number> {
  const places = new Map<Scalar, number>()
  for (const [at, item] of items.entries()) {
    const key = keyOf(item, of)
    if (!places.has(key)) places.set(key, at)
  }
  return places
}

function keyOf(item: unknown, { mergeKey }: ItemKind): Scalar {
  if (mergeKey === undefined) return scalarOf(item, 'an item of a merged list')
  const key = isRecord(item) && Object.hasOwn(item, mergeKey) ? item[mergeKey] : undefined
  if (key === undefined) throw badRequest(`an item of the list has no ${mergeKey}, which is its merge key`)
  return scalarOf(key, `the merge key ${mergeKey}`)
}
