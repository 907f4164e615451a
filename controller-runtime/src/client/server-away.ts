import { isApiError } from '../api/errors.ts'
import { TransportError } from './transport.ts'

/**
 * Whether an error says that the server, or its store, cannot be reached at the moment: no answer, 503 or 504. That is
 * for operators to know of, and no fault of whoever asked.
 */
export function isServerAway(error: unknown): error is Error {
  return error instanceof TransportError || isApiError(error, 'ServiceUnavailable', 'Timeout')
}

/**
 * Fields for a log line about something that failed: with the error and its stack where that may lead to a fault, else
 * with the message alone. There may be thousands of such lines while a server restarts.
 */
export function failureFields(error: unknown): { readonly err: unknown } | { readonly error: string } {
  return isServerAway(error) || isApiError(error, 'TooManyRequests')
    ? { error: error.message }
    : { err: error }
}
