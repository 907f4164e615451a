import { randomInt, randomUUID } from 'node:crypto'
import { type Clock, systemClock } from '@setpoint/controller-runtime'
import {
  ApiError,
  finalizersForDeletion,
  isNotFound,
  isRecord,
  nameLimits,
  type ObjectKey,
  objectKey,
  splitObjectKey,
} from '@setpoint/controller-runtime/api'
import type { ServedModel, ServedVersion } from '../model/index.ts'
import {
  type BareMeta,
  ConversionError,
  converting,
  decodeStored,
  encodeObject,
  noReservations,
  type Scope,
  type StoredObject,
  storedJson,
  wireBytes,
  wireObject,
} from '../model/index.ts'
import { type Storage, undecrypted } from '../storage/index.ts'
import type { Admission, WriteAdmission } from './admission.ts'
import { AdmittedWrites, admitDeletion, admitUpdate } from './admitted-writes.ts'
import { applyConfiguration, type ManagedWrite, readManagedFields, trackUpdate } from './apply/index.ts'
import { checkDeclared, checkPatchedMeta, checkReplacedMeta } from './as-in-kubernetes.ts'
import { Causes } from './causes.ts'
import { type ClientObject, readClientObject } from './client-object.ts'
import { type CacheLookup, CommitLoop, type Current, type Decision, showIn } from './commit-loop.ts'
import { checkIdentity, checkNamespace } from './identity.ts'
import { inspection } from './inspection.ts'
import { type SuccessorOf, writeInForce } from './kind-in-force.ts'
import { ModelRecords } from './model-record.ts'
import type { NamespaceBounds } from './namespace-bounds.ts'
import type { Namespaces } from './namespaces.ts'
import {
  draftCreation,
  draftDeletionMark,
  draftUpdate,
  type OwnersAfter,
  type StoredView,
} from './object-draft.ts'
import { applyPatch, changesMetadata, type Patch } from './patch.ts'
import { checkPreconditions, hasVersion, preconditionsOf, versionFields } from './preconditions.ts'
import { badRequest, conflict, invalid, nameTaken, withApiErrors } from './refusals.ts'
import { hasManyParts, isLarge, nextTurn } from './turns.ts'
import { decodeHolder, reservationKey } from './unique-index.ts'
import { Contention, type WriteAttempts } from './write-attempts.ts'
import {
  type Deletion,
  type Preconditions,
  type WriteOptions,
  type WriteResult,
  withWarnings,
} from './write-options.ts'
import { WriteTransactions } from './write-transaction.ts'

export const registryDefaults = Object.freeze({
  /** Names tried for one generateName, as in Kubernetes. */
  generatedNames: 8,
  /** Characters of a generated name of a definition's object, as in Kubernetes. */
  generatedLength: 63,
  /** Characters after a generateName prefix, from Kubernetes' alphabet without vowels and look-alikes. */
  suffixLength: 5,
})

const suffixAlphabet = 'bcdfghjklmnpqrstvwxz2456789'

/**
 * Executes writes. Every request becomes one transaction on the store (`write-transaction.ts`); a change of an existing
 * object may need several attempts (`commit-loop.ts`). A write becomes visible when it comes back through the store's
 * log. All methods reject with ApiError.
 */
export class Registry {
  readonly records: ModelRecords
  readonly #storage: Storage
  readonly #clock: Clock
  readonly #reservedDomain: string
  readonly #namespaces: Namespaces | undefined
  readonly #admitted: AdmittedWrites
  readonly #catchUp: (signal?: AbortSignal) => Promise<unknown>
  readonly #transactions: WriteTransactions
  readonly #contention: Contention
  readonly #commits: CommitLoop
  readonly #successorOf: SuccessorOf

