import type { ObjectKey, Revision } from '@setpoint/controller-runtime/api'
import type { ServedModel, ServedVersion } from '../model/index.ts'
import {
  atHub,
  ConversionError,
  contentBytes,
  converting,
  decodeStored,
  decodeWire,
  encodeObject,
  noReservations,
  objectStart,
  type PackedValues,
  reservationsOf,
  type StoredObject,
  storedJson,
  unpackValues,
  type WireVersion,
  wireBytes,
  wireVersionOf,
} from '../model/index.ts'
import { type KeyValue, type Storage, undecrypted } from '../storage/index.ts'
import type { Draft } from './object-draft.ts'
import { checkPreconditions } from './preconditions.ts'
import { conflict, notFound, stillReadable, unreadable, withApiErrors } from './refusals.ts'
import { timed } from './timed.ts'
import { isLarge, nextTurn } from './turns.ts'
import type { Contention, WriteAttempts } from './write-attempts.ts'
import type { Preconditions, WriteOptions, WriteResult } from './write-options.ts'
import type { Write } from './write-plan.ts'
import type { ReadyWrite, WriteTransactions } from './write-transaction.ts'

/** An object in the cache, as a write needs it. */
interface CachedObject {
  readonly revision: Revision
  /** Wire JSON. */
  readonly bytes: Buffer
  readonly values: PackedValues
  /** See `Entry`. */
  readonly storedFormDiffers?: true
}

/** Finds an object in the cache. */
export type CacheLookup = (served: ServedModel, key: ObjectKey) => CachedObject | undefined

/** The object that a write starts from. */
export interface Current extends StoredObject {
  readonly revision: Revision
  /** Wire JSON. */
  readonly bytes: Buffer
  /** False if it comes from the cache, which may be behind the store. */
  readonly isLive: boolean
}

/** What a write makes of the current object. */
export interface Decision {
  readonly draft: Draft
  readonly removes: boolean
}

/**
 * Changes existing objects:
 *
 *     cached object ──decide──▶ transaction ──succeeded──▶ done
 *           │                        │ ▲
 *           │ refused, unchanged     │ │ lost the comparison: it returns the live object
 *           ▼                        ▼ │
 *       live read ──other revision──▶ decide ──refused, unchanged──▶ done
 *           └───────same revision──▶ done
 *
 * A change that has lost twice waits, and then starts again (`write-attempts.ts`).
 *
 * Every refusal rests on a live read of the store, because the cache may be behind. One that was decided on the cached
 * object stands if the store has the same revision. All methods reject with ApiError.
 */
export class CommitLoop {
  readonly #storage: Storage
  readonly #transactions: WriteTransactions
  readonly #contention: Contention
  readonly #cached: CacheLookup

  constructor(
    storage: Storage,
    transactions: WriteTransactions,
    contention: Contention,
    cached: CacheLookup,
  ) {
    this.#storage = storage
    this.#transactions = transactions
    this.#contention = contention
    this.#cached = cached
  }

