import { compareCodePoints } from '@setpoint/controller-runtime/internal'
import { Quantity } from '../quantity.ts'
import type { Budget } from './budget.ts'
import { CelEvaluationError } from './errors.ts'
import { Opaque } from './opaque.ts'
import { Duration, Timestamp } from './time.ts'
import { Url } from './url.ts'

export type CelList = readonly CelValue[]
/** A map, or an object with its fields. */
export type CelMap = ReadonlyMap<CelValue, CelValue>

/** A value of CEL: int is a bigint, double a number. */
export type CelValue =
  | null
  | boolean
  | bigint
  | number
  | string
  | Uint8Array
  | CelList
  | CelMap
  | Timestamp
  | Duration
  | Quantity
  | Url
  | TypeValue
  | Optional
  | Opaque

/** The value of `type(x)`. */
export class TypeValue {
  readonly name: string

  constructor(name: string) {
    this.name = name
  }
}

/** A value that may be absent, as `a.?b` returns it. */
export class Optional {
  readonly value: CelValue | undefined

  constructor(value: CelValue | undefined) {
    this.value = value
  }
}

export function isList(value: CelValue): value is CelList {
  return Array.isArray(value)
}

export function isMap(value: CelValue): value is CelMap {
  return value instanceof Map
}

/**
 * The lists of type set and map, with the keys of their items. A set has no keys. Their equality ignores the order, and
 * `+` merges them, as in Kubernetes.
 */
const distinctLists = new WeakMap<CelList, readonly string[]>()

export function markDistinct(list: CelList, keys: readonly string[]): CelList {
  distinctLists.set(list, keys)
  return list
}

/** Returns the keys of a list of type map, none for a set, undefined for an atomic list. */
function keysOfDistinct(list: CelList): readonly string[] | undefined {
  return distinctLists.get(list)
}

/** Returns true if the values are equal. Values of different types are not, except for int and double. */
export function equals(a: CelValue, b: CelValue, budget: Budget): boolean {
  budget.spend(1)
  if (a === b) return true
  switch (typeof a) {
    case 'bigint':
    case 'number':
      return (typeof b === 'bigint' || typeof b === 'number') && !(a < b) && !(a > b) && a >= b
    case 'string':
      if (typeof b === 'string') budget.spend(Math.min(a.length, b.length) >> 6)
      return false
    case 'boolean':
      return false
  }
  if (a === null || typeof b !== 'object' || b === null) return false
  if (isList(a)) return isList(b) && equalLists(a, b, budget)
  if (isMap(a)) return isMap(b) && equalMaps(a, b, budget)
  if (a instanceof Optional) {
    if (!(b instanceof Optional) || a.value === undefined || b.value === undefined)
      return b instanceof Optional && a.value === b.value
    return equals(a.value, b.value, budget)
  }
  return identityOf(a, budget) === identityOf(b, budget)
}

function equalLists(a: CelList, b: CelList, budget: Budget): boolean {
  if (a.length !== b.length) return false
  const keys = keysOfDistinct(a) ?? keysOfDistinct(b)
  if (keys !== undefined) return equalMaps(byIdentity(a, keys, budget), byIdentity(b, keys, budget), budget)
  return a.every((item, at) => {
    const other = b[at]
    return other !== undefined && equals(item, other, budget)
  })
}

function equalMaps(a: CelMap, b: CelMap, budget: Budget): boolean {
  if (a.size !== b.size) return false
  for (const [key, value] of a) {
    const other = b.get(key)
    if (other === undefined || !equals(value, other, budget)) return false
  }
  return true
}

/**
 * Joins two lists. Lists of type set and map keep one item for each identity: the place of the first, the last value.
 */
export function concatenate(a: CelList, b: CelList, budget: Budget): CelList {
  const keys = keysOfDistinct(a)
  if (keys === undefined) return [...a, ...b]
  const merged = [...byIdentity([...a, ...b], keys, budget).values()]
  return markDistinct(merged, keys)
}

function byIdentity(list: CelList, keys: readonly string[], budget: Budget): Map<string, CelValue> {
  return new Map(list.map(item => [identityOf(keyValues(item, keys), budget), item]))
}

function keyValues(item: CelValue, keys: readonly string[]): CelValue {
  if (keys.length === 0 || !isMap(item)) return item
  return keys.map(key => item.get(key) ?? null)
}

/** Returns a text that is the same for two values exactly if they are equal. */
export function identityOf(value: CelValue, budget: Budget): string {
  budget.spend(1)
  if (typeof value === 'string') {
    budget.spend(value.length >> 6)
    return JSON.stringify(value)
  }
  if (value === null || typeof value !== 'object') return String(value)
  const each = (item: CelValue) => identityOf(item, budget)
  if (isList(value)) {
    const items = value.map(each)
    return `[${keysOfDistinct(value) === undefined ? items : items.sort()}]`
  }
  if (isMap(value)) return `{${[...value].map(([key, item]) => `${each(key)}:${each(item)}`).sort()}}`
  if (value instanceof Uint8Array) return `b${Buffer.from(value).toString('hex')}`
  if (value instanceof Optional) return value.value === undefined ? 'none' : `some(${each(value.value)})`
  if (value instanceof Timestamp || value instanceof Duration)
    return `${value.constructor.name} ${value.nanos}`
  if (value instanceof Opaque) return `${value.typeName} ${value.identity}`
  if (value instanceof Quantity) return `Quantity ${value.nanos}`
  return value instanceof Url ? `Url ${value.text}` : `type ${value.name}`
}

/** Compares two values of one type. @throws CelEvaluationError if the type has no order */
export function compare(a: CelValue, b: CelValue): number {
  if (typeof a === 'string' && typeof b === 'string') return compareCodePoints(a, b)
  if (a instanceof Uint8Array && b instanceof Uint8Array) return Buffer.compare(a, b)
  if (a instanceof Timestamp && b instanceof Timestamp) return order(a.nanos, b.nanos)
  if (a instanceof Duration && b instanceof Duration) return order(a.nanos, b.nanos)
  if (typeof a === 'boolean' && typeof b === 'boolean') return order(Number(a), Number(b))
  if (isNumeric(a) && isNumeric(b)) return order(a, b)
  throw new CelEvaluationError('no such overload: the values have no order')
}

function isNumeric(value: CelValue): value is bigint | number {
  return typeof value === 'bigint' || typeof value === 'number'
}

/** NaN is in no order with anything. */
function order(a: bigint | number, b: bigint | number): number {
  return a < b ? -1 : a > b ? 1 : a >= b ? 0 : Number.NaN
}

/** Returns the steps for handling a value: more for a long one. */
export function weightOf(value: CelValue): number {
  if (typeof value === 'string') return value.length >> 6
  if (typeof value !== 'object' || value === null) return 0
  if (isList(value)) return value.length >> 3
  if (isMap(value)) return value.size >> 3
  return value instanceof Uint8Array ? value.length >> 6 : 0
}
