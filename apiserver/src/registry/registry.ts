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
import type { ServedModel } from '../model/served-model.ts'
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
import {
  decodeStored,
  encodeObject,
  encodeStored,
  noReservations,
  type Reservations,
  type StoredObject,
  wireBytes,
} from './stored-object.ts'
import {
  decodeHolder,
  encodeHolder,
  filterReservations,
  joinReservations,
  reservationKey,
  reservationsWithout,
} from './unique-index.ts'
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

/** A write that is ready to be stored. Without `next` it removes the object. */
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

type Outcome =
  | { readonly stored: true; readonly revision: Revision }
  | { readonly stored: false; readonly current: KeyValue | undefined }

interface Current {
  readonly stored: StoredObject
  readonly revision: Revision
  readonly value: Buffer
}

/**
 * Executes writes. Every request becomes one transaction on the store. It compares the object's revision, the record of
 * unique indexes, and the absence of each unique value that it takes. A write becomes visible when it comes back through
 * the store's log.
 *
 * Every refusal rests on a live read of the store, because the cache may be behind. All methods reject with ApiError.
 */
export class Registry {
  readonly records: UniqueIndexRecords
  readonly #storage: Storage
  readonly #now: () => number
  readonly #reservedDomain: string

  constructor(options: { storage: Storage; reservedDomain: string; now?: () => number }) {
    this.#storage = options.storage
    this.#reservedDomain = options.reservedDomain
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
    const outcome = await this.#commit(write, options)
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
    return this.#update(served, name, () => client, scope, options)
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
    return this.#update(
      served,
      name,
      current => {
        const patched = apply(parseWire(served, name, current), patch.document)
        const client = readClientObject(served, patched)
        checkBodyName(name, client.meta.name)
        return client
      },
      scope,
      options,
    )
  }

  async #update(
    served: ServedModel,
    name: string,
    makeClient: (current: Current) => ClientObject,
    scope: Scope,
    options: WriteOptions,
  ): Promise<WriteResult> {
    let current = await this.#read(served, name, options)
    for (let attempt = 1; ; attempt++) {
      if (current === undefined) throw notFound(served, name)
      const client = makeClient(current)
      const { metadata } = current.stored.object
      checkPreconditions(served, name, preconditionsOf(client.meta), metadata.uid, String(current.revision))
      const draft = draftUpdate(served, current.stored, client, scope, options, this.#reservedDomain)
      if (draft === undefined) return this.#unchanged(served, name, current)
      const outcome = await this.#store(served, name, current, draft, options)
      if (outcome.stored)
        return this.#updated(
          served,
          name,
          draft,
          outcome.revision,
          options.dryRun ? current.revision : undefined,
        )
      if (attempt === registryDefaults.attempts)
        throw conflict(served, name, 'the object keeps changing; try again')
      current = toCurrent(outcome.current)
    }
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
    let current = await this.#read(served, name, options)
    for (let attempt = 1; ; attempt++) {
      if (current === undefined) throw notFound(served, name)
      const { object, reservations } = current.stored
      checkPreconditions(served, name, deletion, object.metadata.uid, String(current.revision))
      if (object.metadata.deletionTimestamp !== undefined) return this.#unchanged(served, name, current)
      const finalizers = finalizersForDeletion(object.metadata.finalizers, deletion.propagation)
      if (finalizers.length > 0) {
        const draft = draftDeletionMark(current.stored, finalizers, this.#now())
        const outcome = await this.#store(served, name, current, draft, options)
        if (outcome.stored)
          return this.#updated(
            served,
            name,
            draft,
            outcome.revision,
            options.dryRun ? current.revision : undefined,
          )
        current = toCurrent(outcome.current)
      } else {
        const previous = { revision: current.revision, reservations }
        const write = { served, name, uid: object.metadata.uid, previous, next: undefined, indexed: false }
        const outcome = await this.#commit(write, options)
        if (outcome.stored) {
          const draft = { object, json: encodeObject(object), reservations, warnings: [] }
          return this.#updated(
            served,
            name,
            draft,
            outcome.revision,
            options.dryRun ? current.revision : undefined,
          )
        }
        current = toCurrent(outcome.current)
      }
      if (attempt === registryDefaults.attempts)
        throw conflict(served, name, 'the object keeps changing; try again')
    }
  }

  /** Reads an object from the store, not from the cache. */
  async readLive(
    served: ServedModel,
    name: string,
  ): Promise<{ bytes: Buffer; stored: StoredObject } | undefined> {
    const current = await this.#read(served, name, {})
    if (current === undefined) return undefined
    return { bytes: this.#unchanged(served, name, current).bytes, stored: current.stored }
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
    return toCurrent(pair)
  }

  /** Replaces the current object by a draft. Removes it if it is being deleted and has no finalizer left. */
  #store(
    served: ServedModel,
    name: string,
    current: Current,
    draft: Draft,
    options: WriteOptions,
  ): Promise<Outcome> {
    const { metadata } = draft.object
    const removed = metadata.deletionTimestamp !== undefined && metadata.finalizers === undefined
    return this.#commit(
      {
        served,
        name,
        uid: metadata.uid,
        previous: { revision: current.revision, reservations: current.stored.reservations },
        next: removed
          ? undefined
          : {
              json: draft.json,
              reservations: draft.reservations,
              claims: draft.claims ?? noReservations,
            },
        // Releasing values, or keeping the recorded ones, does not depend on the indexes in force.
        indexed: !removed && draft.reservations !== current.stored.reservations,
      },
      options,
    )
  }

  #unchanged(served: ServedModel, name: string, current: Current): WriteResult {
    const json = current.value.subarray(current.value.indexOf(0x0a) + 1)
    return { name, bytes: wireBytes(served, name, json, current.revision), warnings: [] }
  }

  #updated(
    served: ServedModel,
    name: string,
    draft: Draft,
    revision: Revision,
    kept: Revision | undefined,
  ): WriteResult {
    const json = Buffer.from(draft.json)
    return { name, bytes: wireBytes(served, name, json, kept ?? revision), warnings: draft.warnings }
  }

  /**
   * Runs one write as one transaction. Retries only after a stale record of unique indexes or an orphaned reservation.
   * @returns the current object if it is not the one that the write started from
   */
  async #commit(write: Write, options: WriteOptions): Promise<Outcome> {
    const { served, name, uid, previous, next } = write
    const key = served.keyOf(name)
    const before = previous?.reservations ?? noReservations
    let planned = planReservations(served, before, next, next?.claims ?? noReservations)
    const recordKey = this.records.keyOf(served)
    let recordRevision = write.indexed ? await guarded(this.records.revision(served)) : undefined
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
        planned = planReservations(served, before, next, claims)
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

