import { ApiError } from '@setpoint/controller-runtime/api'

/** An object whose conversion is at issue. */
interface ConversionSubject {
  readonly plugin: string | undefined
  readonly group: string
  readonly plural: string
  readonly name: string
}

/** A conversion function of a plugin has failed: a 500 that names the plugin, the object and the versions. */
export class ConversionError extends ApiError {
  readonly plugin: string | undefined
  /** The version that the object could not be converted to. */
  readonly to: string
  /** What went wrong, for the log and the plugin's status. */
  readonly problem: string

  constructor(subject: ConversionSubject, from: string, to: string, problem: string, cause?: unknown) {
    const { plugin, group, plural, name } = subject
    super(
      'InternalError',
      `${plugin === undefined ? 'the server' : `plugin ${plugin}`} failed to convert ${plural}.${group} ${JSON.stringify(name)} from ${from} to ${to}`,
      { group, kind: plural, name },
      { cause },
    )
    this.plugin = plugin
    this.to = to
    this.problem = problem
  }
}
