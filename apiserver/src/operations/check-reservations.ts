import { isRecord, type Revision, zeroRevision } from '@setpoint/controller-runtime/api'
import { objectsPrefix } from '../model/index.ts'
import {
  decodeHolder,
  decodeRecord,
  encodeHolder,
  type Holder,
  recordsPrefix,
  reservationKey,
  reservationsPrefix,
} from '../registry/index.ts'
import type { KeyValue, Operation, Storage } from '../storage/index.ts'
import { type ReadObject, readObject } from './check-object.ts'
import { inBatches, readTogether } from './check-reads.ts'
import { checkDefaults, type Findings } from './check-report.ts'

/** A value that an object has recorded. */
export interface RecordedValue {
  /** `<group>/<plural>` */
  readonly resource: string
  /** The object's key below that of its kind, and its uid. */
  readonly name: string
  readonly uid: string
  readonly index: string
  readonly value: string
}

interface Parts {
  readonly storage: Storage
  readonly findings: Findings
  readonly repair: boolean
  readonly signal: AbortSignal
}

/**
 * Compares the values that objects have recorded with the keys that reserve them, both ways. Pages of a walk show
 * different revisions while servers write, so each suspicion is decided by one read of all keys that it concerns. So is
 * each repair, which compares the revisions of that read.
 */
export class ReservationCheck {
  readonly #parts: Parts

  constructor(parts: Parts) {
    this.#parts = parts
  }

  /** Checks that each recorded value is reserved for its object. */
  async checkRecorded(values: readonly RecordedValue[]): Promise<void> {
    const { storage, signal } = this.#parts
    await inBatches(values, checkDefaults.reservations, async batch => {
      const pairs = await readTogether(storage, batch.map(keyOf), signal)
      for (const [at, value] of batch.entries()) {
        const pair = pairs[at]
        if (pair === undefined || !isFor(readHolder(pair.value), value)) await this.#decideRecorded(value)
      }
    })
  }

  /** Checks that each reservation is recorded by the object that it names. */
  async checkReservations(pairs: readonly KeyValue[]): Promise<void> {
    const { storage, signal } = this.#parts
    const named = pairs.flatMap(pair => {
      const holder = readHolder(pair.value)
      return holder === undefined ? [] : [{ pair, holder }]
    })
    for (const pair of pairs)
      if (readHolder(pair.value) === undefined) await this.#decideReservation(pair.key)
    await inBatches(named, checkDefaults.objects, async batch => {
      const objects = await readTogether(storage, [...new Set(batch.map(objectKeyOf))], signal)
      const byKey = new Map(objects.flatMap(object => (object ? [[object.key, object] as const] : [])))
      for (const each of batch) {
        const object = byKey.get(objectKeyOf(each))
        if (object === undefined || !records(each.pair.key, each.holder, object))
          await this.#decideReservation(each.pair.key)
      }
    })
  }

