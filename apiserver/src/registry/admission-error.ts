import { ApiError, type StatusReason } from '@setpoint/controller-runtime/api'

/**
 * An admission refuses a write, with a status of its own: a webhook may choose code and reason. `reason` is none of
 * those that the server itself acts on.
 */
export class AdmissionError extends ApiError {
  /** The body of the response. */
  readonly status: Readonly<Record<string, unknown>>
  override readonly code: number

  constructor(
    reason: Extract<StatusReason, 'Forbidden' | 'InternalError'>,
    status: { readonly message: string; readonly code: number; readonly [field: string]: unknown },
    options?: ErrorOptions,
  ) {
    super(reason, status.message, undefined, options)
    this.code = status.code
    this.status = { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', ...status }
  }
}
