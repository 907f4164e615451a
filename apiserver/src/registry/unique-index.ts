import { createHash } from 'node:crypto'
import { type Revision, zeroRevision } from '@setpoint/controller-runtime/api'
import type { ServedModel } from '../model/served-model.ts'
import type { Storage } from '../storage/index.ts'
import { notReady } from './refusals.ts'
import { noReservations, type Reservations } from './stored-object.ts'

/**
 * Unique values are held by keys of their own, `unique/<group>/<plural>/<index>/<hash of the value>`, written in the
 * transaction of the object that holds them: two servers that write the same value at once compare the same key.
 * Which unique indexes of a model are in force is a record in the store, and every write compares its revision, so
 * that no server goes on writing with another idea of them.
 */
export const uniqueLimits = Object.freeze({
  /** Values of one object over all its unique indexes: with as many released, they fit into one etcd transaction. */
  valuesPerObject: 60,
})

/** What a reservation key holds. */
export interface Holder {
  readonly name: string
  readonly uid: string
  readonly value: string
}

export function reservationKey(served: ServedModel, index: string, value: string): string {
  const hash = createHash('sha256').update(value).digest('base64url')
  return `unique/${served.resource}/${index}/${hash}`
}

export function encodeHolder(holder: Holder): Buffer {
  return Buffer.from(JSON.stringify(holder))
}

export function decodeHolder(value: Buffer): Holder {
  return JSON.parse(value.toString())
}

/** The values that an object with these index values (by position in the model's IndexSet) must hold. */
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

/** The (index, value) pairs of `left` that are not in `right`. */
export function reservationsWithout(
  left: Reservations,
  right: Reservations,
): { index: string; value: string }[] {
  if (left === noReservations) return []
  const pairs: { index: string; value: string }[] = []
  for (const [index, values] of Object.entries(left)) {
    const others = Object.hasOwn(right, index) ? right[index] : undefined
    for (const value of values) {
      if (others === undefined || !others.includes(value)) pairs.push({ index, value })
    }
  }
  return pairs
}

export function countReservations(reservations: Reservations): number {
  let count = 0
  for (const values of Object.values(reservations)) count += values.length
  return count
}

/** The versions of a model's unique indexes by name, in canonical order: what the record of a model holds. */
function describeUnique(served: ServedModel): string {
  const unique = served.uniqueIndexes.map(({ name, version }) => [name, version] as const)
  unique.sort(([a], [b]) => (a < b ? -1 : 1))
  return JSON.stringify({ unique: Object.fromEntries(unique) })
}

/** The records of the unique indexes in force, as this server last saw them. */
export class UniqueIndexRecords {
  readonly #storage: Storage
  readonly #revisions = new Map<ServedModel, Revision>()

  constructor(storage: Storage) {
    this.#storage = storage
  }

  keyOf(served: ServedModel): string {
    return `models/${served.resource}`
  }

  /**
   * The revision that a write of this model compares.
   * @throws ApiError 503 when another set of unique indexes is in force.
   */
  async revision(served: ServedModel): Promise<Revision> {
    return this.#revisions.get(served) ?? (await this.refresh(served))
  }

  /** Reads the record again, after a comparison has failed. Same errors as `revision`. */
  async refresh(served: ServedModel): Promise<Revision> {
    const { pair } = await this.#storage.get(this.keyOf(served))
    if (pair === undefined || pair.value.toString() !== describeUnique(served)) {
      this.#revisions.delete(served)
      throw notReady(
        served,
        'another set of unique indexes is in force, put there by another version of the plugin',
      )
    }
    this.#revisions.set(served, pair.modRevision)
    return pair.modRevision
  }

  /** Puts this server's set of unique indexes in force. @returns whether it was another one before. */
  async establish(served: ServedModel): Promise<{ changed: boolean }> {
    const key = this.keyOf(served)
    const wanted = describeUnique(served)
    for (;;) {
      const { pair } = await this.#storage.get(key)
      if (pair?.value.toString() === wanted) {
        this.#revisions.set(served, pair.modRevision)
        return { changed: false }
      }
      const result = await this.#storage.transact({
        compares: [{ key, modRevision: pair?.modRevision ?? zeroRevision }],
        onSuccess: [{ type: 'put', key, value: Buffer.from(wanted) }],
      })
      if (result.succeeded) {
        this.#revisions.set(served, result.revision)
        return { changed: pair !== undefined }
      }
    }
  }
}