  async #decideRecorded(recorded: RecordedValue): Promise<void> {
    const { storage, signal, findings } = this.#parts
    const { resource, name, uid, index } = recorded
    const [objectKey, key] = [`${objectsPrefix}${resource}/${name}`, keyOf(recorded)]
    for (;;) {
      const before = (await storage.get(key, { signal })).pair
      const named = before && readHolder(before.value)
      const other = named === undefined ? objectKey : `${objectsPrefix}${resource}/${named.name}`
      const recordKey = recordsPrefix + resource
      const keys = [...new Set([objectKey, key, recordKey, other])]
      const read = new Map(
        (await readTogether(storage, keys, signal)).flatMap(pair => (pair ? [[pair.key, pair]] : [])),
      )
      const [object, reservation, record] = [read.get(objectKey), read.get(key), read.get(recordKey)]
      // The reservation names another object now: read that one.
      if (reservation?.modRevision !== before?.modRevision) continue
      if (object === undefined || !records(key, { name, uid }, object)) return
      if (isFor(named, recorded)) return
      // A server computes the reservations of this kind just now.
      if (record === undefined || decodeRecord(record.value)?.recomputing !== false) return
      const holder = read.get(other)
      if (named !== undefined && holder !== undefined && records(key, named, holder)) {
        findings.add('value held twice', objectKey, `its value of ${index} is also held by ${named.name}`)
        return
      }
      const put: Operation = { type: 'put', key, value: encodeHolder({ name, uid }) }
      const repaired = await this.#repair([object, record], key, reservation, put)
      if (repaired === 'changed') continue
      findings.add('missing reservation', objectKey, `nothing reserves its value of ${index}`, repaired)
      return
    }
  }

  async #decideReservation(key: string): Promise<void> {
    const { storage, signal, findings } = this.#parts
    for (;;) {
      const before = (await storage.get(key, { signal })).pair
      if (before === undefined) return
      const holder = readHolder(before.value)
      const objectKey = holder && objectKeyOf({ pair: before, holder })
      const read = await readTogether(storage, objectKey === undefined ? [key] : [key, objectKey], signal)
      const [reservation, object] = read
      if (reservation?.modRevision !== before.modRevision) continue
      if (holder !== undefined && object !== undefined && records(key, holder, object)) return
      // It may hold the value: the object has to be repaired first.
      if (
        holder !== undefined &&
        object !== undefined &&
        typeof readObject(holder.name, object.value) === 'string'
      )
        return
      // The object must stay as it is, or absent.
      const unchanged =
        object ?? (objectKey === undefined ? undefined : { key: objectKey, modRevision: zeroRevision })
      const repaired = await this.#repair(unchanged ? [unchanged] : [], key, reservation, {
        type: 'delete',
        key,
      })
      if (repaired === 'changed') continue
      if (holder === undefined)
        findings.add('malformed reservation', key, 'it does not name an object', repaired)
      else findings.add('orphaned reservation', key, `${holder.name} does not hold this value`, repaired)
      return
    }
  }

  /** Changes a reservation, if this is a repair and nothing has changed. Returns true if it is repaired. */
  async #repair(
    unchanged: readonly { readonly key: string; readonly modRevision: Revision }[],
    key: string,
    reservation: KeyValue | undefined,
    operation: Operation,
  ): Promise<boolean | 'changed'> {
    const { storage, repair, signal } = this.#parts
    if (!repair) return false
    const compares = [
      ...unchanged.map(({ key, modRevision }) => ({ key, modRevision })),
      { key, modRevision: reservation?.modRevision ?? zeroRevision },
    ]
    const { succeeded } = await storage.transact({ compares, onSuccess: [operation] }, { signal })
    return succeeded ? true : 'changed'
  }
}

function keyOf({ resource, index, value, name }: RecordedValue): string {
  return reservationKey({ resource }, index, value, name)
}

/** `unique/<group>/<plural>/…` is of the kind `<group>/<plural>`. */
function objectKeyOf({ pair, holder }: { readonly pair: KeyValue; readonly holder: Holder }): string {
  const [group = '', plural = ''] = pair.key.slice(reservationsPrefix.length).split('/', 2)
  return `${objectsPrefix}${group}/${plural}/${holder.name}`
}

function readHolder(value: Buffer): Holder | undefined {
  try {
    const holder: unknown = decodeHolder(value)
    if (!isRecord(holder)) return undefined
    const { name, uid } = holder
    return typeof name === 'string' && typeof uid === 'string' ? { name, uid } : undefined
  } catch {
    return undefined
  }
}

function isFor(holder: Holder | undefined, { name, uid }: RecordedValue): boolean {
  return holder?.name === name && holder.uid === uid
}

/** Returns true if an object has recorded the value that a key reserves for it. */
function records(key: string, { name, uid }: Holder, object: KeyValue): boolean {
  const [group = '', plural = ''] = key.slice(reservationsPrefix.length).split('/', 2)
  const resource = `${group}/${plural}`
  const read: ReadObject | string = readObject(name, object.value)
  if (typeof read === 'string' || read.uid !== uid) return false
  return Object.entries(read.reservations).some(([index, values]) =>
    values.some(value => reservationKey({ resource }, index, value, name) === key),
  )
}
