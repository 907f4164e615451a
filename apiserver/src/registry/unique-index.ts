import { createHash } from 'node:crypto'
import { type ObjectKey, splitObjectKey } from '@setpoint/controller-runtime/api'
import { isWithinNamespace, type ServedModel } from '../model/index.ts'

/** Prefix of the keys of all reservations. */
export const reservationsPrefix = 'unique/'

/**
 * Each unique value is reserved by a key, `unique/<group>/<plural>/<index>/[<namespace>/]<hash of the value>`; the
 * namespace is part of it if the values are unique within each. The transaction that writes the object also writes its
 * reservations, so two servers that write the same value compare the same key. A record in the store lists the unique
 * indexes in force. Every write compares its revision, so all servers agree.
 */
export const uniqueLimits = Object.freeze({
  /**
   * Values of one object in all its unique indexes. With as many released values they fit into one etcd transaction.
   */
  valuesPerObject: 60,
})

/** The value of a reservation key. It does not repeat the unique value, because the object may be encrypted. */
export interface Holder {
  /** The object's key. */
  readonly name: ObjectKey
  readonly uid: string
}

/** @param key the object that holds or wants the value */
export function reservationKey(
  served: Pick<ServedModel, 'resource'>,
  index: string,
  value: string,
  key: ObjectKey,
): string {
  const hash = createHash('sha256')
  // UTF-8 replaces every lone surrogate by the same character, so two different values would share a key.
  const tail = loneSurrogate.test(value)
    ? `utf16-${hash.update(value, 'utf16le').digest('base64url')}`
    : hash.update(value).digest('base64url')
  const { namespace } = splitObjectKey(key)
  const place = namespace !== undefined && isWithinNamespace(index) ? `${namespace}/` : ''
  return `${reservationsPrefix}${served.resource}/${index}/${place}${tail}`
}

const loneSurrogate = /\p{Surrogate}/u

export function encodeHolder({ name, uid }: Holder): Buffer {
  return Buffer.from(JSON.stringify({ name, uid }))
}

/**
 * Returns a reservation without the unique value, which an earlier version repeated; the same buffer if it has none.
 */
export function withoutUniqueValue(reservation: Buffer): Buffer {
  const holder: Holder & { value?: unknown } = JSON.parse(reservation.toString())
  return holder.value === undefined ? reservation : encodeHolder(holder)
}

export function decodeHolder(value: Buffer): Holder {
  return JSON.parse(value.toString())
}

/** Returns the bytes that reservations add to the transaction that takes them. It compares, puts and reads each key. */
export function reservationBytes(reservations: readonly { key: string; holder: Buffer }[]): number {
  return reservations.reduce(
    (bytes, { key, holder }) => bytes + 3 * Buffer.byteLength(key) + holder.length,
    0,
  )
}
