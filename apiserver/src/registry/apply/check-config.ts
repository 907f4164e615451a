import { isRecord, type StatusCause } from '@setpoint/controller-runtime/api'
import { formatPath } from '../../model/index.ts'
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
export function checkConfig(type: FieldType, value: unknown, causes: Causes): void {
  new ConfigCheck(causes).check(type, value)
}

/** A walk over a configuration. */
class ConfigCheck {
  readonly #causes: Causes
  /** Of the value that is being checked. */
  readonly #path: (string | number)[] = []

  constructor(causes: Causes) {
    this.#causes = causes
  }

  check(type: FieldType, value: unknown): void {
    const form = formOf(type, value)
    if (form === 'map' && type.map !== undefined && isRecord(value)) this.#checkMap(type.map, value)
    else if (form === 'list' && type.list !== undefined && Array.isArray(value))
      this.#checkList(type.list, value)
  }

  #checkMap(type: MapType, value: Readonly<Record<string, unknown>>): void {
    if (type.isAtomic) return
    for (const name in value) this.#checkAt(name, typeOfField(type, name), value[name])
  }

  #checkList(type: ListType, list: readonly unknown[]): void {
    if (type.kind === 'atomic') return
    const seen = new Map<PathElement, number>()
    for (const [index, item] of list.entries()) {
      const problem = problemOfItem(type, item)
      if (problem !== undefined) {
        this.#causes.add({ ...problem, field: formatPath([...this.#path, index]) })
        continue
      }
      const element = itemElement(type, item)
      const first = seen.get(element)
      if (first === undefined) seen.set(element, index)
      else {
        const message = `is the same item as ${formatPath([...this.#path, first])}`
        const field = formatPath([...this.#path, index])
        this.#causes.add({ reason: 'FieldValueDuplicate', field, message })
      }
      this.#checkAt(index, type.items, item)
    }
  }

  #checkAt(step: string | number, type: FieldType, value: unknown): void {
    if (this.#causes.stops) return
    this.#path.push(step)
    this.check(type, value)
    this.#path.pop()
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
