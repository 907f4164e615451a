import { ApiError } from '../api/errors.ts'
import type { Model } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'
import type { Client } from '../client/client.ts'

/**
 * Reads an object from the store, not from a cache.
 * @returns undefined only if the server says that this object does not exist, not if its kind, route or store is
 *   missing, whatever the status code.
 * @throws ApiError or TransportError for every other response.
 */
export async function readLive(
  client: Client,
  model: Model,
  name: string,
  signal: AbortSignal,
): Promise<ApiObject | undefined> {
  try {
    return await client.get(model, name, { signal })
  } catch (error) {
    if (error instanceof ApiError && isAbsent(error, model, name)) return undefined
    throw error
  }
}

/** A NotFound of an unknown route does not name group, kind and object. */
function isAbsent({ reason, details }: ApiError, { group, plural }: Model, name: string): boolean {
  return reason === 'NotFound' && details?.name === name && details.kind === plural && details.group === group
}
