import { isDeepStrictEqual } from 'node:util'
import { type ApiError, isApiError } from '../api/errors.ts'
import { isRecord } from '../api/is-record.ts'
import type { Model } from '../api/model.ts'
import type { ApiObject, OwnerReference } from '../api/object.ts'
import type { DesiredObject, ReplacementOf } from './bodies.ts'
import type { Client, CreateOrUpdateOptions, WriteOptions, WriteOutcome } from './client.ts'
import { retryWhile } from './conflict-retry.ts'
import { type Draft, draftOf, finishDraft, type Mutate } from './draft.ts'
import { checkOptions } from './option-keys.ts'
import { partsOfKey, qualifiedKey, targetKey } from './paths.ts'

/** The write was refused because another writer interfered; `cause` is the refusal. */
class WriteConflict extends Error {
  override readonly cause: ApiError

  constructor(cause: ApiError) {
    super(cause.message, { cause })
    this.cause = cause
  }
}

/** See `Client.createOrUpdate`. */
export async function createOrUpdate<T extends ApiObject>(
  client: Client,
  model: Model<T>,
  name: string,
  mutate: Mutate<T>,
  options: CreateOrUpdateOptions = {},
): Promise<WriteOutcome<T>> {
  checkOptions('createOrUpdate', options)
  try {
    return await retryWhile(
      error => error instanceof WriteConflict,
      () => attempt(client, model, name, mutate, options),
      options,
    )
  } catch (error) {
    throw error instanceof WriteConflict ? error.cause : error
  }
}

/** See `Client.apply`. @param namespace that of the client */
export function apply<T extends ApiObject>(
  client: Client,
  model: Model<T>,
  desired: DesiredObject<T>,
  namespace: string | undefined,
  options?: CreateOrUpdateOptions,
): Promise<WriteOutcome<T>> {
  const key = qualifiedKey(model, targetKey(model, desired), namespace)
  return createOrUpdate(client, model, key, draft => merge(draft, desired), options)
}

async function attempt<T extends ApiObject>(
  client: Client,
  model: Model<T>,
  name: string,
  mutate: Mutate<T>,
  { signal, dryRun, fieldValidation }: CreateOrUpdateOptions,
): Promise<WriteOutcome<T>> {
  const writeOptions: WriteOptions = {
    ...(signal && { signal }),
    ...(dryRun !== undefined && { dryRun }),
    ...(fieldValidation && { fieldValidation }),
  }
  const stored = await client.getIfExists(model, name, signal && { signal })
  const draft = draftOf(model, name, stored)
  const wanted = finishDraft(draft, await mutate(draft), partsOfKey(model, name).name)
  if (stored === undefined) {
    return {
      object: await contended(client.create(model, wanted, writeOptions), isNameTaken),
      result: 'created',
    }
  }
  if (isDeepStrictEqual(wanted, draftOf(model, name, stored))) return { object: stored, result: 'unchanged' }
  const versioned: ReplacementOf<T> = {
    ...wanted,
    metadata: { ...wanted.metadata, version: stored.metadata.version },
  }
  const object = await contended(client.update(model, versioned, writeOptions), error =>
    isOutdated(error, partsOfKey(model, name).name),
  )
  // The server may have changed nothing, for example if only defaults were missing.
  const same = dryRun !== true && object.metadata.version === stored.metadata.version
  return { object, result: same ? 'unchanged' : 'updated' }
}

async function contended<R>(write: Promise<R>, overtaken: (error: unknown) => error is ApiError): Promise<R> {
  try {
    return await write
  } catch (error) {
    throw overtaken(error) ? new WriteConflict(error) : error
  }
}

/** Returns true if the name is taken. A taken value of a unique index has `causes`, and a retry cannot free it. */
function isNameTaken(error: unknown): error is ApiError {
  return isApiError(error, 'AlreadyExists') && error.details?.causes === undefined
}

/** Returns true if the object has changed or was deleted since it was read. */
function isOutdated(error: unknown, name: string): error is ApiError {
  return isApiError(error, 'Conflict') || (isApiError(error, 'NotFound') && error.details?.name === name)
}

/** Sets the desired fields and keeps the others. */
function merge<T extends ApiObject>(draft: Draft<T>, desired: DesiredObject<T>): void {
  const { metadata } = draft
  const { labels, annotations, finalizers, ownerReferences } = desired.metadata
  if (labels) metadata.labels = { ...metadata.labels, ...labels }
  if (annotations) metadata.annotations = { ...metadata.annotations, ...annotations }
  if (finalizers) metadata.finalizers = [...new Set([...(metadata.finalizers ?? []), ...finalizers])]
  if (ownerReferences) metadata.ownerReferences = mergeOwners(metadata.ownerReferences ?? [], ownerReferences)
  if (desired.spec !== undefined) mergeInto(draft, { spec: desired.spec })
}

/** Owner references are identified by uid. */
function mergeOwners(
  present: readonly OwnerReference[],
  wanted: readonly OwnerReference[],
): OwnerReference[] {
  const owners = new Map(present.map(owner => [owner.uid, owner]))
  for (const owner of wanted) owners.set(owner.uid, owner)
  return [...owners.values()]
}

function mergeInto(target: object, wanted: object): void {
  for (const [key, value] of Object.entries(wanted)) {
    if (value === undefined) continue
    const present: unknown = Object.hasOwn(target, key) ? Reflect.get(target, key) : undefined
    if (isRecord(value) && isRecord(present)) mergeInto(present, value)
    // Not assigned: a field may be called `__proto__`.
    else Object.defineProperty(target, key, { value, enumerable: true, configurable: true, writable: true })
  }
}
