import { isRecord, type Model, type Revision, zeroRevision } from '@setpoint/controller-runtime/api'
import type { ServedModel, ServedVersion } from '../model/index.ts'
import type { KeyValue, Storage, Transaction } from '../storage/index.ts'
import { notReady } from './refusals.ts'

/** Prefix of the keys of all records. Every kind that has ever been served has one. */
export const recordsPrefix = 'models/'

/** The scope of a kind has changed although objects are stored. */
export class ScopeChangedError extends Error {
  override readonly name = 'ScopeChangedError'
}

/** Compares this server's set of unique indexes with the one in the model's record. */
export type Standing =
  | { readonly name: 'in force' }
  /** The record has this server's set, and the reservations are still being computed. */
  | { readonly name: 'recomputing'; readonly why: string }
  /** The record has the set, or the scope, of another version of the plugin. */
  | { readonly name: 'superseded'; readonly why: string }

type Versions = Readonly<Record<string, number>>
type Scope = Model['scope']

/** The value of the key `models/<group>/<plural>`. */
export interface ModelRecord {
  /** The unique indexes by name, with their versions. */
  readonly unique: Versions
  /** The highest version that was ever in force of each index, including removed ones. */
  readonly highest: Versions
  /** True while the reservations are being computed. They are incomplete until then. */
  readonly recomputing: boolean
  /** The scope that the keys of objects have. Missing in records of earlier releases. */
  readonly scope?: Scope
  /** The versions that objects are stored in. Missing in records of earlier releases. */
  readonly stored?: StoredVersions
  /** The uid of the kind's definition, from when its deletion has begun: no server creates objects any more. */
  readonly ending?: string
}

/** The stored versions of a model's objects, by name. */
export interface StoredVersions {
  /** The version that writes store. */
  readonly version: string
  /** All versions that a stored object may have. */
  readonly all: readonly string[]
  /** The version of the plugin that chose it. */
  readonly by: string
}

/** What a write needs of a record that is in force. */
export interface InForce {
  readonly revision: Revision
  /** The version that objects are stored in. */
  readonly stored: ServedVersion
  /** True if no object may be created, because the kind's definition is being deleted. */
  readonly isEnding: boolean
}

/**
 * The models' records: for each model the unique indexes in force, the versions that its objects are stored in
 * (`claimStoredVersion`), and its scope. Every write that depends on them compares the revision of its model's record,
 * so no server writes by other ones. While a kind has no object, the server that starts later decides its scope, and
 * writes of the others fail. The unique indexes change so:
 *
 *     (absent) ──no objects──▶ in force ◀──── every object is settled ────┐
 *         └──objects─────────────────┐  │                                 │
 *                                    ▼  ▼ a server starts with another set│
 *                                 recomputing ────────────────────────────┘
 *                                       ▲ │ a server starts with yet another set, or after a crash in the middle
 *                                       └─┘
 *
 * The newer of two sets:
 *
 * - A set is older if it has a lower version of an index than was ever in force. It never comes back in force.
 * - Otherwise the sets differ by added or removed indexes, and the server that starts later wins. Starting a plugin
 *   without an index therefore removes it.
 *
 * A server changes a record only once for each declaration of a kind, when it starts to serve it, so servers with
 * different sets cannot fight over it. For the kind of a definition the definition decides: a server whose write is
 * refused although it serves the definition as it is puts its set in force again (`writeInForce`).
 */
export class ModelRecords {
  readonly #storage: Storage
  /** The records that have this server's sets in force. */
  readonly #inForce = new WeakMap<ServedModel, InForce>()
  readonly #standings = new WeakMap<ServedModel, Standing>()
  readonly #observers = new WeakMap<ServedModel, () => void>()

  constructor(storage: Storage) {
    this.#storage = storage
  }

  keyOf(served: ServedModel): string {
    return recordsPrefix + served.resource
  }

  /** Returns the last known standing, or undefined before `establish`. */
  standingOf(served: ServedModel): Standing | undefined {
    return this.#standings.get(served)
  }

  /** Sets the one observer of a model. It is called after each change of the standing. */
  observe(served: ServedModel, changed: () => void): void {
    this.#observers.set(served, changed)
  }

