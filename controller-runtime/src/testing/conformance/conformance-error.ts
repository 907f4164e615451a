import { errorMessage } from '../../api/error-message.ts'
import { deedOf } from './finding.ts'
import { sideBySide } from './timeline.ts'

/**
 * A reconciler violates a guarantee. The message starts with one sentence that says what it did wrong, followed by the
 * guarantee, the disturbance, the difference, and the histories with and without the disturbance.
 */
export class ConformanceError extends Error {
  override readonly name = 'ConformanceError'
}

/** What is known of a failed case. */
export interface Failure {
  readonly guarantee: string
  /** Starts the sentence, for example "after a crash". */
  readonly after: string
  /** The disturbance, for example "it dies before call 2 (PATCH ...)". */
  readonly when: string | undefined
  readonly error: unknown
  readonly reference: readonly string[]
  readonly failing: readonly string[]
}

/** Returns the error of a failed case. */
export function failed({ guarantee, after, when, error, reference, failing }: Failure): ConformanceError {
  const details = errorMessage(error)
  const histories = failing.length === 0 ? '' : `\n\n${sideBySide(reference, failing)}`
  const disturbance = when === undefined ? '' : `\n  when ${when}`
  return new ConformanceError(
    `${after}, ${deedOf(error)}\n  violates: ${guarantee}${disturbance}\n  ${details.replaceAll('\n', '\n  ')}${histories}`,
    { cause: error },
  )
}