  /**
   * @param options.cached finds an object in the cache. Without it every write starts from a live read.
   * @param options.namespaces admits new objects to their namespaces. Without it every namespace exists.
   * @param options.catchUp resolves when the caches have all writes acknowledged before, for models with `admit`.
   * Rejects if they
   *   cannot; the hook then reads what there is. Default: at once
   * @param options.bounds bounds what namespaces hold. Without it nothing does.
   * @param options.admission asks policies and webhooks about the writes of clients. Without it nothing is asked.
   * @param options.successorOf see `writeInForce`. Without it kinds do not change.
   */
  constructor(options: {
    storage: Storage
    reservedDomain: string
    cached?: CacheLookup
    namespaces?: Namespaces
    bounds?: NamespaceBounds
    admission?: Admission
    catchUp?: (signal?: AbortSignal) => Promise<unknown>
    successorOf?: SuccessorOf
    clock?: Clock
  }) {
    const { storage, reservedDomain, cached = () => undefined, namespaces, bounds } = options
    const { clock = systemClock, catchUp = async () => {}, successorOf = async () => undefined } = options
    this.#successorOf = successorOf
    this.#catchUp = catchUp
    this.#namespaces = namespaces
    this.#admitted = new AdmittedWrites(options.admission, namespaces)
    this.#storage = storage
    this.#reservedDomain = reservedDomain
    this.#clock = clock
    this.records = new ModelRecords(storage)
    this.#transactions = new WriteTransactions(storage, this.records, bounds)
    this.#contention = new Contention(clock)
    this.#commits = new CommitLoop(storage, this.#transactions, this.#contention, cached)
  }

  async create(served: ServedModel, body: unknown, options: WriteOptions): Promise<WriteResult> {
    return this.#inForce(served, options, (kind, given) => this.#create(kind, body, given))
  }

  async #create(served: ServedModel, body: unknown, options: WriteOptions): Promise<WriteResult> {
    const sent = readClientObject(options.version ?? served.hub, body, options)
    if (hasManyParts(body)) await nextTurn()
    await this.#catchUpFor(served, options)
    if (served.indexes.isNamespaced) {
      if (options.namespace === undefined) throw badRequest(`${served.title} are created in a namespace`)
      checkNamespace(options.namespace, sent.meta)
      // Kubernetes looks for the namespace before it checks the object.
      if (served.defined !== undefined)
        await this.#namespaces?.admit(served, objectKey({ namespace: options.namespace, name: '' }), false)
    }
    const { admission, client } = await this.#admitted.creation(served, sent, options)
    const { name, generateName } = client.meta
    const create = async (name: string) =>
      withWarnings(await this.#createNamed(served, name, client, options, { admission }), client.warnings)
    if (name !== undefined) return create(name)
    if (generateName === undefined) {
      client.causes.add({
        reason: 'FieldValueRequired',
        field: 'metadata.name',
        message: 'name or generateName is required',
      })
      throw invalid(served, '', client.causes)
    }
    const longest = served.defined === undefined ? nameLimits.name : registryDefaults.generatedLength
    for (let tried = 1; ; tried++) {
      const generated = generateName.slice(0, longest - registryDefaults.suffixLength) + randomSuffix()
      try {
        return await create(generated)
      } catch (error) {
        if (!isNameTaken(error) || tried === registryDefaults.generatedNames) throw error
      }
    }
  }

