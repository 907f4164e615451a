import { randomInt } from 'node:crypto'
import {
  ApiError,
  finalizersForDeletion,
  isVersion,
  nameLimits,
  type Revision,
  type StatusCause,
  zeroRevision,
} from '@setpoint/controller-runtime/api'
import type { ServedModel } from '../model/index.ts'
import {
  decodeStored,
  decodeWire,
  encodeObject,
  encodeStored,
  filterReservations,
  joinReservations,
  noReservations,
  objectStart,
  type Reservations,
  reservationsOf,
  reservationsWithout,
  type StoredObject,
  wireBytes,
  wireObject,
} from '../model/index.ts'
import { type Compare, type KeyValue, type Operation, type Storage, storageLimits } from '../storage/index.ts'
import { echo } from './causes.ts'
import {
  type ClientObject,
  checkPreconditions,
  type Draft,
  draftCreation,
  draftDeletionMark,
  draftUpdate,
  preconditionsOf,
  readClientObject,
  type Scope,
} from './object-draft.ts'
import { applyJsonPatch, applyMergePatch } from './patch.ts'
import {
  badRequest,
  conflict,
  fromStorageError,
  invalid,
  nameTaken,
  notFound,
  valuesTaken,
} from './refusals.ts'
import { holds } from './reservation-rebuild.ts'
import { decodeHolder, encodeHolder, reservationKey } from './unique-index.ts'
import { UniqueIndexRecords } from './unique-index-record.ts'
import type { Deletion, Preconditions, WriteOptions, WriteResult } from './write-options.ts'

export const registryDefaults = Object.freeze({
  /** Attempts at one write before it fails with a conflict. Each lost attempt means that another write succeeded. */
  attempts: 50,
  /** Names tried for one generateName, as in Kubernetes. */
  generatedNames: 8,
  /** Characters after a generateName prefix, from Kubernetes' alphabet without vowels and look-alikes. */
  suffixLength: 5,
})

const suffixAlphabet = 'bcdfghjklmnpqrstvwxz2456789'

export type PatchType = 'json' | 'merge'

/** A change of one object. Without `next` it removes the object. */
interface Write {
  readonly served: ServedModel
  readonly name: string
  readonly uid: string
  readonly previous: { readonly revision: Revision; readonly reservations: Reservations } | undefined
  readonly next:
    | {
        readonly json: string
        readonly reservations: Reservations
        /** Values to take if they are free. */
        readonly claims: Reservations
      }
    | undefined
  /** True if the write depends on the model's unique indexes, so that it compares their record. */
  readonly indexed: boolean
}

/** A write that is ready for its first transaction. */
interface ReadyWrite {
  readonly write: Write
  readonly planned: Plan
  /** Undefined if the write does not compare the record of unique indexes. */
  readonly recordRevision: Revision | undefined
}

type Outcome =
  | { readonly stored: true; readonly revision: Revision }
  | { readonly stored: false; readonly current: KeyValue | undefined }

/** An object in the cache, as a write needs it. */
export interface CachedObject {
  readonly revision: Revision
  /** Wire JSON. */
  readonly bytes: Buffer
  /** Index values by position in the model's IndexSet. */
  readonly values: readonly (readonly string[])[]
  /** See `Entry`. */
  readonly storedFormDiffers?: true
}

/** The object that a write starts from. */
interface Current extends StoredObject {
  readonly revision: Revision
  /** Wire JSON. */
  readonly bytes: Buffer
  /** False if it comes from the cache, which may be behind the store. */
  readonly isLive: boolean
}

/** What a write makes of the current object. */
interface Decision {
  readonly draft: Draft
  readonly removes: boolean
}

/**
 * Executes writes. Every request becomes one transaction on the store. It compares the object's revision, the record of
 * unique indexes, and the absence of each unique value that it takes. A write becomes visible when it comes back through
 * the store's log.
 *
 *     cached object ──decide──▶ transaction ──succeeded──▶ done
 *           │                        │ ▲
 *           │ refused, unchanged     │ │ lost the comparison: it returns the live object
 *           ▼                        ▼ │
 *       live object ─────────────▶ decide ──refused, unchanged──▶ done
 *
 * Every refusal rests on a live read of the store, because the cache may be behind. All methods reject with ApiError.
 */
