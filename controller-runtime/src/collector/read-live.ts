import { ApiError } from '../api/errors.ts'
import type { Model } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'
import type { ObjectKey } from '../api/object-key.ts'
import type { Client } from '../client/client.ts'
import { partsOfKey } from '../client/paths.ts'

/**
 * Reads an object from the store, not from a cache.
 * @returns undefined only if the server says that this object does not exist, not if its kind, route or store is
 *   missing, whatever the status code.
 * @throws ApiError or TransportError for every other response.
 */
export async function readLive(
  client: Client,
  model: Model,
  key: ObjectKey,
  signal: AbortSignal,
): Promise<ApiObject | undefined> {
  try {
    return await client.get(model, key, { signal })
  } catch (error) {
    if (error instanceof ApiError && isAbsent(error, model, key)) return undefined
    throw error
  }
}

/** A NotFound of an unknown route does not name group, kind and object. */
function isAbsent({ reason, details }: ApiError, model: Model, key: ObjectKey): boolean {
  const { group, plural } = model
  const { name } = partsOfKey(model, key)
  return reason === 'NotFound' && details?.name === name && details.kind === plural && details.group === group
}
