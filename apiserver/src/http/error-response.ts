import { ApiError, isApiError } from '@setpoint/controller-runtime/api'
import type { AuditOutcome } from '../audit/index.ts'
import type { Logger } from '../log/index.ts'
import { ConversionError } from '../model/index.ts'
import { AdmissionError, fromStorageError } from '../registry/index.ts'
import type { ApiResponse } from './api-request.ts'

const jsonHeaders = Object.freeze({ 'content-type': 'application/json' })

/** 405 with the methods that the path takes (RFC 9110, 15.5.6). */
export class MethodNotAllowedError extends ApiError {
  readonly allowed: readonly string[]

  /** @param hint where else the request belongs */
  constructor(method: string, allowed: readonly string[], hint?: string) {
    const message = `${method} is not allowed here, only ${allowed.join(', ')}`
    super('MethodNotAllowed', hint === undefined ? message : `${message}: ${hint}`)
    this.allowed = allowed
  }
}

/** 400 with the version of the protocol that is supported (RFC 6455, 4.2.2). */
export class MalformedHandshakeError extends ApiError {
  constructor(why: string) {
    super('BadRequest', `malformed WebSocket handshake: ${why}`)
  }
}

/**
 * Converts a thrown value to the error that the client receives. An unexpected value is a bug of the server or of a
 * plugin: it is logged in full, and the client receives a 500 without details.
 */
export function toApiError(thrown: unknown, log: Logger, fields: object): ApiError {
  const error = fromStorageError(thrown)
  if (error instanceof ConversionError)
    log.error({ ...fields, plugin: error.plugin, err: error.cause }, error.message)
  else if (error instanceof ApiError && error.reason === 'InternalError')
    log.error({ ...fields, err: error }, 'failed to handle request')
  if (error instanceof ApiError) return error
  if (error instanceof URIError) return new ApiError('BadRequest', 'the path is not properly percent-encoded')
  log.error({ ...fields, err: error }, 'failed to handle request')
  return internalError()
}

/** A 500 that tells the client nothing about the cause. */
export function internalError(): ApiError {
  return new ApiError('InternalError', 'the server failed to handle this request; see its log')
}

/** The same for a fault of a plugin, which it names. */
export function pluginError(plugin: string, cause: unknown): ApiError {
  const message = `plugin ${plugin} failed to handle this request; see the server's log`
  return new ApiError('InternalError', message, undefined, { cause })
}

/** Returns what a developer wants to know of the fault behind a 500, or undefined. */
export type ExplainFault = (error: unknown) => string | undefined

/** Adds the explanation of the fault to a 500. Other errors are returned unchanged. */
export function explained(error: ApiError, thrown: unknown, explain: ExplainFault): ApiError {
  if (error.reason !== 'InternalError') return error
  const explanation = explain(error.cause ?? thrown)
  if (explanation === undefined) return error
  return new ApiError('InternalError', `${error.message}\n\n${explanation}`)
}

/** A response with a Status body and the headers that its reason requires. */
export function errorResponse(error: ApiError): ApiResponse {
  const { retryAfterSeconds } = error.details ?? {}
  return {
    status: error.code,
    headers: {
      ...jsonHeaders,
      ...(retryAfterSeconds !== undefined && { 'retry-after': String(retryAfterSeconds) }),
      ...(error.code === 401 && { 'www-authenticate': 'Bearer realm="setpoint"' }),
      ...(error instanceof MethodNotAllowedError && { allow: error.allowed.join(', ') }),
      ...(error instanceof MalformedHandshakeError && { 'sec-websocket-version': '13' }),
    },
    body: Buffer.from(JSON.stringify(error instanceof AdmissionError ? error.status : error.toStatus())),
  }
}

/**
 * Returns the outcome of a request that has no response of its own.
 * @param signal aborted if its client has left
 */
export function auditOutcomeOf(error: unknown, signal?: AbortSignal): AuditOutcome {
  if (!isApiError(error)) return { code: signal?.aborted ? undefined : 500 }
  const { status, body } = errorResponse(error)
  return { code: status, body }
}
