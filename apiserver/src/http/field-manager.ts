import { ApiError, type StatusCause } from '@setpoint/controller-runtime/api'
import { managerOfUserAgent, problemOfManager } from '../registry/index.ts'
import { type ApiRequest, headerOf } from './api-request.ts'
import { readBoolean } from './query-parameters.ts'

/**
 * Returns a function that names the owner of the fields that a write changes: the parameter `fieldManager`, or else the
 * plugin, or else the User-Agent up to its first slash. Few objects are tracked, so most writes do not call it.
 * @throws ApiError 422 for an invalid parameter
 */
export function readManager({ method, query, caller, headers }: ApiRequest): () => string | undefined {
  const given = query.get('fieldManager')
  if (given === null || given === '')
    return () => (caller.plugin ?? managerOfUserAgent(headerOf(headers, 'user-agent') ?? '')) || undefined
  const problem = problemOfManager(given)
  if (problem !== undefined) throw invalidOptions(method, { field: 'fieldManager', ...problem })
  return () => given
}

/**
 * Reads the options that only an apply has.
 * @returns whether it takes fields from other managers; undefined if the patch is no apply
 * @throws ApiError 422 without `fieldManager`, or for `force` on another patch; 400 for an unknown value
 */
export function readForce({ method, query }: ApiRequest, isApply: boolean): boolean | undefined {
  if (!isApply) {
    if (!query.has('force')) return undefined
    const message = 'may not be given for a patch that is no apply'
    throw invalidOptions(method, { reason: 'FieldValueForbidden', field: 'force', message })
  }
  if (!query.get('fieldManager')) {
    const message = 'is required for an apply: the name of the manager that owns the fields'
    throw invalidOptions(method, { reason: 'FieldValueRequired', field: 'fieldManager', message })
  }
  return readBoolean(query, 'force') ?? false
}

/** The kind of the options of each method, as Kubernetes names it in errors. */
const optionsKinds: Readonly<Record<string, string>> = Object.freeze({
  POST: 'CreateOptions',
  PUT: 'UpdateOptions',
  PATCH: 'PatchOptions',
  DELETE: 'DeleteOptions',
})

/** Returns the 422 for an invalid option of a write, in the form of Kubernetes. */
export function invalidOptions(method: string, cause: StatusCause): ApiError {
  const kind = optionsKinds[method] ?? 'PatchOptions'
  return new ApiError('Invalid', `${kind}.meta.k8s.io "" is invalid: ${cause.field}: ${cause.message}`, {
    group: 'meta.k8s.io',
    kind,
    causes: [cause],
  })
}
