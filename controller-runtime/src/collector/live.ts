import { ApiError } from '../api/errors.ts'
import type { Model } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'
import type { Client } from '../client/client.ts'

/**
 * Reads an object as it is now in the store, not in a cache.
 * @returns undefined only where the server has said of this very object that there is none. That its kind, its route
 *   or its store did not answer is not that, whatever the status code.
 * @throws ApiError or TransportError for every other answer.
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

/** The refusal of a route that nobody serves, or of something on the way, does not name group, kind and object. */
function isAbsent({ reason, details }: ApiError, { group, plural }: Model, name: string): boolean {
  return reason === 'NotFound' && details?.name === name && details.kind === plural && details.group === group
}
