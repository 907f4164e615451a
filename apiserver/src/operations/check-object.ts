import { isRecord, type ObjectKey, splitObjectKey } from '@setpoint/controller-runtime/api'
import {
  countParts,
  countReservations,
  countValues,
  objectLimits,
  partsName,
  type Reservations,
  valuesName,
} from '../model/index.ts'
import { uniqueLimits } from '../registry/index.ts'
import { storageLimits } from '../storage/index.ts'

/** A stored value, read without trust. */
export interface ReadObject {
  readonly uid: string
  readonly reservations: Reservations
  readonly content: Readonly<Record<string, unknown>>
}

/**
 * Reads a stored object.
 * @param key its key below that of its kind
 * @returns the object, or what is wrong with its form
 */
export function readObject(key: ObjectKey, value: Buffer): ReadObject | string {
  const end = value.indexOf(0x0a)
  let reservations: unknown
  let content: unknown
  try {
    reservations = JSON.parse(value.toString('utf8', 0, Math.max(end, 0)))
    content = JSON.parse(value.toString('utf8', end + 1))
  } catch {
    return 'it is not a line with its unique values and then its JSON'
  }
  if (!isReservations(reservations)) return 'its first line does not list unique values'
  if (!isRecord(content) || typeof content.apiVersion !== 'string' || typeof content.kind !== 'string')
    return 'it has no apiVersion or kind'
  const { metadata } = content
  if (!isRecord(metadata) || typeof metadata.uid !== 'string') return 'it has no metadata.uid'
  const { namespace, name } = splitObjectKey(key)
  if (metadata.name !== name) return `its metadata.name is ${JSON.stringify(metadata.name)}`
  if (metadata.namespace !== namespace)
    return `its metadata.namespace is ${JSON.stringify(metadata.namespace)}`
  return { uid: metadata.uid, reservations, content }
}

function isReservations(value: unknown): value is Reservations {
  return (
    isRecord(value) &&
    Object.values(value).every(all => Array.isArray(all) && all.every(each => typeof each === 'string'))
  )
}

/** Returns the first bound that an object exceeds, or undefined. The bounds of its index values need its model. */
export function boundExceeded({ content, reservations }: ReadObject, value: Buffer): string | undefined {
  const metadata = isRecord(content.metadata) ? content.metadata : {}
  const sizes: readonly (readonly [what: string, size: number, limit: number])[] = [
    ['bytes', value.length, storageLimits.valueBytes],
    ['labels', sizeOf(metadata.labels), objectLimits.labels],
    ['bytes of annotations', bytesOf(metadata.annotations), objectLimits.annotationBytes],
    ['finalizers', sizeOf(metadata.finalizers), objectLimits.finalizers],
    ['owner references', sizeOf(metadata.ownerReferences), objectLimits.ownerReferences],
    ['unique values', countReservations(reservations), uniqueLimits.valuesPerObject],
    ['top-level fields', sizeOf(content), objectLimits.topLevelFields],
    [valuesName, countValues(content), objectLimits.values],
    [partsName, countParts(content), objectLimits.parts],
  ]
  const exceeded = sizes.find(([, size, limit]) => size > limit)
  return exceeded && `it has ${exceeded[1]} ${exceeded[0]}, over ${exceeded[2]}`
}

function sizeOf(value: unknown): number {
  return typeof value === 'object' && value !== null ? Object.keys(value).length : 0
}

function bytesOf(value: unknown): number {
  if (!isRecord(value)) return 0
  return Object.entries(value).reduce(
    (bytes, [key, text]) => bytes + Buffer.byteLength(key) + Buffer.byteLength(String(text)),
    0,
  )
}