  /**
   * Changes an object in one transaction. Starts from the cached object, and decides again on the live one if the
   * cached one leads to no transaction or the transaction loses the comparison. The errors of a transaction are final:
   * one with an unknown outcome must not be sent again.
   * @param decide returns undefined if nothing changes, and throws to refuse. For a large object its steps have a turn
   * of
   *   the event loop each
   * @param how.isConditional true if the request names the version that it changes. It waits for no other write,
   * because
   *   that would make it fail
   * @param how.attempts the attempts of the same request so far. Default: none
   * @param how.converts false if the write must not wait for conversions of what is stored. Default true
   * @throws ApiError 429 if other writes always come first
   */
  async run(
    served: ServedModel,
    key: ObjectKey,
    decide: (current: Current) => Decision | undefined | Promise<Decision | undefined>,
    options: WriteOptions,
    how: { readonly isConditional: boolean; readonly attempts?: WriteAttempts; readonly converts?: boolean },
  ): Promise<WriteResult> {
    const { isConditional, attempts = this.#contention.begin(served, key, options), converts = true } = how
    try {
      if (!isConditional && attempts.isContended) await attempts.again()
      return await this.#run(served, key, decide, options, { isConditional, converts }, attempts)
    } finally {
      attempts.end()
    }
  }

  async #run(
    served: ServedModel,
    key: ObjectKey,
    decide: (current: Current) => Decision | undefined | Promise<Decision | undefined>,
    options: WriteOptions,
    { isConditional, converts }: { readonly isConditional: boolean; readonly converts: boolean },
    attempts: WriteAttempts,
  ): Promise<WriteResult> {
    const { version = served.hub, signal } = options
    const name = served.nameIn(key)
    const toLive = (pair: KeyValue | undefined) =>
      converting(() => toCurrent(served, key, pair, converts), signal)
    const read = async () => this.#readCached(served, key) ?? toLive(await this.#pairOf(served, key, options))
    let current = await read()
    let hasLost = false
    for (;;) {
      if (current === undefined) throw notFound(served, key)
      let decision: Decision | undefined
      let ready: ReadyWrite | undefined
      let shown: Shown | undefined
      let refusal: { readonly error: unknown } | undefined
      try {
        if (isLarge(current.bytes)) await nextTurn()
        decision = await decide(current)
        const draft = decision?.draft
        shown = draft && (await converting(() => showIn(served, version, draft), signal))
        ready =
          decision &&
          (await this.#transactions.prepare(toWrite(served, key, current, decision, options), options))
      } catch (error) {
        refusal = { error }
      }
      if (decision === undefined || ready === undefined || shown === undefined) {
        if (!current.isLive) {
          const live = await this.#pairOf(served, key, options)
          // A plugin's functions do not run twice for one state.
          if (live?.modRevision !== current.revision) {
            current = await toLive(live)
            continue
          }
        }
        if (refusal !== undefined) throw refusal.error
        return { key, bytes: await bytesIn(served, version, name, current, signal), warnings: [] }
      }
      const outcome = await this.#transactions.commit(ready, options, attempts)
      if (outcome.stored) {
        const { warnings } = decision.draft
        const revision = options.dryRun ? current.revision : outcome.revision
        const bytes = wireBytes(shown.version, name, Buffer.from(shown.json), revision)
        return { key, bytes, warnings, ...(decision.removes && { isRemoved: true }) }
      }
      if (hasLost && !isConditional) {
        await attempts.again()
        current = await read()
      } else current = await toLive(outcome.current)
      hasLost = !hasLost
    }
  }

  #readCached(served: ServedModel, key: ObjectKey): Current | undefined {
    const cached = this.#cached(served, key)
    return cached && fromCache(served, cached)
  }

  /** Reads an object from the store, not from the cache. */
  async read(
    served: ServedModel,
    key: ObjectKey,
    options: Pick<WriteOptions, 'signal' | 'times'>,
  ): Promise<Current | undefined> {
    const pair = await this.#pairOf(served, key, options)
    return converting(() => toCurrent(served, key, pair), options.signal)
  }

  /**
   * Removes an object whose stored value cannot be read, with whatever finalizers it has. What it holds in unique
   * indexes is free again, because nothing records it.
   * @throws ApiError 404; 409; 422 if it can be read, so that its finalizers count
   */
  async removeUnreadable(
    served: ServedModel,
    key: ObjectKey,
    { uid, ...wanted }: Preconditions,
    options: WriteOptions,
  ): Promise<void> {
    for (;;) {
      const pair = await this.#pairOf(served, key, options)
      if (pair === undefined) throw notFound(served, key)
      if (isReadable(served, key, pair)) throw stillReadable(served, key)
      if (uid !== undefined)
        throw conflict(served, key, 'its uid cannot be read: take it out of the preconditions')
      const { key: storeKey, modRevision } = pair
      checkPreconditions(served, key, wanted, '', String(modRevision))
      if (options.dryRun) return
      const removal = this.#storage.transact(
        {
          compares: [{ key: storeKey, modRevision }],
          onSuccess: [{ type: 'delete', key: storeKey }],
        },
        options,
      )
      if ((await withApiErrors(removal)).succeeded) return
    }
  }

  async #pairOf(
    served: ServedModel,
    key: ObjectKey,
    { signal, times }: Pick<WriteOptions, 'signal' | 'times'>,
  ): Promise<KeyValue | undefined> {
    const found = timed(times, 'storeMs', this.#storage.get(served.keyOf(key), { signal }))
    return (await withApiErrors(found)).pair
  }
}

/** An object's JSON in the version of a response. */
interface Shown {
  readonly version: WireVersion
  readonly json: string
}

