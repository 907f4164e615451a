import { systemClock } from '@setpoint/controller-runtime'
import { type ObjectKey, type Revision, zeroRevision } from '@setpoint/controller-runtime/api'
import { Yielder } from '@setpoint/controller-runtime/internal'
import type { ServedModel } from '../model/index.ts'
import {
  atHub,
  ConversionNeeded,
  converting,
  decodeStored,
  objectBytes,
  type Reservations,
  reservationsOf,
  reservationsWithout,
  type StoredObject,
} from '../model/index.ts'
import {
  type Compare,
  currentPages,
  type KeyValue,
  type Operation,
  type Storage,
  storageLimits,
  undecrypted,
} from '../storage/index.ts'
import {
  decodeHolder,
  encodeHolder,
  type Holder,
  reservationBytes,
  reservationKey,
  uniqueLimits,
} from './unique-index.ts'

export const rebuildDefaults = Object.freeze({
  /** Objects settled at once. Keeps a store busy that takes milliseconds for each transaction. */
  concurrency: 16,
  /** Objects in one page, held in memory together. */
  pageSize: 200,
})

/** Another server has replaced the set of unique indexes during the rebuild. */
export class RebuildSupersededError extends Error {
  override readonly name = 'RebuildSupersededError'
}

/** The input of a rebuild. */
interface Rebuild {
  readonly storage: Storage
  readonly served: ServedModel
  /** The model's record, and its revision since this server's set is being computed. */
  readonly record: { readonly key: string; readonly revision: Revision }
  /** Stops the rebuild between two objects. */
  readonly signal: AbortSignal
  /** Called after each page with the number of objects settled. */
  readonly onProgress?: (objects: number) => void
  /** Called for a stored value that does not decode or convert. The value stays as it is. */
  readonly onCorrupt?: (key: string, error: unknown) => void
}

/**
 * Recomputes the reservations of every object of a model for this server's unique indexes. Of several objects with the
 * same value the oldest (by create revision) holds it. The others keep the value without holding it.
 *
 * Assumptions: the model's record says that the set is being recomputed, so no server takes values by another set.
 * Objects may be deleted and lose finalizers, and those of a definition may be written. Pages may therefore show
 * different revisions.
 *
 * Guarantees: objects may be settled in any order, repeatedly, and by several servers together, so a crash only needs a
 * restart. An object is rewritten only if its reservations differ: it gets a new version with the same content. Every
 * write compares the record.
 *
 * @throws RebuildSupersededError, and the store's errors.
 */
export async function rebuildReservations(rebuild: Rebuild): Promise<void> {
  const { storage, served, signal, onProgress } = rebuild
  const yielder = new Yielder(systemClock)
  const { pageSize: limit, concurrency } = rebuildDefaults
  for await (const pairs of currentPages(storage, served.keyPrefix, { limit, signal })) {
    for (let at = 0; at < pairs.length; at += concurrency) {
      const some = pairs.slice(at, at + concurrency)
      await Promise.all(some.map(pair => settle(rebuild, pair)))
      await yielder.pause()
    }
    onProgress?.(pairs.length)
  }
}

/** Updates the reservations of one object in one transaction. Retries if the object has changed. */
async function settle(rebuild: Rebuild, seen: KeyValue): Promise<void> {
  const { served, storage, signal } = rebuild
  let pair: KeyValue | undefined = seen
  while (pair !== undefined) {
    signal.throwIfAborted()
    const { key, modRevision, value }: KeyValue = pair
    const stored = await decode(rebuild, pair)
    if (stored === undefined) return
    const wanted = wantedBy(served, stored)
    const released = reservationsWithout(stored.reservations, wanted)
    const taken = await takeable(rebuild, pair, reservationsWithout(wanted, stored.reservations))
    const { uid } = stored.object.metadata
    const name = key.slice(served.keyPrefix.length)
    const reservations = taken.map(({ index, value, revision }) => ({
      key: reservationKey(served, index, value, name),
      holder: encodeHolder({ name, uid }),
      modRevision: revision,
    }))
    let next = replaceReservations(value, withPairs(stored.reservations, released, taken))
    if (next.length + reservationBytes(reservations) > storageLimits.valueBytes) {
      // There is no room for more reservations. The object keeps those it has, and the rest are reported.
      reservations.length = 0
      next = replaceReservations(value, withPairs(stored.reservations, released, []))
    }
    if (reservations.length === 0 && released.length === 0) return
    const operations: Operation[] = [
      { type: 'put', key, value: next },
      ...reservations.map(({ key, holder }): Operation => ({ type: 'put', key, value: holder })),
      ...released.map(
        ({ index, value }): Operation => ({
          type: 'delete',
          key: reservationKey(served, index, value, name),
        }),
      ),
    ]
    const compares = [
      { key, modRevision },
      ...reservations.map(({ key, modRevision }) => ({ key, modRevision })),
    ]
    if (await write(rebuild, compares, operations)) return
    pair = (await storage.get(key)).pair
  }
}

interface Takeable {
  readonly index: string
  readonly value: string
  /** Revision of a reservation that a crash left behind, or zero. */
  readonly revision: Revision
}

/** Returns the values that the object may take, after releasing them from younger objects and those without a claim. */
async function takeable(
  rebuild: Rebuild,
  pair: KeyValue,
  wanted: readonly { readonly index: string; readonly value: string }[],
): Promise<Takeable[]> {
  const { storage, served } = rebuild
  const object = pair.key.slice(served.keyPrefix.length)
  const taken: Takeable[] = []
  for (const { index, value } of wanted) {
    for (;;) {
      const reservation = (await storage.get(reservationKey(served, index, value, object))).pair
      const holding = reservation && (await holderOf(rebuild, reservation, index, value))
      // What it holds shows when its key is back.
      if (holding === 'undecrypted') break
      if (holding === undefined || holding.pair.key === pair.key) {
        taken.push({ index, value, revision: reservation?.modRevision ?? zeroRevision })
        break
      }
      const rightful = wantedBy(served, holding.stored)[index]?.includes(value) === true
      if (rightful && holding.pair.createRevision < pair.createRevision) break
      await letGo(rebuild, holding, index, value)
    }
  }
  return taken
}

