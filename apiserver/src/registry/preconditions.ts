import { compareVersions, isVersion, type ObjectKey } from '@setpoint/controller-runtime/api'
import type { ServedModel } from '../model/index.ts'
import { echo } from './causes.ts'
import { badRequest, conflict } from './refusals.ts'
import type { Preconditions } from './write-options.ts'

/** Reads the preconditions in an update's metadata. @throws ApiError 400 for a version that is not a number */
export function preconditionsOf(given: {
  uid?: string
  version?: string
  resourceVersion?: string
}): Preconditions {
  const preconditions: { uid?: string; versions?: string[] } = {}
  if (given.uid !== undefined) preconditions.uid = given.uid
  for (const field of ['version', 'resourceVersion'] as const) {
    const version = given[field]
    if (version === undefined) continue
    if (!isVersion(version))
      throw badRequest(
        `metadata.${field} ${JSON.stringify(echo(version))} is not a version: it must be a decimal number`,
      )
    preconditions.versions ??= []
    preconditions.versions.push(version)
  }
  return preconditions
}

/** @throws ApiError 409 if the stored object does not meet a precondition */
export function checkPreconditions(
  served: ServedModel,
  key: ObjectKey,
  wanted: Preconditions,
  uid: string,
  version: string,
): void {
  if (wanted.uid !== undefined && wanted.uid !== uid) {
    throw conflict(
      served,
      key,
      `the uid is ${uid}, not ${echo(wanted.uid)}: it is another object of the same name`,
    )
  }
  for (const given of wanted.versions ?? []) {
    if (compareVersions(given, version) !== 0) {
      throw conflict(
        served,
        key,
        `the object has been modified: its version is ${version}, not ${given}; apply your changes to the latest version and try again`,
      )
    }
  }
}

/** Reads preconditions of a DELETE. @throws ApiError 400 for a version that is not a number */
export function deletePreconditions(given: { uid?: string; versions: readonly string[] }): Preconditions {
  for (const version of given.versions) {
    if (!isVersion(version))
      throw badRequest(`the version ${JSON.stringify(echo(version))} is not a decimal number`)
  }
  return given.uid === undefined ? { versions: given.versions } : given
}