/**
 * Returns what a response shows of a write. It is converted before the write, so that a failure stores nothing. No
 * conversion blocks a deletion or the removal of finalizers: if it fails, those show the hub, or else the version that
 * the object is stored in.
 * @throws ConversionError; ConversionNeeded
 */
export function showIn(
  served: ServedModel,
  version: ServedVersion,
  { object, json, isIndexed }: Pick<Draft, 'object' | 'json' | 'isIndexed'>,
): Shown {
  if (object.apiVersion === version.apiVersion) return { version, json }
  const asItIs = { version: wireVersionOf(object.apiVersion, object.kind), json }
  if (object.apiVersion !== served.hub.apiVersion) return asItIs
  try {
    return { version, json: encodeObject(version.fromHub(object)) }
  } catch (error) {
    if (isIndexed || !(error instanceof ConversionError)) throw error
    return asItIs
  }
}

async function bytesIn(
  served: ServedModel,
  version: ServedVersion,
  name: string,
  { object, bytes, revision }: Current,
  signal: AbortSignal | undefined,
): Promise<Buffer> {
  if (version.isHub) return bytes
  const unchanged = { object, json: encodeObject(object), isIndexed: false }
  const shown = await converting(() => showIn(served, version, unchanged), signal)
  return wireBytes(shown.version, name, Buffer.from(shown.json), revision)
}

/**
 * @param converts false if an object counts as one that cannot be converted unless its conversion is known
 * @throws ApiError 500 if the stored value cannot be read; ConversionNeeded
 */
function toCurrent(
  served: ServedModel,
  key: ObjectKey,
  pair: KeyValue | undefined,
  converts = true,
): Current | undefined {
  if (pair === undefined) return undefined
  const { value, modRevision: revision } = pair
  const name = served.nameIn(key)
  const { object: raw, reservations } = readStored(served, key, pair)
  const at = atHub(served, raw, { asks: converts })
  const current = { reservations, revision, isLive: true }
  if (at.failure === undefined && at.isAsStored) {
    const bytes = wireBytes(served.hub, name, value, revision, objectStart(value))
    return { ...current, object: at.object, bytes }
  }
  const { object = raw, failure } = at
  const bytes = wireBytes(
    wireVersionOf(object.apiVersion, object.kind),
    name,
    Buffer.from(encodeObject(object)),
    revision,
  )
  return { ...current, object, bytes, ...(at.object !== raw && { raw }), ...(failure && { failure }) }
}

function isReadable(served: ServedModel, key: ObjectKey, pair: KeyValue): boolean {
  try {
    readStored(served, key, pair)
    return true
  } catch {
    return false
  }
}

/** @throws ApiError 500 if the stored value cannot be read */
function readStored(served: ServedModel, key: ObjectKey, pair: KeyValue): StoredObject {
  const failure = undecrypted(pair)
  try {
    if (failure === undefined) return decodeStored(pair.value)
  } catch {
    // As if nothing had been stored that could be decrypted.
  }
  throw unreadable(served, key, failure?.message ?? 'is malformed')
}

/** Returns undefined if the cache does not tell the stored form. */
function fromCache(served: ServedModel, cached: CachedObject): Current | undefined {
  if (cached.storedFormDiffers) return undefined
  const { bytes, revision } = cached
  const object = decodeWire(bytes)
  return {
    object,
    reservations: reservationsOf(served, unpackValues(cached)),
    revision,
    bytes,
    isLive: false,
  }
}

function toWrite(
  served: ServedModel,
  key: ObjectKey,
  current: Current,
  { draft, removes }: Decision,
  { isService }: WriteOptions,
): Write {
  const { revision, reservations } = current
  const { object, json, claims = noReservations } = draft
  const jsonIn = (version: ServedVersion) =>
    draft.isIndexed ? storedJson(served, version, draft.object, json) : (draft.rawJson ?? json)
  return {
    served,
    key,
    uid: draft.object.metadata.uid,
    previous: { revision, reservations },
    next: removes ? undefined : { jsonIn, reservations: draft.reservations, claims },
    // Releasing values, or keeping the recorded ones, does not depend on the indexes in force.
    indexed: !removes && draft.isIndexed,
    ...(served.indexes.isNamespaced &&
      draft.isIndexed &&
      !removes &&
      !isService && {
        growth: {
          served,
          key,
          object,
          previous: current.object,
          bytes: () => Buffer.byteLength(json) - contentBytes(current.bytes, revision),
        },
      }),
  }
}
