import { ApiError, type ObjectKey, type Revision } from '@setpoint/controller-runtime/api'
import type { ServedModel, ServedVersion } from '../model/index.ts'
import {
  encodeStored,
  joinReservations,
  noReservations,
  type Reservations,
  reservationsWithout,
} from '../model/index.ts'
import { type Compare, storageLimits } from '../storage/index.ts'
import type { NamespaceGrowth } from './namespace-bounds.ts'
import { encodeHolder, reservationBytes, reservationKey } from './unique-index.ts'

/** A change of one object. Without `next` it removes the object. */
export interface Write {
  readonly served: ServedModel
  readonly key: ObjectKey
  readonly uid: string
  /** Undefined if the write creates the object. */
  readonly previous: { readonly revision: Revision; readonly reservations: Reservations } | undefined
  readonly next:
    | {
        /** Returns the object's JSON in the version that it is stored in. @throws ConversionError */
        jsonIn(version: ServedVersion): string
        readonly reservations: Reservations
        /** Values to take if they are free. */
        readonly claims: Reservations
      }
    | undefined
  /**
   * Returns a further comparison that the write depends on, from the store if `isLive`. @throws ApiError to refuse it
   */
  readonly guard?: (isLive: boolean) => Promise<Compare>
  /**
   * Undefined if no bound of a namespace applies: to deletions, the removal of finalizers, and writes of the server
   * itself.
   */
  readonly growth?: NamespaceGrowth
  /** True if the write depends on the model's unique indexes, so that it compares their record. */
  readonly indexed: boolean
}

export interface PlannedReservation {
  readonly index: string
  readonly value: string
  readonly key: string
  /** The value of the key. */
  readonly holder: Buffer
  /** True if the write can do without the value when another object holds it. */
  readonly claimed: boolean
}

/** The stored form of a write, and the reservations that it takes and releases. */
export interface WritePlan {
  /** Undefined if the write removes the object. */
  readonly value: Buffer | undefined
  readonly claims: Reservations
  readonly taken: readonly PlannedReservation[]
  readonly released: readonly { index: string; value: string }[]
}

/**
 * @param stored the version that objects are stored in
 * @throws ApiError 413 if value and reservations are too large for one transaction; ConversionError
 */
export function planWrite(
  write: Write,
  stored: ServedVersion,
  claims = write.next?.claims ?? noReservations,
): WritePlan {
  const { served, key: name, uid, previous, next } = write
  const before = previous?.reservations ?? noReservations
  const needed = next?.reservations ?? noReservations
  const after = joinReservations(needed, claims)
  const planned = (pairs: readonly { index: string; value: string }[], claimed: boolean) =>
    pairs.map(({ index, value }) => ({
      index,
      value,
      claimed,
      key: reservationKey(served, index, value, name),
      holder: encodeHolder({ name, uid }),
    }))
  const taken = [
    ...planned(reservationsWithout(needed, before), false),
    ...planned(reservationsWithout(claims, before), true),
  ]
  const value = next && encodeStored(next.jsonIn(stored), after)
  const bytes = (value?.length ?? 0) + reservationBytes(taken)
  if (bytes > storageLimits.valueBytes) {
    // Optional claims must not make the write too large.
    if (claims !== noReservations) return planWrite(write, stored, noReservations)
    const what = taken.length > 0 ? 'the object and its unique values are' : 'the object is'
    throw new ApiError(
      'RequestEntityTooLarge',
      `${what} ${bytes} bytes, at most ${storageLimits.valueBytes} can be stored`,
    )
  }
  return { value, claims, taken, released: reservationsWithout(before, after) }
}
