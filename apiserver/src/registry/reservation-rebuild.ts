import type { Revision } from '@setpoint/controller-runtime/api'
import type { ServedModel } from '../model/served-model.ts'
import type { Operation, Storage } from '../storage/index.ts'
import {
  decodeStored,
  encodeObject,
  encodeStored,
  type Reservations,
  type StoredObject,
} from './stored-object.ts'
import {
  decodeHolder,
  encodeHolder,
  reservationKey,
  reservationsOf,
  reservationsWithout,
} from './unique-index.ts'

/** A value that two stored objects have in a unique index: the older one holds it. */
export interface StoredClash {
  readonly index: string
  readonly value: string
  readonly name: string
  readonly holder: string
}

interface Candidate {
  readonly name: string
  readonly createRevision: Revision
}

/**
 * Recomputes what each object of a model holds, after another set of unique indexes has been put in force: from then
 * on no server writes by the old one. The oldest object holds a value that several have; the others keep it without
 * holding it, and stay writable as long as they leave it as it is.
 */
export async function rebuildReservations(
  storage: Storage,
  served: ServedModel,
  signal: AbortSignal,
): Promise<StoredClash[]> {
  const clashes: StoredClash[] = []
  for (const { name } of await oldestFirst(storage, served, signal)) {
    clashes.push(...(await settleObject(storage, served, name, signal)))
  }
  return clashes
}

async function oldestFirst(storage: Storage, served: ServedModel, signal: AbortSignal): Promise<Candidate[]> {
  const candidates: Candidate[] = []
  let revision: Revision | undefined
  let after: string | undefined
  for (;;) {
    const page = await storage.list(served.keyPrefix, {
      signal,
      ...(revision && { revision }),
      ...(after && { after }),
    })
    revision = page.revision
    for (const { key, createRevision } of page.pairs)
      candidates.push({ name: key.slice(served.keyPrefix.length), createRevision })
    after = page.pairs.at(-1)?.key
    if (!page.more || after === undefined) break
  }
  return candidates.sort((a, b) => a.createRevision - b.createRevision)
}

/** Brings the reservations of one object in line, in one transaction; again if it changes meanwhile. */
async function settleObject(
  storage: Storage,
  served: ServedModel,
  name: string,
  signal: AbortSignal,
): Promise<StoredClash[]> {
  const key = served.keyOf(name)
  for (;;) {
    signal.throwIfAborted()
    const { pair } = await storage.get(key, { signal })
    if (pair === undefined) return []
    const stored = decodeStored(pair.value)
    const { held, clashes } = await decideHeld(storage, served, stored, signal)
    const taken = reservationsWithout(held, stored.reservations)
    const released = reservationsWithout(stored.reservations, held)
    if (taken.length === 0 && released.length === 0) return clashes
    const { uid } = stored.object.metadata
    const operations: Operation[] = [
      { type: 'put', key, value: encodeStored(encodeObject(stored.object), held) },
    ]
    for (const { index, value } of taken) {
      operations.push({
        type: 'put',
        key: reservationKey(served, index, value),
        value: encodeHolder({ name, uid, value }),
      })
    }
    for (const { index, value } of released)
      operations.push({ type: 'delete', key: reservationKey(served, index, value) })
    const result = await storage.transact(
      { compares: [{ key, modRevision: pair.modRevision }], onSuccess: operations },
      { signal },
    )
    if (result.succeeded) return clashes
  }
}

async function decideHeld(
  storage: Storage,
  served: ServedModel,
  stored: StoredObject,
  signal: AbortSignal,
): Promise<{ held: Reservations; clashes: StoredClash[] }> {
  const { name, uid } = stored.object.metadata
  const wanted = reservationsOf(served, served.indexes.tryValuesOf(stored.object).values)
  const held: Record<string, string[]> = {}
  const clashes: StoredClash[] = []
  for (const [index, values] of Object.entries(wanted)) {
    for (const value of values) {
      const { pair } = await storage.get(reservationKey(served, index, value), { signal })
      const holder = pair && decodeHolder(pair.value)
      if (
        holder !== undefined &&
        holder.uid !== uid &&
        (await holds(storage, served, holder.name, holder.uid, index, value))
      ) {
        clashes.push({ index, value, name, holder: holder.name })
        continue
      }
      held[index] ??= []
      held[index].push(value)
    }
  }
  return { held, clashes }
}

/** Whether an object has recorded that it holds a value. */
export async function holds(
  storage: Storage,
  served: ServedModel,
  name: string,
  uid: string,
  index: string,
  value: string,
): Promise<boolean> {
  const { pair } = await storage.get(served.keyOf(name))
  const stored = pair && decodeStored(pair.value)
  return stored?.object.metadata.uid === uid && stored.reservations[index]?.includes(value) === true
}