  /**
   * Returns the record's revision for a write of this model to compare, and the version to store.
   * @throws ApiError 503 if this server's set of unique indexes is not in force, or it does not know the stored version
   */
  async inForce(served: ServedModel): Promise<InForce> {
    return this.#inForce.get(served) ?? (await this.refresh(served))
  }

  /** Reads the record again after a failed comparison. Throws the same errors as `inForce`. */
  async refresh(served: ServedModel): Promise<InForce> {
    const standing = await this.check(served)
    const inForce = this.#inForce.get(served)
    if (inForce !== undefined) return inForce
    throw notReady(served, standing.name === 'in force' ? 'its unique indexes are changing' : standing.why)
  }

  /** Reads the record and returns the standing of this server's set. @throws the store's errors */
  async check(served: ServedModel): Promise<Standing> {
    const { pair } = await this.#storage.get(this.keyOf(served))
    return this.#see(served, pair && decodeRecord(pair.value), pair?.modRevision)
  }

  /**
   * Checks that no object is stored under another scope of the kind.
   * @throws ScopeChangedError, and the store's errors
   */
  async checkScope(served: ServedModel): Promise<void> {
    const { model, title, keyPrefix, indexes } = served
    const { pairs } = await this.#storage.list(keyPrefix, { limit: 1, keysOnly: true })
    const key = pairs[0]?.key.slice(keyPrefix.length)
    if (key === undefined || key.includes('/') === indexes.isNamespaced) return
    throw new ScopeChangedError(
      `the scope of ${model.kind} has changed to ${model.scope}, but ${title} ${JSON.stringify(key)} is stored under the other one: the scope of a kind cannot change`,
    )
  }

