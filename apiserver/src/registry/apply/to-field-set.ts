import { isRecord } from '@setpoint/controller-runtime/api'
import { type FieldSet, noFields, startNode } from './field-set.ts'
import {
  emptied,
  type FieldType,
  formOf,
  itemElement,
  type ListType,
  type MapType,
  typeOfField,
} from './field-type.ts'
import { fieldElement } from './path-element.ts'

/** Returns the fields that a value sets: what its applier owns. From `typed/tofieldset.go` of structured-merge-diff. */
export function fieldsOf(type: FieldType, value: unknown): FieldSet {
  return nodeOf(type, value) ?? noFields
}

/**
 * Returns the node of a value, or undefined if it sets no field. An empty list of type set or map sets none.
 * @param owned true if the element of the value is in the set in any case
 */
function nodeOf(type: FieldType, value: unknown, owned = false): FieldSet | undefined {
  const form = formOf(type, value)
  if (form === 'map' && type.map !== undefined) return nodeOfMap(type.map, value, owned)
  if (form === 'list' && type.list !== undefined) return nodeOfList(type.list, value, owned)
  return noFields
}

function nodeOfMap(type: MapType, value: unknown, owned: boolean): FieldSet | undefined {
  if (type.isAtomic) return noFields
  const node = startNode(owned)
  let isBare = true
  if (isRecord(value)) {
    for (const name in value) {
      const field = value[name]
      if (field === undefined) continue
      const below =
        nodeOf(typeOfField(type, name), field, !type.fields.has(name)) ??
        (isBareValue(field) ? noFields : undefined)
      if (below === undefined) continue
      node.set(fieldElement(name), below)
      isBare = false
    }
  }
  return isBare ? bareNode(owned) : node
}

/** Returns true for null and empty maps, which are owned themselves. */
function isBareValue(value: unknown): boolean {
  return value === null || value === emptied || (isRecord(value) && isEmptyMap(value))
}

export function isEmptyMap(value: Readonly<Record<string, unknown>>): boolean {
  for (const name in value) if (value[name] !== undefined) return false
  return true
}

function nodeOfList(type: ListType, value: unknown, owned: boolean): FieldSet | undefined {
  if (type.kind === 'atomic') return noFields
  if (!Array.isArray(value) || value.length === 0) return bareNode(owned)
  const node = startNode(owned)
  for (const item of value) {
    const element = itemElement(type, item)
    // Duplicates are owned together, without the fields of each.
    node.set(element, (node.has(element) ? undefined : nodeOf(type.items, item, true)) ?? noFields)
  }
  return node
}

/** The node of an element without fields below it. */
function bareNode(owned: boolean): FieldSet | undefined {
  return owned ? noFields : undefined
}
