import {
  ApiError,
  type ObjectKey,
  type StatusCause,
  type StatusDetails,
} from '@setpoint/controller-runtime/api'
import { retryAfterSeconds } from '@setpoint/controller-runtime/internal'
import { echoName, type ServedModel } from '../model/index.ts'
import {
  CompactedError,
  FutureRevisionError,
  IncompleteRestoreError,
  incompleteRestore,
  KeyUnavailableError,
  OutcomeUnknownError,
  StoreFullError,
  StoreUnavailableError,
  WrongStoreError,
} from '../storage/index.ts'
import type { Causes } from './causes.ts'

function detailsOf(served: ServedModel, key?: ObjectKey): StatusDetails {
  const { group, plural } = served.model
  return key === undefined ? { group, kind: plural } : { group, kind: plural, name: nameIn(served, key) }
}

/** A path may have a name that is longer than any object's. */
function nameIn(served: ServedModel, key: ObjectKey): string {
  return echoName(served.nameIn(key))
}

/** Returns the kind and the name for messages. As in Kubernetes, without the namespace. */
function shown(served: ServedModel, key: ObjectKey): string {
  return `${served.title} ${JSON.stringify(nameIn(served, key))}`
}

export function notFound(served: ServedModel, key: ObjectKey): ApiError {
  return new ApiError('NotFound', `${shown(served, key)} not found`, detailsOf(served, key))
}

/**
 * Refuses to show or change an object whose stored value cannot be decrypted or decoded. @param problem a clause about
 * the value
 */
export function unreadable(served: ServedModel, key: ObjectKey, problem: string): ApiError {
  return new ApiError(
    'InternalError',
    `${shown(served, key)} cannot be read: its stored value ${problem}`,
    detailsOf(served, key),
  )
}

/** Refuses to remove an object without its finalizers, because it can be read. As in Kubernetes. */
export function stillReadable(served: ServedModel, key: ObjectKey): ApiError {
  const field = 'ignoreStoreReadErrorWithClusterBreakingPotential'
  const message = 'is only for objects that cannot be read, and this one can: delete it without the option'
  return new ApiError('Invalid', `${shown(served, key)} is not deleted: ${field} ${message}`, {
    ...detailsOf(served, key),
    causes: [{ reason: 'FieldValueInvalid', field, message }],
  })
}

export function nameTaken(served: ServedModel, key: ObjectKey, deleting: boolean): ApiError {
  const message = `${shown(served, key)} already exists`
  return new ApiError(
    'AlreadyExists',
    deleting ? `object is being deleted: ${message}` : message,
    detailsOf(served, key),
  )
}

export function valuesTaken(served: ServedModel, key: ObjectKey, causes: StatusCause[]): ApiError {
  const message = `${shown(served, key)}: ${causes.map(cause => cause.message).join('; ')}`
  return new ApiError('AlreadyExists', message, { ...detailsOf(served, key), causes })
}

export function conflict(served: ServedModel, key: ObjectKey, why: string): ApiError {
  const message = `operation cannot be fulfilled on ${shown(served, key)}: ${why}`
  return new ApiError('Conflict', message, detailsOf(served, key))
}

/** Refuses a write that other writes of its object have kept from succeeding. */
export function outpaced(served: ServedModel, key: ObjectKey): ApiError {
  const message = `other writes to ${shown(served, key)} always came first: nothing was changed, try again`
  return new ApiError('TooManyRequests', message, { ...detailsOf(served, key), retryAfterSeconds })
}

/** Reports all violations together. The message spells out the first few. */
export function invalid(served: ServedModel, name: string, causes: Causes): ApiError {
  const { overflows } = causes
  const reported = served.defined === undefined ? causes.reported : causes.reported.map(asInKubernetes)
  const messages = reported
    .slice(0, 8)
    .map(cause => (cause.field === undefined ? cause.message : `${cause.field}: ${cause.message}`))
  const left = reported.length - messages.length
  if (left > 0) messages.push(overflows ? `and more than ${left} more` : `and ${left} more`)
  const shownName = echoName(name)
  const message = `${served.kindTitle} ${JSON.stringify(shownName)} is invalid: ${messages.join('; ')}`
  // As in Kubernetes, this error alone names the kind: kubectl prints `The Widget "a" is invalid`.
  const { group, kind } = served.model
  return new ApiError('Invalid', message, { group, kind, name: shownName, causes: [...reported] })
}

export function definitionEnding(served: ServedModel, key: ObjectKey): ApiError {
  const message = `${served.title} is forbidden: create not allowed while custom resource definition is terminating`
  return new ApiError('Forbidden', message, detailsOf(served, key))
}

/** Returns a cause about metadata with the field that Kubernetes names. */
function asInKubernetes(cause: StatusCause): StatusCause {
  const { field = '' } = cause
  const [, part, owner] =
    /^metadata\.(?:(labels|finalizers)\[.*|ownerReferences\[\d+\](.*))$/.exec(field) ?? []
  if (part !== undefined) return { ...cause, field: `metadata.${part}` }
  if (owner === undefined) return cause
  if (owner === '.controller') return { ...cause, field: 'metadata.ownerReferences' }
  return { ...cause, field: `metadata.ownerReferences${owner}`, reason: 'FieldValueInvalid' }
}

/** Refuses an update of a definition's object without a version, as Kubernetes does. */
export function versionMissing(served: ServedModel, key: ObjectKey): ApiError {
  const field = 'metadata.resourceVersion'
  const message = 'must be specified for an update'
  const name = nameIn(served, key)
  const { group, plural: kind } = served.model
  return new ApiError('Invalid', `${served.title} ${JSON.stringify(name)} is invalid: ${field}: ${message}`, {
    group,
    kind,
    name,
    causes: [{ reason: 'FieldValueInvalid', field, message }],
  })
}

export function badRequest(message: string): ApiError {
  return new ApiError('BadRequest', message)
}

export function notReady(served: ServedModel, why: string): ApiError {
  return new ApiError('ServiceUnavailable', `${served.title} is not available: ${why}`, {
    ...detailsOf(served),
    retryAfterSeconds,
  })
}

/** Converts an error of the store to an ApiError. Returns any other error unchanged. */
export function fromStorageError(error: unknown): unknown {
  if (error instanceof StoreUnavailableError) {
    const why =
      error instanceof IncompleteRestoreError
        ? incompleteRestore
        : error instanceof KeyUnavailableError
          ? error.message
          : error instanceof WrongStoreError
            ? 'the endpoints lead to the wrong store, see /readyz?verbose'
            : 'the store cannot be reached'
    return new ApiError(
      'ServiceUnavailable',
      `${why}: nothing was changed, try again`,
      { retryAfterSeconds },
      { cause: error },
    )
  }
  if (error instanceof OutcomeUnknownError) {
    return new ApiError(
      'Timeout',
      'the store has not answered: the change may have happened, read the object before trying again',
      { retryAfterSeconds },
      { cause: error },
    )
  }
  if (error instanceof StoreFullError) {
    return new ApiError(
      'ServiceUnavailable',
      `the store is full and takes only deletions: ${error.message}`,
      { retryAfterSeconds: 30 },
      { cause: error },
    )
  }
  if (error instanceof CompactedError || error instanceof FutureRevisionError) {
    return new ApiError('Expired', error.message, undefined, { cause: error })
  }
  return error
}

/** Waits for a call of the store, and converts its errors to ApiErrors. */
export async function withApiErrors<T>(call: Promise<T>): Promise<T> {
  try {
    return await call
  } catch (error) {
    throw fromStorageError(error)
  }
}
