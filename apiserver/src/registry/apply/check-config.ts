import { isRecord, type StatusCause } from '@setpoint/controller-runtime/api'
import { type FieldPath, formatPath } from '../../model/index.ts'
import type { Causes } from '../causes.ts'
import {
  type FieldType,
  formOf,
  itemElement,
  keysOfItem,
  type ListType,
  type MapType,
  typeOfField,
} from './field-type.ts'
import type { PathElement } from './path-element.ts'

/**
 * Adds a cause for each item of a list of type set or map that cannot be told from others: a duplicate, or an item
 * without keys. Such a configuration cannot be merged.
 */
export function checkConfig(type: FieldType, value: unknown, causes: Causes, path: FieldPath = []): void {
  const form = formOf(type, value)
  if (form === 'map' && type.map !== undefined && isRecord(value)) checkMap(type.map, value, causes, path)
  else if (form === 'list' && type.list !== undefined && Array.isArray(value))
    checkList(type.list, value, causes, path)
}

function checkMap(type: MapType, value: Readonly<Record<string, unknown>>, causes: Causes, path: FieldPath) {
  if (type.isAtomic) return
  for (const [name, field] of Object.entries(value)) {
    if (causes.stops) return
    checkConfig(typeOfField(type, name), field, causes, [...path, name])
  }
}

function checkList(type: ListType, list: readonly unknown[], causes: Causes, path: FieldPath) {
  if (type.kind === 'atomic') return
  const seen = new Map<PathElement, number>()
  for (const [index, item] of list.entries()) {
    if (causes.stops) return
    const at = [...path, index]
    const problem = problemOfItem(type, item)
    if (problem !== undefined) {
      causes.add({ ...problem, field: formatPath(at) })
      continue
    }
    const element = itemElement(type, item)
    const first = seen.get(element)
    if (first !== undefined) {
      const message = `is the same item as ${formatPath([...path, first])}`
      causes.add({ reason: 'FieldValueDuplicate', field: formatPath(at), message })
    }
    seen.set(element, index)
    checkConfig(type.items, item, causes, at)
  }
}

function problemOfItem(type: ListType, item: unknown): StatusCause | undefined {
  if (type.kind === 'set') {
    if (item !== null) return undefined
    return { reason: 'FieldValueRequired', message: 'must not be null in a list of type set' }
  }
  if (!isRecord(item))
    return { reason: 'FieldValueTypeInvalid', message: 'must be an object in a list of type map' }
  if (keysOfItem(type, item) !== undefined) return undefined
  const names = type.keys.map(({ name }) => name).join(', ')
  return {
    reason: 'FieldValueRequired',
    message: `must have a value for one of the keys of the list: ${names}`,
  }
}
