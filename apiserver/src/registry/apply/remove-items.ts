import { isRecord } from '@setpoint/controller-runtime/api'
import { setOwn } from '../../model/index.ts'
import {
  type FieldSet,
  hasFieldsBelow,
  isEmpty,
  isOwned,
  type NewFieldSet,
  nodesOf,
  withItself,
} from './field-set.ts'
import {
  emptied,
  type FieldType,
  formOf,
  itemElement,
  type ListType,
  type MapType,
  typeOfField,
} from './field-type.ts'
import { fieldElement, type PathElement } from './path-element.ts'

/**
 * Returns a value without the fields and items of a set. A map or list that the removal empties becomes `emptied`. From
 * `typed/remove.go` of structured-merge-diff.
 */
export function removeItems(type: FieldType, value: unknown, removed: FieldSet): unknown {
  if (isEmpty(removed)) return value
  const form = formOf(type, value)
  if (form === 'map' && type.map !== undefined && isRecord(value)) return fromMap(type.map, value, removed)
  if (form === 'list' && type.list !== undefined && Array.isArray(value))
    return fromList(type.list, value, removed)
  return value
}

function fromMap(type: MapType, value: Readonly<Record<string, unknown>>, removed: FieldSet): unknown {
  if (type.isAtomic) return emptied
  const result: Record<string, unknown> = {}
  let isBare = true
  for (const name in value) {
    const field = value[name]
    const node = removed.get(fieldElement(name))
    if (node !== undefined && isOwned(node)) continue
    setOwn(result, name, node === undefined ? field : removeItems(typeOfField(type, name), field, node))
    isBare = false
  }
  return isBare ? emptied : result
}

function fromList(type: ListType, list: readonly unknown[], removed: FieldSet): unknown {
  if (type.kind === 'atomic') return emptied
  const result = list.flatMap(item => {
    const node = removed.get(itemElement(type, item))
    if (node === undefined) return [item]
    const kept = isOwned(node) ? emptied : removeItems(type.items, item, node)
    return kept === emptied ? [] : [kept]
  })
  return result.length === 0 ? emptied : result
}

/** Returns a value without its emptied parts, or undefined if it is one. */
export function withoutEmptied(value: unknown): unknown {
  if (value === emptied) return undefined
  if (Array.isArray(value)) return value.map(withoutEmptied)
  if (!isRecord(value)) return value
  const result: Record<string, unknown> = {}
  for (const name in value) {
    const kept = withoutEmptied(value[name])
    if (kept !== undefined) setOwn(result, name, kept)
  }
  return result
}

/**
 * Adds the declared fields that are above a path of the set, so that a map or list that loses all its fields goes too.
 * Returns the same set if there is nothing to add. From `EnsureNamedFieldsAreMembers` in `fieldpath/set.go` of
 * structured-merge-diff.
 */
export function withNamedFields(type: FieldType | undefined, set: FieldSet): FieldSet {
  const { map, list } = type ?? {}
  let result: NewFieldSet | undefined
  for (const [element, node] of nodesOf(set)) {
    if (!hasFieldsBelow(node)) continue
    const name = element.startsWith('f:') ? element.slice(2) : undefined
    const isDeclared = name !== undefined && map?.fields.has(name) === true
    const below = withNamedFields(typeOfElement(map, list, element), node)
    const next = isDeclared ? withItself(below) : below
    if (next === node) continue
    result ??= new Map(set)
    result.set(element, next)
  }
  return result ?? set
}

function typeOfElement(
  map: MapType | undefined,
  list: ListType | undefined,
  element: PathElement,
): FieldType | undefined {
  if (element.startsWith('f:')) return map && typeOfField(map, element.slice(2))
  return element.startsWith('k:') ? list?.items : undefined
}
