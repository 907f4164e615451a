import { createHash } from 'node:crypto'
import type { ObjectKey } from '@setpoint/controller-runtime/api'
import type { ServedModel } from '../model/index.ts'

/**
 * Each unique value is reserved by a key, `unique/<group>/<plural>/<index>/<hash of the value>`. The transaction that
 * writes the object also writes its reservations, so two servers that write the same value compare the same key. A
 * record in the store lists the unique indexes in force. Every write compares its revision, so all servers agree.
 */
export const uniqueLimits = Object.freeze({
  /** Values of one object in all its unique indexes. With as many released values they fit into one etcd transaction. */
  valuesPerObject: 60,
})

/** The value of a reservation key. */
export interface Holder {
  /** The object's key. */
  readonly name: ObjectKey
  readonly uid: string
  readonly value: string
}

export function reservationKey(served: ServedModel, index: string, value: string): string {
  const hash = createHash('sha256')
  // UTF-8 replaces every lone surrogate by the same character, so two different values would share a key.
  const tail = loneSurrogate.test(value)
    ? `utf16-${hash.update(value, 'utf16le').digest('base64url')}`
    : hash.update(value).digest('base64url')
  return `unique/${served.resource}/${index}/${tail}`
}

const loneSurrogate = /\p{Surrogate}/u

export function encodeHolder(holder: Holder): Buffer {
  return Buffer.from(JSON.stringify(holder))
}

export function decodeHolder(value: Buffer): Holder {
  return JSON.parse(value.toString())
}
