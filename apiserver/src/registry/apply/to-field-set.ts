import { isRecord } from '@setpoint/controller-runtime/api'
import { type FieldSet, isEmpty, noFields, toNode, withItself } from './field-set.ts'
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

/** Returns the fields that a value sets: what its applier owns. From `typed/tofieldset.go` of structured-merge-diff. */
export function fieldsOf(type: FieldType, value: unknown): FieldSet {
  return nodeOf(type, value) ?? noFields
}

/** Returns the node of a value, or undefined if it sets no field. An empty list of type set or map sets none. */
function nodeOf(type: FieldType, value: unknown): FieldSet | undefined {
  const form = formOf(type, value)
  if (form === 'map' && type.map !== undefined) return nodeOfMap(type.map, value)
  if (form === 'list' && type.list !== undefined) return nodeOfList(type.list, value)
  return noFields
}

function nodeOfMap(type: MapType, value: unknown): FieldSet | undefined {
  if (type.isAtomic) return noFields
  if (!isRecord(value)) return undefined
  const result: Record<PathElement, FieldSet> = {}
  for (const [name, field] of Object.entries(value)) {
    if (field === undefined) continue
    const node = nodeOf(typeOfField(type, name), field)
    const isOwned = isBare(field) || !type.fields.has(name)
    const own = isOwned ? withItself(node) : node
    if (own !== undefined) result[fieldElement(name)] = own
  }
  return toNode(false, result)
}

/** Returns true for null and empty maps, which are owned themselves. */
function isBare(value: unknown): boolean {
  return value === null || value === emptied || (isRecord(value) && isEmptyMap(value))
}

export function isEmptyMap(value: Readonly<Record<string, unknown>>): boolean {
  for (const name in value) if (value[name] !== undefined) return false
  return true
}

function nodeOfList(type: ListType, value: unknown): FieldSet | undefined {
  if (type.kind === 'atomic') return noFields
  if (!Array.isArray(value)) return undefined
  const result: Record<PathElement, FieldSet> = {}
  for (const item of value) {
    const element = itemElement(type, item)
    // Duplicates are owned together, without the fields of each.
    result[element] = result[element] === undefined ? withItself(nodeOf(type.items, item)) : noFields
  }
  return isEmpty(result) ? undefined : result
}
