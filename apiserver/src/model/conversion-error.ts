import { ApiError, type StatusDetails } from '@setpoint/controller-runtime/api'

interface FailedConversion {
  /** The plugin whose function has failed. */
  readonly plugin?: string | undefined
  /** The name of the version that the object could not be converted to. */
  readonly to: string
  /** What went wrong, for the log and the plugin's status. */
  readonly problem: string
  /** True for the failure of a webhook, which may succeed the next time. */
  readonly mayPass?: boolean
  readonly details?: StatusDetails
  readonly cause?: unknown
}

/** A conversion has failed: a 500 that names the plugin, the object and the versions, or the webhook. */
export class ConversionError extends ApiError {
  readonly plugin: string | undefined
  readonly to: string
  readonly problem: string
  readonly mayPass: boolean

  constructor(message: string, { plugin, to, problem, mayPass = false, details, cause }: FailedConversion) {
    super('InternalError', message, details, { cause })
    this.plugin = plugin
    this.to = to
    this.problem = problem
    this.mayPass = mayPass
  }
}
