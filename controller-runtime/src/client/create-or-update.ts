import { isDeepStrictEqual } from 'node:util'
import { type ApiError, isApiError } from '../api/errors.ts'
import type { Model } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'
import type { Client, CreateOrUpdateOptions, WriteOptions, WriteOutcome } from './client.ts'
import { retryWhile } from './conflict-retry.ts'
import { draftOf, finishDraft, type Mutate } from './draft.ts'
import { checkOptions } from './option-keys.ts'
import { partsOfKey } from './paths.ts'

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

async function attempt<T extends ApiObject>(
  client: Client,
  model: Model<T>,
  name: string,
  mutate: Mutate<T>,
  { signal, dryRun, fieldValidation }: CreateOrUpdateOptions,
): Promise<WriteOutcome<T>> {
  const writeOptions: WriteOptions = {
    signal,
    dryRun,
    fieldValidation,
  }
  const stored = await client.getIfExists(model, name, { signal })
  const draft = draftOf(model, name, stored)
  const wanted = finishDraft(draft, await mutate(draft), partsOfKey(model, name).name)
  if (stored === undefined) {
    return {
      object: await contended(client.create(model, wanted, writeOptions), isNameTaken),
      result: 'created',
    }
  }
  if (isDeepStrictEqual(wanted, draftOf(model, name, stored))) return { object: stored, result: 'unchanged' }
  const { version } = stored.metadata
  const versioned = Object.assign({}, wanted, { metadata: { ...wanted.metadata, version } })
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