export class Registry {
  readonly records: UniqueIndexRecords
  readonly #storage: Storage
  readonly #now: () => number
  readonly #reservedDomain: string
  readonly #cached: (served: ServedModel, name: string) => CachedObject | undefined

  /** @param options.cached finds an object in the cache. Without it every write starts from a live read. */
  constructor(options: {
    storage: Storage
    reservedDomain: string
    cached?: (served: ServedModel, name: string) => CachedObject | undefined
    now?: () => number
  }) {
    this.#storage = options.storage
    this.#reservedDomain = options.reservedDomain
    this.#cached = options.cached ?? (() => undefined)
    this.#now = options.now ?? Date.now
    this.records = new UniqueIndexRecords(options.storage)
  }

  async create(served: ServedModel, body: unknown, options: WriteOptions): Promise<WriteResult> {
    const client = readClientObject(served, body)
    const { name, generateName } = client.meta
    if (name !== undefined) return this.#createNamed(served, name, client, options)
    if (generateName === undefined) {
      client.causes.add({
        reason: 'FieldValueRequired',
        field: 'metadata.name',
        message: 'name or generateName is required',
      })
      throw invalid(served, '', client.causes)
    }
    for (let tried = 1; ; tried++) {
      const generated =
        generateName.slice(0, nameLimits.name - registryDefaults.suffixLength) + randomSuffix()
      try {
        return await this.#createNamed(served, generated, client, options)
      } catch (error) {
        const clash =
          error instanceof ApiError && error.reason === 'AlreadyExists' && error.details?.causes === undefined
        if (!clash || tried === registryDefaults.generatedNames) throw error
      }
    }
  }