/**
 * Returns the stored form of a write, and the reservations that it takes and releases.
 * @throws ApiError 413 if the value is too large for the store
 */
function planReservations(
  served: ServedModel,
  before: Reservations,
  next: Write['next'],
  claims: Reservations,
): {
  value: Buffer | undefined
  claims: Reservations
  taken: readonly PlannedReservation[]
  released: readonly { index: string; value: string }[]
} {
  const needed = next?.reservations ?? noReservations
  const after = joinReservations(needed, claims)
  const planned = (pairs: readonly { index: string; value: string }[], claimed: boolean) =>
    pairs.map(pair => ({ ...pair, claimed, key: reservationKey(served, pair.index, pair.value) }))
  const value = next && encodeStored(next.json, after)
  if (value !== undefined && value.length > storageLimits.valueBytes) {
    // Optional claims must not make the value too large.
    if (claims !== noReservations) return planReservations(served, before, next, noReservations)
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

function toCurrent(pair: KeyValue | undefined): Current | undefined {
  return pair && { stored: decodeStored(pair.value), revision: pair.modRevision, value: pair.value }
}

/** Decodes the object in its wire form, which patches apply to. */
function parseWire(served: ServedModel, name: string, current: Current): unknown {
  const json = current.value.subarray(current.value.indexOf(0x0a) + 1)
  return JSON.parse(wireBytes(served, name, json, current.revision).toString())
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