  async #createNamed(
    served: ServedModel,
    name: string,
    client: ClientObject,
    options: WriteOptions,
    how: {
      readonly admission: WriteAdmission | undefined
      readonly managedFields?: BareMeta['managedFields']
      readonly attempts?: WriteAttempts
    },
  ): Promise<WriteResult> {
    const { admission, managedFields, attempts } = how
    const environment = {
      uid: randomUUID(),
      now: this.#clock.now(),
      reservedDomain: this.#reservedDomain,
      managedFields,
    }
    const { signal, version = served.hub } = options
    const draft = await converting(() => draftCreation(served, name, client, options, environment), signal)
    const inspected = inspection(served, draft, undefined, 'object', options)
    if (inspected !== undefined) await inspected
    if (admission !== undefined) await admission.validate(draft.object, undefined)
    const { json } = draft
    const key = objectKey(draft.object.metadata)
    const { isNamespaced } = served.indexes
    const namespaces = isNamespaced ? this.#namespaces : undefined
    const shown = await converting(() => showIn(served, version, draft), signal)
    const write = {
      served,
      key,
      uid: draft.object.metadata.uid,
      previous: undefined,
      next: {
        jsonIn: (stored: ServedVersion) => storedJson(served, stored, draft.object, json),
        reservations: draft.reservations,
        claims: noReservations,
      },
      indexed: true,
      ...(namespaces && { guard: (isLive: boolean) => namespaces.admit(served, key, isLive) }),
      ...(isNamespaced &&
        !options.isService && {
          growth: {
            served,
            key,
            object: draft.object,
            previous: undefined,
            bytes: () => Buffer.byteLength(json),
          },
        }),
    }
    const ready = await this.#transactions.prepare(write, options)
    const outcome = await this.#transactions.commit(
      ready,
      options,
      attempts ?? this.#contention.begin(served, key, options),
    )
    if (!outcome.stored) {
      const { current } = outcome
      const isReadable = current !== undefined && undecrypted(current) === undefined
      const holder = isReadable ? decodeStored(current.value).object : undefined
      throw nameTaken(served, key, holder?.metadata.deletionTimestamp !== undefined)
    }
    const bytes = options.dryRun
      ? Buffer.from(shown.json)
      : wireBytes(shown.version, name, Buffer.from(shown.json), outcome.revision)
    return { key, bytes, warnings: draft.warnings }
  }

  async replace(
    served: ServedModel,
    key: ObjectKey,
    body: unknown,
    scope: Scope,
    options: WriteOptions,
  ): Promise<WriteResult> {
    return this.#inForce(served, options, (kind, given) => this.#replace(kind, key, body, scope, given))
  }

  async #replace(
    served: ServedModel,
    key: ObjectKey,
    body: unknown,
    scope: Scope,
    options: WriteOptions,
  ): Promise<WriteResult> {
    const version = options.version ?? served.hub
    const client = readClientObject(version, body, options)
    if (hasManyParts(body)) await nextTurn()
    checkIdentity(served, key, client.meta)
    await this.#catchUpFor(served, options)
    const result = await this.#commits.run(
      served,
      key,
      async current => {
        checkReplacedMeta(served, key, client.meta)
        const seen = await this.#viewOf(version, current, options)
        return this.#decideUpdate(served, current, client, scope, options, seen)
      },
      options,
      { isConditional: hasVersion(client.meta) },
    )
    return withWarnings(result, client.warnings)
  }

  /** Applies a patch to the newest state. Retries after a conflict unless the patch itself carries a version. */
  async patch(
    served: ServedModel,
    key: ObjectKey,
    patch: Patch,
    scope: Scope,
    options: WriteOptions,
  ): Promise<WriteResult> {
    return this.#inForce(served, options, (kind, given) => this.#patch(kind, key, patch, scope, given))
  }

  async #patch(
    served: ServedModel,
    key: ObjectKey,
    patch: Patch,
    scope: Scope,
    options: WriteOptions,
  ): Promise<WriteResult> {
    const version = options.version ?? served.hub
    const isLargePatch = hasManyParts(patch.document)
    if (isLargePatch) await nextTurn()
    await this.#catchUpFor(served, options)
    let warnings: readonly string[] = []
    const result = await this.#commits.run(
      served,
      key,
      async current => {
        const seen = await this.#viewOf(version, current, options)
        const patched = applyPatch(wireObject(version, seen.view, current.revision), patch)
        const isLong = isLargePatch || isLarge(current.bytes)
        if (isLong) await nextTurn()
        const client = readClientObject(version, patched, options, seen.view)
        if (isLong) await nextTurn()
        warnings = client.warnings
        checkIdentity(served, key, client.meta)
        checkPatchedMeta(served, key, patch, patched, client.meta, current.object.metadata)
        // Only a version in the patch itself is a precondition.
        for (const field of versionFields) if (!changesMetadata(patch, field)) delete client.meta[field]
        return this.#decideUpdate(served, current, client, scope, options, seen)
      },
      options,
      { isConditional: versionFields.some(field => changesMetadata(patch, field)) },
    )
    return withWarnings(result, warnings)
  }

  /**
   * Merges a configuration into the newest state, and removes what its manager no longer names (server-side apply).
   * Creates the object if it does not exist. Retries after a conflict unless the configuration carries a version.
   * @param patch.force takes fields from other managers
   */
  async apply(
    served: ServedModel,
    key: ObjectKey,
    patch: { document: unknown; force: boolean },
    scope: Scope,
    options: WriteOptions,
  ): Promise<WriteResult> {
    return this.#inForce(served, options, (kind, given) => this.#apply(kind, key, patch, scope, given))
  }

  async #apply(
    served: ServedModel,
    key: ObjectKey,
    patch: { document: unknown; force: boolean },
    scope: Scope,
    options: WriteOptions,
  ): Promise<WriteResult> {
    const version = options.version ?? served.hub
    const config = readClientObject(version, patch.document, options)
    checkDeclared(version, patch.document)
    checkIdentity(served, key, config.meta)
    if (config.meta.managedFields !== undefined && config.meta.managedFields !== null)
      throw badRequest('metadata.managedFields must be absent in an apply: the server computes them')
    const write = {
      ...this.#managedWrite(served, scope, options),
      name: served.nameIn(key),
      force: patch.force,
    }
    const isLargeConfig = hasManyParts(patch.document)
    if (isLargeConfig) await nextTurn()
    await this.#catchUpFor(served, options)
    const merge = (live: Parameters<typeof applyConfiguration>[1]) =>
      converting(() => mergeInto(live), options.signal)
    const mergeInto = (live: Parameters<typeof applyConfiguration>[1]) => {
      const body = isRecord(patch.document) ? version.schemas.prune(patch.document) : {}
      // Of this attempt: the next one sees another object.
      const causes = new Causes(config.causes)
      const applied = applyConfiguration(write, live, body, causes)
      if (applied === undefined) throw invalid(served, served.nameIn(key), causes)
      return { client: readClientObject(version, applied.object), managedFields: applied.managedFields }
    }
    const attempts = this.#contention.begin(served, key, options)
    for (;;) {
      try {
        const result = await this.#commits.run(
          served,
          key,
          async current => {
            const { uid } = current.object.metadata
            checkPreconditions(served, key, preconditionsOf(config.meta), uid, String(current.revision))
            const seen = await this.#viewOf(version, current, options)
            if (seen.failure !== undefined) throw seen.failure
            const { client, managedFields } = await merge({ view: seen.view, hub: current.object })
            if (isLargeConfig || isLarge(current.bytes)) await nextTurn()
            return this.#decideUpdate(served, current, client, scope, options, seen, () => managedFields)
          },
          options,
          { isConditional: hasVersion(config.meta), attempts },
        )
        return withWarnings(result, config.warnings)
      } catch (error) {
        if (!isNotFound(error) || scope === 'status') throw error
      }
      if (options.onlyLettingGo !== undefined) throw options.onlyLettingGo
      options.rights?.checkCreation(key)
      const { uid, versions } = preconditionsOf(config.meta)
      if (uid !== undefined || versions !== undefined)
        throw conflict(served, key, 'the configuration has a uid or version, but the object does not exist')
      try {
        const { client: sent, managedFields } = await merge(undefined)
        if (isLargeConfig) await nextTurn()
        const { namespace } = splitObjectKey(key)
        const creation = served.indexes.isNamespaced ? { ...options, namespace } : options
        const name = served.nameIn(key)
        const { admission, client } = await this.#admitted.creation(served, sent, creation, managedFields)
        checkIdentity(served, key, client.meta)
        const how = { admission, managedFields, attempts }
        const result = await this.#createNamed(served, name, client, creation, how)
        return { ...withWarnings(result, config.warnings), isCreated: true }
      } catch (error) {
        if (!isNameTaken(error)) throw error
        await attempts.pause()
      }
    }
  }

  #inForce(
    served: ServedModel,
    options: WriteOptions,
    write: (served: ServedModel, options: WriteOptions) => Promise<WriteResult>,
  ): Promise<WriteResult> {
    const { records } = this
    return writeInForce({ records, successorOf: this.#successorOf }, served, options, write)
  }

  /** Nothing may block the removal of finalizers, so a failure is left to the hook. */
  async #catchUpFor({ model }: ServedModel, { signal }: WriteOptions): Promise<void> {
    if (model.admit !== undefined) await this.#catchUp(signal).catch(() => {})
  }

  #managedWrite(served: ServedModel, scope: Scope, options: WriteOptions): ManagedWrite {
    const { version = served.hub } = options
    const manager = options.manager?.() ?? options.plugin ?? (options.isService ? 'setpoint' : 'unknown')
    return { served, version, scope, manager, now: this.#clock.now() }
  }

  /** Returns undefined for an object without managed fields: it is not tracked. */
  #ownersAfter(
    served: ServedModel,
    { object }: Current,
    { meta }: ClientObject,
    scope: Scope,
    options: WriteOptions,
  ): OwnersAfter | undefined {
    const { managedFields } = object.metadata
    if (managedFields === undefined) return undefined
    const write = this.#managedWrite(served, scope, options)
    return after => trackUpdate(write, object, after, readManagedFields(meta.managedFields, managedFields))
  }

  /** Returns the stored object as a request to a version sees it. */
  #viewOf(version: ServedVersion, current: Current, { signal }: WriteOptions): Promise<StoredView> {
    return converting(() => viewOf(version, current), signal)
  }

  /** Decides an update, with the policies and webhooks that concern it. */
  async #decideUpdate(
    served: ServedModel,
    current: Current,
    client: ClientObject,
    scope: Scope,
    options: WriteOptions,
    seen: StoredView,
    owners = this.#ownersAfter(served, current, client, scope, options),
  ): Promise<Decision | undefined> {
    const { metadata } = current.object
    const key = objectKey(metadata)
    const check = ({ meta }: ClientObject) =>
      checkPreconditions(served, key, preconditionsOf(meta), metadata.uid, String(current.revision))
    check(client)
    const { version = served.hub, onlyLettingGo } = options
    const admission = this.#admitted.of('UPDATE', served, metadata, scope, options)
    // These can only lose finalizers, or are refused in any case.
    const isBound = onlyLettingGo !== undefined || seen.failure !== undefined || !client.causes.isEmpty
    if (admission === undefined || isBound)
      return this.#draftUpdate(served, current, client, scope, options, seen, owners)
    const reservedDomain = this.#reservedDomain
    const update = { admission, served, version, current, seen, client, scope, options, reservedDomain }
    return admitUpdate(update, (next, sent) => {
      checkIdentity(served, key, next.meta)
      check(next)
      // As in Kubernetes, the changes of webhooks have no owner.
      const ownersAfter = owners && sent && version.isHub ? () => owners(sent) : owners
      return this.#draftUpdate(served, current, next, scope, options, seen, ownersAfter)
    })
  }

  /** An update removes an object that is being deleted and has no finalizer left. */
  async #draftUpdate(
    served: ServedModel,
    current: Current,
    client: ClientObject,
    scope: Scope,
    options: WriteOptions,
    seen: StoredView,
    owners: OwnersAfter | undefined,
  ): Promise<Decision | undefined> {
    const draft = await converting(
      () => draftUpdate(served, current, client, scope, options, this.#reservedDomain, seen, owners),
      options.signal,
    )
    if (draft === undefined) return undefined
    const { deletionTimestamp, finalizers } = draft.object.metadata
    const isHeld = finalizers !== undefined || served.rules?.holds?.(draft.object)
    const inspected = inspection(served, draft, current.object, scope, options)
    if (inspected !== undefined) await inspected
    return { draft, removes: deletionTimestamp !== undefined && !isHeld }
  }

  /**
   * Removes an object, or marks it as deleted while it has finalizers.
   */
  async delete(
    served: ServedModel,
    key: ObjectKey,
    deletion: Deletion,
    options: WriteOptions,
  ): Promise<WriteResult> {
    return this.#commits.run(
      served,
      key,
      current => {
        const { metadata } = current.object
        checkPreconditions(served, key, deletion, metadata.uid, String(current.revision))
        const admission = this.#admitted.of('DELETE', served, metadata, 'object', options)
        const decide = () => this.#decideDeletion(served, current, deletion)
        return admission === undefined ? decide() : admitDeletion(admission, current, decide)
      },
      options,
      { isConditional: deletion.versions !== undefined && deletion.versions.length > 0, converts: false },
    )
  }

  /** The policy of the first deletion stands. */
  #decideDeletion(served: ServedModel, current: Current, { propagation }: Deletion): Decision | undefined {
    const { object, reservations } = current
    const { metadata } = object
    if (metadata.deletionTimestamp !== undefined) return undefined
    served.rules?.checkDeletion?.(object)
    const finalizers = finalizersForDeletion(metadata.finalizers, propagation)
    if (finalizers.length > 0 || served.rules?.holds?.(object))
      return { draft: draftDeletionMark(served, current, finalizers, this.#clock.now()), removes: false }
    const draft = { object, json: encodeObject(object), reservations, isIndexed: false, warnings: [] }
    return { draft, removes: true }
  }

  /** Removes an object that cannot be read, see `CommitLoop.removeUnreadable`. */
  async deleteUnreadable(
    served: ServedModel,
    key: ObjectKey,
    preconditions: Preconditions,
    options: WriteOptions,
  ): Promise<void> {
    await this.#commits.removeUnreadable(served, key, preconditions, options)
  }

  /** Reads an object from the store, not from the cache. @throws ConversionError */
  async readLive(
    served: ServedModel,
    key: ObjectKey,
    version: ServedVersion = served.hub,
  ): Promise<{ bytes: Buffer; stored: StoredObject } | undefined> {
    const current = await this.#commits.read(served, key, {})
    if (current === undefined) return undefined
    if (current.failure !== undefined) throw current.failure
    if (version.isHub) return { bytes: current.bytes, stored: current }
    const view = await converting(() => version.fromHub(current.object))
    const wire = wireObject(version, view, current.revision)
    return { bytes: Buffer.from(JSON.stringify(wire)), stored: current }
  }

  /** Returns the key of the object that holds a value of a unique index which the object `key` has too. */
  async holderOf(
    served: ServedModel,
    index: string,
    value: string,
    key: ObjectKey,
  ): Promise<ObjectKey | undefined> {
    const { pair } = await withApiErrors(this.#storage.get(reservationKey(served, index, value, key)))
    return pair && decodeHolder(pair.value).name
  }
}

/** @throws ConversionNeeded */
function viewOf(version: ServedVersion, { object, failure }: StoredObject): StoredView {
  // Pruned as the request's content, so that a write of the metadata does not differ from it.
  const asItIs = () => version.schemas.prune({ ...object, apiVersion: version.apiVersion })
  if (failure !== undefined) {
    if (object.apiVersion === version.apiVersion) return { view: object }
    return { view: asItIs(), failure }
  }
  try {
    return { view: version.fromHub(object) }
  } catch (error) {
    if (!(error instanceof ConversionError)) throw error
    return { view: asItIs(), failure: error }
  }
}

/** Returns true if a creation failed because of the name, not because of a value of a unique index. */
function isNameTaken(error: unknown): boolean {
  return error instanceof ApiError && error.reason === 'AlreadyExists' && error.details?.causes === undefined
}

function randomSuffix(): string {
  let suffix = ''
  for (let i = 0; i < registryDefaults.suffixLength; i++)
    suffix += suffixAlphabet[randomInt(suffixAlphabet.length)]
  return suffix
}