  async #createNamed(
    served: ServedModel,
    name: string,
    client: ClientObject,
    options: WriteOptions,
  ): Promise<WriteResult> {
    const draft = draftCreation(served, name, client, options, {
      now: this.#now(),
      reservedDomain: this.#reservedDomain,
    })
    const { json } = draft
    const write = {
      served,
      name,
      uid: draft.object.metadata.uid,
      previous: undefined,
      next: { json, reservations: draft.reservations, claims: noReservations },
      indexed: true,
    }
    const outcome = await this.#commit(await this.#prepare(write), options)
    if (!outcome.stored) {
      const holder = outcome.current && decodeStored(outcome.current.value).object
      throw nameTaken(served, name, holder?.metadata.deletionTimestamp !== undefined)
    }
    const bytes = options.dryRun
      ? Buffer.from(json)
      : wireBytes(served, name, Buffer.from(json), outcome.revision)
    return { name, bytes, warnings: draft.warnings }
  }

  async replace(
    served: ServedModel,
    name: string,
    body: unknown,
    scope: Scope,
    options: WriteOptions,
  ): Promise<WriteResult> {
    const client = readClientObject(served, body)
    checkBodyName(name, client.meta.name)
    return this.#write(
      served,
      name,
      current => this.#draftUpdate(served, current, client, scope, options),
      options,
    )
  }

  /** Applies a patch to the newest state. Retries after a conflict unless the patch itself carries a version. */
  async patch(
    served: ServedModel,
    name: string,
    patch: { type: PatchType; document: unknown },
    scope: Scope,
    options: WriteOptions,
  ): Promise<WriteResult> {
    const apply = patch.type === 'json' ? applyJsonPatch : applyMergePatch
    return this.#write(
      served,
      name,
      current => {
        const patched = apply(wireObject(served, current.object, current.revision), patch.document)
        const client = readClientObject(served, patched)
        checkBodyName(name, client.meta.name)
        return this.#draftUpdate(served, current, client, scope, options)
      },
      options,
    )
  }

  /** An update removes an object that is being deleted and has no finalizer left. */
  #draftUpdate(
    served: ServedModel,
    current: Current,
    client: ClientObject,
    scope: Scope,
    options: WriteOptions,
  ): Decision | undefined {
    const { name, uid } = current.object.metadata
    checkPreconditions(served, name, preconditionsOf(client.meta), uid, String(current.revision))
    const draft = draftUpdate(served, current, client, scope, options, this.#reservedDomain)
    if (draft === undefined) return undefined
    const { deletionTimestamp, finalizers } = draft.object.metadata
    return { draft, removes: deletionTimestamp !== undefined && finalizers === undefined }
  }

  /**
   * Removes an object, or marks it as deleted while it has finalizers. The policy of the first deletion stands.
   */
  async delete(
    served: ServedModel,
    name: string,
    deletion: Deletion,
    options: WriteOptions,
  ): Promise<WriteResult> {
    return this.#write(
      served,
      name,
      current => {
        const { object, reservations } = current
        const { metadata } = object
        checkPreconditions(served, name, deletion, metadata.uid, String(current.revision))
        if (metadata.deletionTimestamp !== undefined) return undefined
        const finalizers = finalizersForDeletion(metadata.finalizers, deletion.propagation)
        if (finalizers.length > 0)
          return { draft: draftDeletionMark(current, finalizers, this.#now()), removes: false }
        const draft = { object, json: encodeObject(object), reservations, isIndexed: false, warnings: [] }
        return { draft, removes: true }
      },
      options,
    )
  }

  /**
   * Changes an object in one transaction. Starts from the cached object, and decides again on the live one if the cached
   * one leads to no transaction or the transaction loses the comparison.
   * The errors of a transaction are final: one with an unknown outcome must not be sent again.
   * @param decide returns undefined if nothing changes, and throws to refuse
   */
  async #write(
    served: ServedModel,
    name: string,
    decide: (current: Current) => Decision | undefined,
    options: WriteOptions,
  ): Promise<WriteResult> {
    const cached = this.#cached(served, name)
    let current = cached && fromCache(served, cached)
    current ??= await this.#read(served, name, options)
    for (let attempt = 1; ; attempt++) {
      if (current === undefined) throw notFound(served, name)
      let decision: Decision | undefined
      let ready: ReadyWrite | undefined
      try {
        decision = decide(current)
        ready = decision && (await this.#prepare(toWrite(served, name, current, decision)))
      } catch (error) {
        if (current.isLive) throw error
        const live: Current | undefined = await this.#read(served, name, options)
        // The cache was current, so the refusal stands and a plugin's functions do not run twice.
        if (live?.revision === current.revision) throw error
        current = live
        continue
      }
      if (decision === undefined || ready === undefined) {
        if (current.isLive) return { name, bytes: current.bytes, warnings: [] }
        current = await this.#read(served, name, options)
        continue
      }
      const outcome = await this.#commit(ready, options)
      if (outcome.stored) {
        const { json, warnings } = decision.draft
        const revision = options.dryRun ? current.revision : outcome.revision
        return { name, bytes: wireBytes(served, name, Buffer.from(json), revision), warnings }
      }
      if (attempt === registryDefaults.attempts)
        throw conflict(served, name, 'the object keeps changing; try again')
      current = toCurrent(served, name, outcome.current)
    }
  }

  /** Reads an object from the store, not from the cache. */
  async readLive(
    served: ServedModel,
    name: string,
  ): Promise<{ bytes: Buffer; stored: StoredObject } | undefined> {
    const current = await this.#read(served, name, {})
    if (current === undefined) return undefined
    return { bytes: current.bytes, stored: current }
  }

  /** Returns the name of the object that holds a value of a unique index. */
  async holderOf(served: ServedModel, index: string, value: string): Promise<string | undefined> {
    const { pair } = await guarded(this.#storage.get(reservationKey(served, index, value)))
    return pair && decodeHolder(pair.value).name
  }

  async #read(
    served: ServedModel,
    name: string,
    options: { signal?: AbortSignal },
  ): Promise<Current | undefined> {
    const { pair } = await guarded(this.#storage.get(served.keyOf(name), options))
    return toCurrent(served, name, pair)
  }

  /** @throws ApiError 413 if the object is too large, 503 if the write needs unique indexes that are not in force */
  async #prepare(write: Write): Promise<ReadyWrite> {
    const planned = planReservations(write)
    const recordRevision = write.indexed ? await guarded(this.records.revision(write.served)) : undefined
    return { write, planned, recordRevision }
  }

  /**
   * Runs one write as one transaction. Retries only after a stale record of unique indexes or an orphaned reservation.
   * @returns the current object if it is not the one that the write started from
   */
  async #commit(ready: ReadyWrite, options: WriteOptions): Promise<Outcome> {
    const { write } = ready
    const { served, name, uid, previous } = write
    const key = served.keyOf(name)
    const recordKey = this.records.keyOf(served)
    let { planned, recordRevision } = ready
    const staleReservations = new Map<string, Revision>()
    for (let attempt = 1; ; attempt++) {
      const compares: Compare[] = [{ key, modRevision: previous?.revision ?? zeroRevision }]
      if (recordRevision !== undefined) compares.push({ key: recordKey, modRevision: recordRevision })
      for (const reservation of planned.taken) {
        compares.push({
          key: reservation.key,
          modRevision: staleReservations.get(reservation.key) ?? zeroRevision,
        })
      }
      const operations: Operation[] = []
      if (!options.dryRun) {
        const { value } = planned
        operations.push(value === undefined ? { type: 'delete', key } : { type: 'put', key, value })
        for (const reservation of planned.taken) {
          operations.push({
            type: 'put',
            key: reservation.key,
            value: encodeHolder({ name, uid, value: reservation.value }),
          })
        }
        for (const { index, value: old } of planned.released)
          operations.push({ type: 'delete', key: reservationKey(served, index, old) })
      }
      const onFailure = compares.map(compare => compare.key)
      const call = options.signal === undefined ? {} : { signal: options.signal }
      const result = await guarded(
        this.#storage.transact({ compares, onSuccess: operations, onFailure }, call),
      )
      if (result.succeeded) return { stored: true, revision: result.revision }
      const now = new Map(
        result.pairs.flatMap(pair => (pair === undefined ? [] : [[pair.key, pair] as const])),
      )
      const current = now.get(key)
      if ((current?.modRevision ?? zeroRevision) !== (previous?.revision ?? zeroRevision))
        return { stored: false, current }
      if (attempt === registryDefaults.attempts)
        throw conflict(served, name, 'its unique values keep changing hands; try again')
      if (recordRevision !== undefined && now.get(recordKey)?.modRevision !== recordRevision) {
        recordRevision = await guarded(this.records.refresh(served))
      }
      const lost = await this.#checkHolders(write, planned.taken, now, staleReservations)
      if (lost.size > 0) {
        const claims = filterReservations(
          planned.claims,
          (index, value) => !lost.has(reservationKey(served, index, value)),
        )
        planned = planReservations(write, claims)
      }
    }
  }

  /**
   * Checks the reservations that made the transaction fail. A reservation that its holder has not recorded is orphaned
   * and may be taken over, at the revision seen.
   * @returns the keys of claimed values that other objects hold
   * @throws ApiError 409 with index, value and holder, if another object holds a required value
   */
  async #checkHolders(
    write: Write,
    taken: readonly PlannedReservation[],
    now: ReadonlyMap<string, KeyValue>,
    stale: Map<string, Revision>,
  ): Promise<ReadonlySet<string>> {
    const { served } = write
    const causes: StatusCause[] = []
    const lost = new Set<string>()
    for (const { index, value, key, claimed } of taken) {
      const pair = now.get(key)
      if (pair === undefined) {
        stale.delete(key)
        continue
      }
      const holder = decodeHolder(pair.value)
      const held =
        holder.uid !== write.uid &&
        (await guarded(holds(this.#storage, served, holder.name, holder.uid, index, value)))
      if (held && claimed) lost.add(key)
      else if (held) {
        const message = `the value ${JSON.stringify(echo(value))} of the unique index ${index} is held by ${JSON.stringify(holder.name)}`
        causes.push({ reason: 'FieldValueDuplicate', field: index, message })
      } else stale.set(key, pair.modRevision)
    }
    if (causes.length > 0) throw valuesTaken(served, write.name, causes)
    return lost
  }
}

interface PlannedReservation {
  readonly index: string
  readonly value: string
  readonly key: string
  /** True if the write can do without the value when another object holds it. */
  readonly claimed: boolean
}

/** The stored form of a write, and the reservations that it takes and releases. */
interface Plan {
  readonly value: Buffer | undefined
  readonly claims: Reservations
  readonly taken: readonly PlannedReservation[]
  readonly released: readonly { index: string; value: string }[]
}

/** @throws ApiError 413 if the value is too large for the store */
function planReservations(write: Write, claims = write.next?.claims ?? noReservations): Plan {
  const { served, previous, next } = write
  const before = previous?.reservations ?? noReservations
  const needed = next?.reservations ?? noReservations
  const after = joinReservations(needed, claims)
  const planned = (pairs: readonly { index: string; value: string }[], claimed: boolean) =>
    pairs.map(pair => ({ ...pair, claimed, key: reservationKey(served, pair.index, pair.value) }))
  const value = next && encodeStored(next.json, after)
  if (value !== undefined && value.length > storageLimits.valueBytes) {
    // Optional claims must not make the value too large.
    if (claims !== noReservations) return planReservations(write, noReservations)
    throw new ApiError(
      'RequestEntityTooLarge',
      `the object is ${value.length} bytes, at most ${storageLimits.valueBytes} can be stored`,
    )
  }
  return {
    value,
    claims,
    taken: [
      ...planned(reservationsWithout(needed, before), false),
      ...planned(reservationsWithout(claims, before), true),
    ],
    released: reservationsWithout(before, after),
  }
}

/** Converts the store's errors to ApiErrors. */
async function guarded<T>(call: Promise<T>): Promise<T> {
  try {
    return await call
  } catch (error) {
    throw fromStorageError(error)
  }
}

function toCurrent(served: ServedModel, name: string, pair: KeyValue | undefined): Current | undefined {
  if (pair === undefined) return undefined
  const { value, modRevision: revision } = pair
  const bytes = wireBytes(served, name, value, revision, objectStart(value))
  return { ...decodeStored(value), revision, bytes, isLive: true }
}

/** Returns undefined if the cache does not tell the stored form. */
function fromCache(served: ServedModel, cached: CachedObject): Current | undefined {
  if (cached.storedFormDiffers) return undefined
  const { bytes, revision, values } = cached
  const object = decodeWire(bytes)
  return { object, reservations: reservationsOf(served, values), revision, bytes, isLive: false }
}

function toWrite(
  served: ServedModel,
  name: string,
  { revision, reservations }: Current,
  { draft, removes }: Decision,
): Write {
  const { json, claims = noReservations } = draft
  return {
    served,
    name,
    uid: draft.object.metadata.uid,
    previous: { revision, reservations },
    next: removes ? undefined : { json, reservations: draft.reservations, claims },
    // Releasing values, or keeping the recorded ones, does not depend on the indexes in force.
    indexed: !removes && draft.isIndexed,
  }
}

function checkBodyName(name: string, given: string | undefined): void {
  if (given !== undefined && given !== name) {
    throw badRequest(
      `metadata.name ${JSON.stringify(echo(given))} differs from the name in the path, ${JSON.stringify(name)}`,
    )
  }
}

function randomSuffix(): string {
  let suffix = ''
  for (let i = 0; i < registryDefaults.suffixLength; i++)
    suffix += suffixAlphabet[randomInt(suffixAlphabet.length)]
  return suffix
}

/** Reads preconditions of a DELETE. @throws ApiError 400 for a version that is not a number */
export function deletePreconditions(given: { uid?: string; versions: readonly string[] }): Preconditions {
  for (const version of given.versions) {
    if (!isVersion(version))
      throw badRequest(`the version ${JSON.stringify(echo(version))} is not a decimal number`)
  }
  return given.uid === undefined ? { versions: given.versions } : given
}