  /**
   * Claims the model for this server's set of unique indexes when the server starts.
   * @returns `recompute`, the record's revision to pass to `complete` once the reservations are computed. Undefined if
   * the set is already in force or superseded.
   * @throws ScopeChangedError if objects are stored under another scope of the kind
   */
  async establish(served: ServedModel): Promise<{ standing: Standing; recompute: Revision | undefined }> {
    const key = this.keyOf(served)
    const unique = versionsOf(served)
    const { scope } = served.model
    for (;;) {
      const { pair } = await this.#storage.get(key)
      const record = pair && decodeRecord(pair.value)
      const standing = record && uniqueStandingIn(record, served)
      const hasScope = record?.scope === scope && !isEndedBefore(record, served)
      if (record?.scope !== scope) await this.checkScope(served)
      if (record !== undefined && standing !== undefined) {
        const older = standing.name === 'superseded' && newerIndex(record.highest, unique) !== undefined
        if (older || (hasScope && standing.name !== 'superseded')) {
          const recompute = standing.name === 'recomputing' ? pair?.modRevision : undefined
          return { standing: this.#see(served, record, pair?.modRevision), recompute }
        }
      }
      const next: ModelRecord = {
        ...record,
        unique,
        highest: highestOf(record?.highest ?? {}, unique),
        // Every write compares a record, so a kind with neither record nor objects stays empty meanwhile.
        recomputing:
          standing?.name !== 'in force' && (pair !== undefined || (await this.#hasObjects(served))),
        scope,
        ending: isEndedBefore(record, served) ? undefined : record?.ending,
      }
      const result = await this.#storage.transact({
        compares: [{ key, modRevision: pair?.modRevision ?? zeroRevision }],
        onSuccess: [{ type: 'put', key, value: encodeRecord(next) }],
      })
      if (!result.succeeded) continue
      if (!hasScope) await this.#confirmScope(served, pair, result.revision)
      return {
        standing: this.#see(served, next, result.revision),
        recompute: next.recomputing ? result.revision : undefined,
      }
    }
  }

  /**
   * Keeps every server from creating objects of a definition's kind from now on.
   * @param isThere returns true while the definition is there. A later one of the same name changes the record first
   * @returns false if the definition has gone
   * @throws the store's errors
   */
  async end(served: ServedModel, isThere: () => Promise<boolean>): Promise<boolean> {
    const key = this.keyOf(served)
    for (;;) {
      const { pair } = await this.#storage.get(key)
      const record = pair && decodeRecord(pair.value)
      const ending = served.defined?.uid
      if (!(await isThere())) return false
      if (pair === undefined || record === undefined || record.ending === ending) return true
      const { succeeded } = await this.#storage.transact({
        compares: [{ key, modRevision: pair.modRevision }],
        onSuccess: [{ type: 'put', key, value: encodeRecord({ ...record, ending }) }],
      })
      if (succeeded) return true
    }
  }

  /**
   * Puts the set in force after every object has been settled.
   * @param recomputed the record's revision during the computation. If another server has changed the record since, its
   * change stands.
   */
  async complete(served: ServedModel, recomputed: Revision): Promise<Standing> {
    const key = this.keyOf(served)
    const { pair } = await this.#storage.get(key)
    if (pair?.modRevision === recomputed) {
      const unique = versionsOf(served)
      const record = decodeRecord(pair.value)
      const highest = highestOf(record?.highest ?? {}, unique)
      const next = { ...record, unique, highest, recomputing: false }
      await this.#storage.transact({
        compares: [{ key, modRevision: recomputed }],
        onSuccess: [{ type: 'put', key, value: encodeRecord(next) }],
      })
    }
    return this.check(served)
  }

  /**
   * Takes the change of a record back if another server stored an object under its scope before the change.
   * @throws ScopeChangedError then
   */
  async #confirmScope(
    served: ServedModel,
    before: KeyValue | undefined,
    modRevision: Revision,
  ): Promise<void> {
    try {
      await this.checkScope(served)
    } catch (error) {
      if (error instanceof ScopeChangedError && before !== undefined) {
        const { key, value } = before
        await this.#storage.transact({
          compares: [{ key, modRevision }],
          onSuccess: [{ type: 'put', key, value }],
        })
      }
      throw error
    }
  }

  async #hasObjects(served: ServedModel): Promise<boolean> {
    const { pairs } = await this.#storage.list(served.keyPrefix, { limit: 1 })
    return pairs.length > 0
  }

  /** Returns the versions that objects are stored in, with the revision of the record. @throws the store's errors */
  async storedVersions(
    served: ServedModel,
  ): Promise<{ readonly stored: StoredVersions | undefined; readonly revision: Revision }> {
    const { pair } = await this.#storage.get(this.keyOf(served))
    return { stored: pair && decodeRecord(pair.value)?.stored, revision: pair?.modRevision ?? zeroRevision }
  }

  /**
   * Changes the versions that objects are stored in, if the record still has this revision. The record must exist.
   * @param others compared and written in the same transaction
   * @returns the revision of the change, or undefined if a comparison failed
   */
  async changeStoredVersions(
    served: ServedModel,
    stored: StoredVersions,
    modRevision: Revision,
    others: Pick<Transaction, 'compares' | 'onSuccess'> = { compares: [], onSuccess: [] },
  ): Promise<Revision | undefined> {
    const key = this.keyOf(served)
    const { pair } = await this.#storage.get(key)
    const record = pair && decodeRecord(pair.value)
    if (record === undefined || pair?.modRevision !== modRevision) return undefined
    const { succeeded, revision } = await this.#storage.transact({
      compares: [{ key, modRevision }, ...others.compares],
      onSuccess: [{ type: 'put', key, value: encodeRecord({ ...record, stored }) }, ...others.onSuccess],
    })
    return succeeded ? revision : undefined
  }

  #see(served: ServedModel, record: ModelRecord | undefined, revision?: Revision): Standing {
    const standing: Standing =
      record === undefined
        ? { name: 'superseded', why: 'nothing says which unique indexes are in force' }
        : standingIn(record, served)
    const stored = record && storedIn(record, served)
    if (isWritable(standing, served) && revision !== undefined && stored !== undefined)
      this.#inForce.set(served, { revision, stored, isEnding: record?.ending !== undefined })
    else this.#inForce.delete(served)
    const previous = this.#standings.get(served)
    this.#standings.set(served, standing)
    if (previous !== undefined && !sameStanding(previous, standing)) this.#observers.get(served)?.()
    return standing
  }
}

/**
 * Returns true if this server may write objects. Those of a definition go on while the reservations are computed: what
 * a write takes then may be taken from it by an older object, and is reported.
 */
function isWritable({ name }: Standing, { defined }: ServedModel): boolean {
  return name === 'in force' || (name === 'recomputing' && defined !== undefined)
}

/** Returns true if a record says that an earlier definition of the kind was deleted. */
function isEndedBefore(record: ModelRecord | undefined, { defined }: ServedModel): boolean {
  return record?.ending !== undefined && record.ending !== defined?.uid
}

