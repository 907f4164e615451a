import { createHash } from 'node:crypto'
import type { ServedModel } from '../model/served-model.ts'
import { noReservations, type Reservations } from './stored-object.ts'

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
  readonly name: string
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

/** Returns the values that an object must hold. `values` are its index values by position in the model's IndexSet. */
export function reservationsOf(served: ServedModel, values: readonly (readonly string[])[]): Reservations {
  let reservations: Record<string, readonly string[]> | undefined
  for (const { name, position } of served.uniqueIndexes) {
    const held = values[position]
    if (held === undefined || held.length === 0) continue
    reservations ??= {}
    reservations[name] = held
  }
  return reservations ?? noReservations
}

/** Returns the (index, value) pairs of `left` that are not in `right`. */
export function reservationsWithout(
  left: Reservations,
  right: Reservations,
): { index: string; value: string }[] {
  if (left === noReservations) return []
  const pairs: { index: string; value: string }[] = []
  for (const [index, values] of Object.entries(left)) {
    const others = new Set(Object.hasOwn(right, index) ? right[index] : undefined)
    for (const value of values) if (!others.has(value)) pairs.push({ index, value })
  }
  return pairs
}

export function filterReservations(
  reservations: Reservations,
  keep: (index: string, value: string) => boolean,
): Reservations {
  const kept: Record<string, readonly string[]> = {}
  for (const [index, values] of Object.entries(reservations)) {
    const some = values.filter(value => keep(index, value))
    if (some.length > 0) kept[index] = some
  }
  return kept
}

/** Returns the union of two disjoint sets. */
export function joinReservations(left: Reservations, right: Reservations): Reservations {
  if (right === noReservations) return left
  const joined: Record<string, readonly string[]> = { ...left }
  for (const [index, values] of Object.entries(right)) joined[index] = [...(joined[index] ?? []), ...values]
  return joined
}

export function countReservations(reservations: Reservations): number {
  let count = 0
  for (const values of Object.values(reservations)) count += values.length
  return count
}
