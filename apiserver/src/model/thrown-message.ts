import { errorMessage, IndexValueError } from '@setpoint/controller-runtime/api'

/**
 * Returns the message of an error that a plugin's function threw. Of a sensitive kind only the server's own messages
 * are shown: others may repeat a value, as those of `JSON.parse` do.
 */
export function thrownMessage(error: unknown, isSensitive: boolean): string {
  return isSensitive && !(error instanceof IndexValueError)
    ? 'it threw an error, which is not shown because the kind is sensitive'
    : errorMessage(error)
}