function sameStanding(left: Standing, right: Standing): boolean {
  if (left.name === 'in force' || right.name === 'in force') return left.name === right.name
  return left.name === right.name && left.why === right.why
}

/** Returns the version that objects are stored in, or undefined if this server does not know it. */
function storedIn({ stored }: ModelRecord, served: ServedModel): ServedVersion | undefined {
  return stored === undefined ? served.hub : served.versions.find(({ name }) => name === stored.version)
}

function standingIn(record: ModelRecord, served: ServedModel): Standing {
  if (storedIn(record, served) === undefined) {
    const why = `its objects are stored in ${record.stored?.version}, which this version of the plugin does not declare`
    return { name: 'superseded', why }
  }
  const { scope } = served.model
  if (record.scope !== undefined && record.scope !== scope) {
    const why = `another version of the plugin, which started later, serves it with the scope ${record.scope}, not ${scope}`
    return { name: 'superseded', why }
  }
  return uniqueStandingIn(record, served)
}

function uniqueStandingIn(record: ModelRecord, served: ServedModel): Standing {
  const unique = versionsOf(served)
  if (sameVersions(record.unique, unique)) {
    if (!record.recomputing) return { name: 'in force' }
    return { name: 'recomputing', why: 'what its objects hold in unique indexes is being computed again' }
  }
  const newer = newerIndex(record.highest, unique)
  const why =
    newer === undefined
      ? `another set of unique indexes is in force, put there by another version of the plugin that started later: ${show(record.unique)}, not ${show(unique)}`
      : `a newer version of the plugin has put version ${record.highest[newer]} of the unique index ${newer} in force, this one has version ${unique[newer]}`
  return { name: 'superseded', why }
}

/** Returns an index that had a higher version in force than the given one. */
function newerIndex(highest: Versions, unique: Versions): string | undefined {
  return Object.keys(unique).find(name => versionIn(unique, name) < versionIn(highest, name))
}

function versionIn(versions: Versions, name: string): number {
  return Object.hasOwn(versions, name) ? (versions[name] ?? 0) : 0
}

function highestOf(before: Versions, unique: Versions): Versions {
  const names = [...new Set([...Object.keys(before), ...Object.keys(unique)])].sort()
  return Object.fromEntries(
    names.map(name => [name, Math.max(versionIn(before, name), versionIn(unique, name))]),
  )
}

function versionsOf(served: ServedModel): Versions {
  const unique = served.uniqueIndexes.map(({ name, version }) => [name, version] as const)
  return Object.fromEntries(unique.sort(([a], [b]) => (a < b ? -1 : 1)))
}

function sameVersions(left: Versions, right: Versions): boolean {
  const names = Object.keys(left)
  return (
    names.length === Object.keys(right).length &&
    names.every(name => versionIn(left, name) === versionIn(right, name))
  )
}

function show(versions: Versions): string {
  const names = Object.keys(versions)
  if (names.length === 0) return 'none'
  return names.map(name => `${name} (version ${versions[name]})`).join(', ')
}

function encodeRecord(record: ModelRecord): Buffer {
  return Buffer.from(JSON.stringify(record))
}

/** Returns undefined if the value is not a record. The next start then recomputes everything. */
export function decodeRecord(value: Buffer): ModelRecord | undefined {
  let record: unknown
  try {
    record = JSON.parse(value.toString())
  } catch {
    return undefined
  }
  if (!isRecord(record) || !isVersions(record.unique)) return undefined
  return {
    unique: record.unique,
    highest: isVersions(record.highest) ? record.highest : record.unique,
    recomputing: record.recomputing === true,
    ...((record.scope === 'Cluster' || record.scope === 'Namespaced') && { scope: record.scope }),
    ...(isStoredVersions(record.stored) && { stored: record.stored }),
    ...(typeof record.ending === 'string' && { ending: record.ending }),
  }
}

function isStoredVersions(value: unknown): value is StoredVersions {
  return (
    isRecord(value) &&
    typeof value.version === 'string' &&
    typeof value.by === 'string' &&
    Array.isArray(value.all) &&
    value.all.every(name => typeof name === 'string')
  )
}

function isVersions(value: unknown): value is Versions {
  return isRecord(value) && Object.values(value).every(Number.isSafeInteger)
}