interface Holding {
  readonly pair: KeyValue
  readonly stored: StoredObject
}

/**
 * Returns the object that holds a reservation, or undefined if a crash left the reservation behind. `undecrypted` if
 * the object cannot be decrypted, and may hold it.
 */
async function holderOf(
  rebuild: Rebuild,
  reservation: KeyValue,
  index: string,
  value: string,
): Promise<Holding | 'undecrypted' | undefined> {
  const { storage, served } = rebuild
  const holder = readHolder(reservation.value)
  if (holder === undefined) return undefined
  const { pair } = await storage.get(served.keyOf(holder.name))
  if (pair !== undefined && undecrypted(pair) !== undefined) return 'undecrypted'
  const stored = pair && (await decode(rebuild, pair))
  if (pair === undefined || stored === undefined) return undefined
  const holding = stored.object.metadata.uid === holder.uid && records(stored, index, value)
  return holding ? { pair, stored } : undefined
}

/** Releases a value from an object that has lost its claim. Does nothing if the object has changed. */
async function letGo(
  rebuild: Rebuild,
  { pair, stored }: Holding,
  index: string,
  value: string,
): Promise<void> {
  const { key, modRevision } = pair
  const { served } = rebuild
  const object = key.slice(served.keyPrefix.length)
  const kept = withPairs(stored.reservations, [{ index, value }], [])
  await write(
    rebuild,
    [{ key, modRevision }],
    [
      { type: 'put', key, value: replaceReservations(pair.value, kept) },
      { type: 'delete', key: reservationKey(served, index, value, object) },
    ],
  )
}

/** Runs one transaction if the record is unchanged. Returns true if it succeeded. */
async function write(
  { storage, record }: Rebuild,
  compares: readonly Compare[],
  onSuccess: readonly Operation[],
): Promise<boolean> {
  const { key, revision: modRevision } = record
  const all = [{ key, modRevision }, ...compares]
  const result = await storage.transact({ compares: all, onSuccess, onFailure: [key] })
  if (!result.succeeded && result.pairs[0]?.modRevision !== modRevision)
    throw new RebuildSupersededError("another server has changed the model's record")
  return result.succeeded
}

/** Returns the values that an object should hold, up to the limit of one object. */
function wantedBy(served: ServedModel, stored: StoredObject): Reservations {
  const { values } = served.indexes.tryValuesOf(stored.object)
  let room = uniqueLimits.valuesPerObject
  return Object.fromEntries(
    Object.entries(reservationsOf(served, values)).flatMap(([index, all]) => {
      const some = all.slice(0, room)
      room -= some.length
      return some.length === 0 ? [] : [[index, some] as const]
    }),
  )
}

type Pairs = readonly { readonly index: string; readonly value: string }[]

function withPairs(reservations: Reservations, released: Pairs, taken: Pairs): Reservations {
  const held = new Map<string, string[]>()
  for (const [index, values] of Object.entries(reservations)) {
    const kept = values.filter(value => !released.some(pair => pair.index === index && pair.value === value))
    if (kept.length > 0) held.set(index, kept)
  }
  for (const { index, value } of taken) {
    const values = held.get(index)
    if (values === undefined) held.set(index, [value])
    else values.push(value)
  }
  return Object.fromEntries(held)
}

/** Returns the stored value with other reservations, and its content unchanged byte for byte. */
function replaceReservations(value: Buffer, reservations: Reservations): Buffer {
  return Buffer.concat([Buffer.from(`${JSON.stringify(reservations)}\n`), objectBytes(value)])
}

async function decode(rebuild: Rebuild, pair: KeyValue): Promise<StoredObject | undefined> {
  return converting(() => decodeOnce(rebuild, pair), rebuild.signal)
}

/** @throws ConversionNeeded */
function decodeOnce({ served, onCorrupt }: Rebuild, pair: KeyValue): StoredObject | undefined {
  const { key, value } = pair
  try {
    const undecryptable = undecrypted(pair)
    if (undecryptable !== undefined) throw undecryptable
    const { object: raw, reservations } = decodeStored(value)
    const { object, failure } = atHub(served, raw)
    if (failure !== undefined) throw failure
    return { object, reservations }
  } catch (error) {
    if (error instanceof ConversionNeeded) throw error
    onCorrupt?.(key, error)
    return undefined
  }
}

function readHolder(value: Buffer): Holder | undefined {
  try {
    return decodeHolder(value)
  } catch {
    return undefined
  }
}

function records(stored: StoredObject, index: string, value: string): boolean {
  return Object.hasOwn(stored.reservations, index) && stored.reservations[index]?.includes(value) === true
}

/** Returns true if an object has recorded that it holds a value, or cannot be decrypted. */
export async function holds(
  storage: Storage,
  served: ServedModel,
  key: ObjectKey,
  uid: string,
  index: string,
  value: string,
): Promise<boolean> {
  const { pair } = await storage.get(served.keyOf(key))
  if (pair === undefined) return false
  // What it holds shows when its key is back.
  if (undecrypted(pair) !== undefined) return true
  const stored = decodeStored(pair.value)
  return stored.object.metadata.uid === uid && records(stored, index, value)
}
