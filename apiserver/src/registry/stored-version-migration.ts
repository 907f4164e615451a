import { type Clock, sleep, systemClock } from '@setpoint/controller-runtime'
import { isApiError, type ObjectKey, type Revision } from '@setpoint/controller-runtime/api'
import {
  atHub,
  ConversionError,
  decodeStored,
  encodeObject,
  encodeStored,
  type ServedModel,
  type ServedVersion,
  storedJson,
} from '../model/index.ts'
import { currentPages, type KeyValue, type Storage, storageLimits, undecrypted } from '../storage/index.ts'
import type { ModelRecords } from './model-record.ts'
import { versionOf } from './stored-version-claim.ts'

/** Prefix of the keys of the notes that servers leave about a migration in progress. */
export const migrationsPrefix = 'migrations/'

export const migrationDefaults = Object.freeze({
  /** Objects rewritten in one second: slow enough for other writes, and a million objects in about half an hour. */
  objectsPerSecond: 500,
  /** Objects rewritten at once. Keeps a store busy that takes milliseconds for each transaction. */
  concurrency: 8,
  /** Objects in one page, held in memory together. */
  pageSize: 200,
})

/** An object that could not be rewritten. */
export interface MigrationFailure {
  /** The object's key. */
  readonly name: ObjectKey
  readonly message: string
}

interface Migration {
  readonly storage: Storage
  readonly records: ModelRecords
  readonly served: ServedModel
  /** The version in force. */
  readonly to: ServedVersion
  /** The revision of the record that says so. */
  readonly recordRevision: Revision
  readonly signal: AbortSignal
  readonly clock?: Clock
  /** Called after each page with the objects rewritten and failed in it. Throws to stop. */
  onProgress(migrated: number, failures: readonly MigrationFailure[]): Promise<void>
}

/** The record has changed, so another version may be in force. */
export class MigrationSupersededError extends Error {
  override readonly name = 'MigrationSupersededError'
}

/**
 * Rewrites every object of a model that is stored in another version than the one in force. An object keeps its content
 * at the hub, its metadata and its reservations, and gets a new version.
 *
 * Guarantees: each object is rewritten by one transaction that compares its revision and the record, so concurrent
 * writes are never lost. Objects may be rewritten in any order, repeatedly, and by several servers together, so a crash
 * only needs a restart. When it resolves, only the reported failures are left in another version: all writes since the
 * record's revision have stored the version in force, or have kept that of an object.
 *
 * @throws MigrationSupersededError, the errors of `onProgress`, and the store's errors
 */
export async function migrateStoredVersions(migration: Migration): Promise<void> {
  const { storage, served, to, signal, clock = systemClock, onProgress } = migration
  const { concurrency, objectsPerSecond, pageSize } = migrationDefaults
  for await (const pairs of currentPages(storage, served.keyPrefix, { limit: pageSize, signal })) {
    const pending = pairs.filter(({ value }) => versionOf(value) !== to.name)
    const failures: MigrationFailure[] = []
    for (let at = 0; at < pending.length; at += concurrency) {
      const some = pending.slice(at, at + concurrency)
      const pace = sleep(clock, (some.length / objectsPerSecond) * 1000, signal)
      pace.catch(() => {})
      const outcomes = await Promise.all(some.map(pair => rewrite(migration, pair)))
      failures.push(...outcomes.filter(outcome => outcome !== undefined))
      await pace
    }
    await onProgress(pending.length - failures.length, failures)
  }
}

/** Rewrites one object, also if it changes meanwhile. Returns the reason if it cannot be rewritten. */
async function rewrite(migration: Migration, seen: KeyValue): Promise<MigrationFailure | undefined> {
  const { storage, records, served, to, recordRevision, signal } = migration
  const recordKey = records.keyOf(served)
  const name = seen.key.slice(served.keyPrefix.length)
  let pair: KeyValue | undefined = seen
  while (pair !== undefined && versionOf(pair.value) !== to.name) {
    signal.throwIfAborted()
    const { key, modRevision }: KeyValue = pair
    const value = migrated(migration, pair)
    if (typeof value === 'string') return { name, message: value }
    const result = await storage.transact({
      compares: [
        { key, modRevision },
        { key: recordKey, modRevision: recordRevision },
      ],
      onSuccess: [{ type: 'put', key, value }],
      onFailure: [key, recordKey],
    })
    if (result.succeeded) return undefined
    const [current, record] = result.pairs
    if (record?.modRevision !== recordRevision)
      throw new MigrationSupersededError('the record of stored versions has changed')
    pair = current
  }
  return undefined
}

/** Returns the value in the version in force, or the reason why it cannot be converted. */
function migrated({ served, to }: Migration, pair: KeyValue): Buffer | string {
  const { value } = pair
  const undecryptable = undecrypted(pair)
  if (undecryptable !== undefined) return `the stored value ${undecryptable.message}`
  try {
    const { object: raw, reservations } = decodeStored(value)
    const { object, failure } = atHub(served, raw)
    if (failure !== undefined) throw failure
    const next = encodeStored(storedJson(served, to, object, encodeObject(object)), reservations)
    return next.length > storageLimits.valueBytes
      ? `it has ${next.length} bytes in ${to.name}, at most ${storageLimits.valueBytes} can be stored`
      : next
  } catch (error) {
    if (error instanceof ConversionError) return error.problem
    if (isApiError(error)) return error.message
    if (error instanceof SyntaxError) return 'the stored value is malformed'
    throw error
  }
}
