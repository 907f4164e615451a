import { isApiError } from '../api/errors.ts'
import { TransportError } from './transport.ts'

/**
 * Returns true if the server or its store cannot be reached at the moment: no response, 503 or 504.
 */
export function isServerAway(error: unknown): error is Error {
  return error instanceof TransportError || isApiError(error, 'ServiceUnavailable', 'Timeout')
}

/** Returns the ms after which the server wants the request again, or undefined if it does not say so. */
export function retryAfterMs(error: unknown): number | undefined {
  const seconds = isApiError(error) ? error.details?.retryAfterSeconds : undefined
  return seconds === undefined ? undefined : seconds * 1000
}

/**
 * Returns log fields for an error: only its message if the server is away or busy, since a restart may cause thousands
 * of such lines; else the error with its stack.
 */
export function failureFields(error: unknown): { readonly err: unknown } | { readonly error: string } {
  return isServerAway(error) || isApiError(error, 'TooManyRequests')
    ? { error: error.message }
    : { err: error }
}
