import { ApiError } from '@setpoint/controller-runtime/api'
import type { Logger } from '../log.ts'
import { fromStorageError } from '../registry/index.ts'
import type { ApiResponse } from './api-request.ts'

const jsonHeaders = Object.freeze({ 'content-type': 'application/json' })

/**
 * What anything thrown becomes to a client. What is no ApiError is a fault of ours or of a plugin: the log gets it
 * whole, the client a 500 that says nothing of the inside.
 */
export function toApiError(thrown: unknown, log: Logger, what: object): ApiError {
  const error = fromStorageError(thrown)
  if (error instanceof ApiError) return error
  if (error instanceof URIError) return new ApiError('BadRequest', 'the path is not properly percent-encoded')
  log.error({ ...what, err: error }, 'a request failed')
  return new ApiError('InternalError', 'the server failed to answer this request; its log says more')
}

/** A Status answer, with the headers that go with its reason. */
export function errorResponse(error: ApiError, headers: Record<string, string> = {}): ApiResponse {
  const { retryAfterSeconds } = error.details ?? {}
  return {
    status: error.code,
    headers: {
      ...jsonHeaders,
      ...(retryAfterSeconds !== undefined && { 'retry-after': String(retryAfterSeconds) }),
      ...(error.code === 401 && { 'www-authenticate': 'Bearer realm="setpoint"' }),
      ...headers,
    },
    body: Buffer.from(JSON.stringify(error.toStatus())),
  }
}

/** A 405 that says what is allowed. */
export function methodNotAllowed(method: string, allowed: readonly string[]): ApiResponse {
  const error = new ApiError('MethodNotAllowed', `${method} is not allowed here, only ${allowed.join(', ')}`)
  return errorResponse(error, { allow: allowed.join(', ') })
}
