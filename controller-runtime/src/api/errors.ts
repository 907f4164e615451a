/** The reasons for failed requests, with their HTTP status codes and meanings. Rendered into the docs. */
export const statusReasons = Object.freeze({
  BadRequest: {
    code: 400,
    meaning: 'The request cannot be understood: a malformed body, parameter or selector.',
  },
  Unauthorized: { code: 401, meaning: 'The request has no valid credentials.' },
  Forbidden: { code: 403, meaning: 'The caller may not do this.' },
  NotFound: { code: 404, meaning: 'No such object, kind or path.' },
  MethodNotAllowed: { code: 405, meaning: 'The path exists but not with this method; see the Allow header.' },
  NotAcceptable: { code: 406, meaning: 'None of the media types in Accept can be produced.' },
  AlreadyExists: { code: 409, meaning: 'The name, or a value of a unique index, is taken.' },
  Conflict: { code: 409, meaning: 'A precondition (version, uid) does not hold: read again and retry.' },
  Expired: { code: 410, meaning: 'The requested version is no longer kept, or has not been reached yet.' },
  RequestEntityTooLarge: { code: 413, meaning: 'The body, or the resulting object, is too large.' },
  UnsupportedMediaType: {
    code: 415,
    meaning: 'The content type of the body is not accepted here.',
  },
  Invalid: { code: 422, meaning: 'The object violates the rules of its kind; each violation is a cause.' },
  TooManyRequests: { code: 429, meaning: 'Too many requests: wait for Retry-After seconds.' },
  InternalError: { code: 500, meaning: 'A fault of the server or of a plugin; the log says more.' },
  ServiceUnavailable: { code: 503, meaning: 'The store or the kind is unavailable: retry.' },
  Timeout: { code: 504, meaning: 'No outcome in time. A write may or may not have happened.' },
})

/** The reason for a failed request: a key of `statusReasons`, stable over versions. */
export type StatusReason = keyof typeof statusReasons

/** One of several causes of a failure, usually of one field. */
export interface StatusCause {
  reason: string
  message: string
  /** Path of the field, for example `spec.url` or `spec.tags[2]`. */
  field?: string
}

/** The subject of a failed request, and when to retry. */
export interface StatusDetails {
  group?: string
  /** The plural of the kind, as in Kubernetes. */
  kind?: string
  name?: string
  uid?: string
  causes?: StatusCause[]
  retryAfterSeconds?: number
}

/** The body of every error response: Kubernetes' `Status`. */
export interface Status {
  kind: 'Status'
  apiVersion: 'v1'
  metadata: Record<string, never>
  status: 'Failure'
  message: string
  reason: StatusReason
  code: number
  details?: StatusDetails
}

/**
 * A failed request, on both sides of the wire: the server throws it, the client rejects with it. Distinguish cases by
 * `reason`, never by the message.
 */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly reason: StatusReason
  /** HTTP status code. */
  readonly code: number
  readonly details: StatusDetails | undefined

  constructor(reason: StatusReason, message: string, details?: StatusDetails, options?: ErrorOptions) {
    super(message, options)
    this.reason = reason
    this.code = statusReasons[reason].code
    this.details = details
  }

  toStatus(): Status {
    const status: Status = {
      kind: 'Status',
      apiVersion: 'v1',
      metadata: {},
      status: 'Failure',
      message: this.message,
      reason: this.reason,
      code: this.code,
    }
    if (this.details !== undefined) status.details = this.details
    return status
  }

  /** Returns the error of a response. If the body is not a Status, the reason follows from the code. */
  static fromResponse(code: number, body: unknown): ApiError {
    if (isStatus(body)) return new ApiError(body.reason, body.message, body.details)
    const reason = reasonOfCode(code)
    return new ApiError(reason, `the server responded with ${code}`)
  }
}

/** Returns true for an ApiError with one of the given reasons, or any reason if none are given. */
export function isApiError<R extends StatusReason>(
  error: unknown,
  ...reasons: R[]
): error is ApiError & { readonly reason: R } {
  return (
    error instanceof ApiError && (reasons.length === 0 || reasons.some(reason => reason === error.reason))
  )
}

/** Returns true if the object, kind or path does not exist. For an object, `details.name` is its name. */
export function isNotFound(error: unknown): error is ApiError & { readonly reason: 'NotFound' } {
  return isApiError(error, 'NotFound')
}

/** Returns true if the name or a value of a unique index is taken. For a value, `details.causes` names the index. */
export function isAlreadyExists(error: unknown): error is ApiError & { readonly reason: 'AlreadyExists' } {
  return isApiError(error, 'AlreadyExists')
}

/** Returns true if a given version or uid is not the current one: read again and retry. */
export function isConflict(error: unknown): error is ApiError & { readonly reason: 'Conflict' } {
  return isApiError(error, 'Conflict')
}

/** Returns true if the requested version is no longer kept: list again. */
export function isExpired(error: unknown): error is ApiError & { readonly reason: 'Expired' } {
  return isApiError(error, 'Expired')
}

/** Returns true if the object violates the rules of its kind. `details.causes` has every violation. */
export function isInvalid(error: unknown): error is ApiError & { readonly reason: 'Invalid' } {
  return isApiError(error, 'Invalid')
}

/** Returns true for the Status of a failure with a reason that this version knows. */
export function isStatus(value: unknown): value is Status {
  if (typeof value !== 'object' || value === null) return false
  const { kind, reason, message } = value as Partial<Status>
  return (
    kind === 'Status' &&
    typeof message === 'string' &&
    typeof reason === 'string' &&
    Object.hasOwn(statusReasons, reason)
  )
}

function reasonOfCode(code: number): StatusReason {
  for (const [reason, entry] of Object.entries(statusReasons)) {
    if (entry.code === code) return reason as StatusReason
  }
  return code >= 500 ? 'InternalError' : 'BadRequest'
}
