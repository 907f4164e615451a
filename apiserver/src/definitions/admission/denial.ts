import { AdmissionError } from '../../registry/index.ts'
import type { AdmissionAttributes } from './attributes.ts'

/** The reasons that a policy can give, with their codes. */
const codes: Readonly<Record<string, number>> = {
  Forbidden: 403,
  Unauthorized: 401,
  RequestEntityTooLarge: 413,
  Invalid: 422,
}

/**
 * Returns the refusal of a write by a policy or by the match conditions of a webhook, worded as in Kubernetes.
 * @param causes messages
 */
export function forbiddenWrite(
  { resource, version: { group }, name: given, object }: AdmissionAttributes,
  why: string,
  reason = 'Forbidden',
  causes: readonly string[] = [],
): AdmissionError {
  const name = given || object?.metadata.name || object?.metadata.generateName || 'Unknown'
  const title = group === '' ? resource : `${resource}.${group}`
  const details = {
    name,
    ...(group !== '' && { group }),
    kind: resource,
    ...(causes.length > 0 && { causes: causes.map(message => ({ message })) }),
  }
  const message = `${title} ${JSON.stringify(name)} is forbidden: ${why}`
  return new AdmissionError('Forbidden', { message, reason, details, code: codes[reason] ?? 422 })
}

/** Returns the failure of an admission that the client has not caused, worded as in Kubernetes. */
export function internalFailure(problem: string, cause?: unknown): AdmissionError {
  const message = `Internal error occurred: ${problem}`
  const details = { causes: [{ message: problem }] }
  return new AdmissionError(
    'InternalError',
    { message, reason: 'InternalError', details, code: 500 },
    { cause },
  )
}
