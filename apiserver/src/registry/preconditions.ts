import { compareVersions, isVersion, type ObjectKey } from '@setpoint/controller-runtime/api'
import { echo, quote, type ServedModel } from '../model/index.ts'
import { badRequest, conflict } from './refusals.ts'
import type { Preconditions } from './write-options.ts'

/** The fields of an object's metadata with its version. */
export const versionFields = ['version', 'resourceVersion'] as const

/** Returns true if the metadata of an update has a version. */
export function hasVersion(given: { version?: string; resourceVersion?: string }): boolean {
  return versionFields.some(field => given[field] !== undefined)
}

/**
 * Reads the preconditions in an update's metadata. If `version` and `resourceVersion` differ, `resourceVersion`
 * decides: Kubernetes clients change it and carry the other along.
 * @throws ApiError 400 for a version that is not a number
 */
export function preconditionsOf(given: {
  uid?: string
  version?: string
  resourceVersion?: string
}): Preconditions {
  const fields: string[] = []
  for (const field of versionFields) {
    const version = given[field]
    if (version === undefined) continue
    if (!isVersion(version))
      throw badRequest(`metadata.${field} ${quote(version)} is not a version: it must be a decimal number`)
    fields.push(`metadata.${field}`)
  }
  const decisive = given.resourceVersion ?? given.version
  return {
    uid: given.uid,
    ...(decisive !== undefined && { versions: [decisive], versionFields: fields }),
  }
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
  const { versions = [], versionFields = ['the version'] } = wanted
  for (const given of versions) {
    if (compareVersions(given, version) !== 0) {
      throw conflict(
        served,
        key,
        `the object has been modified: its version is ${version}, not ${given}; apply your changes to the latest version and try again, or take out ${versionFields.join(' and ')} to change any version`,
      )
    }
  }
}

/**
 * Reads preconditions of a DELETE. A `resourceVersion` decides over a `version`.
 * @throws ApiError 400 for a version that is not a number
 */
export function deletePreconditions(given: {
  uid: string | undefined
  versions: readonly string[]
  resourceVersions: readonly string[]
}): Preconditions {
  const { uid, versions, resourceVersions } = given
  for (const version of [...versions, ...resourceVersions]) {
    if (!isVersion(version)) throw badRequest(`the version ${quote(version)} is not a decimal number`)
  }
  return {
    uid,
    versions: resourceVersions.length > 0 ? resourceVersions : versions,
    versionFields: [
      ...(versions.length > 0 ? ['the precondition version'] : []),
      ...(resourceVersions.length > 0 ? ['the precondition resourceVersion'] : []),
    ],
  }
}
