import { ApiError, isRecord, type ObjectKey, type StatusCause } from '@setpoint/controller-runtime/api'
import { compileJsonPath } from '@setpoint/controller-runtime/internal'
import {
  type BareMeta,
  type BareObject,
  checkAnnotationKeys,
  quote,
  type ServedModel,
  type ServedVersion,
} from '../model/index.ts'
import type { Causes } from './causes.ts'
import type { ClientMeta } from './metadata.ts'
import { changesMetadata, type Patch } from './patch.ts'
import { badRequest, versionMissing } from './refusals.ts'
import { unknownFieldsOf } from './unknown-fields.ts'

/**
 * What a kube-apiserver checks in requests for objects of definitions, and Setpoint does not check or words otherwise
 * for the kinds of plugins. Each function does nothing for other kinds.
 */

/** @throws ApiError 422 for a body of another kind of the version, and a patch to another kind or version */
export function checkTypeMeta(
  { defined, apiVersion, kind, group }: ServedVersion,
  body: Readonly<Record<string, unknown>>,
  isPatched: boolean,
): void {
  const { apiVersion: given, kind: sent } = body
  if (defined === undefined || typeof given !== 'string' || typeof sent !== 'string') return
  if (given === '' || sent === '') return
  const causes: StatusCause[] = []
  const expect = (field: string, wanted: string, found: string) => {
    if (found !== wanted) causes.push({ reason: 'FieldValueInvalid', field, message: `must be ${wanted}` })
  }
  if (isPatched) expect('apiVersion', apiVersion, given)
  else if (given !== apiVersion) return
  expect('kind', kind, sent)
  if (causes.length === 0) return
  const { name } = isRecord(body.metadata) ? body.metadata : {}
  const shown = typeof name === 'string' ? name : ''
  const message = causes.map(cause => `${cause.field}: ${cause.message}`).join('; ')
  throw new ApiError('Invalid', `${sent}.${group} ${JSON.stringify(shown)} is invalid: ${message}`, {
    ...{ group, kind: sent, name: shown, causes },
  })
}

/**
 * Checks the identity that a patch leaves an object with.
 * @param patched the object after the patch
 * @throws ApiError 400 without a name; 422 without a version, or with another uid
 */
export function checkPatchedMeta(
  served: ServedModel,
  key: ObjectKey,
  patch: Patch,
  patched: unknown,
  meta: ClientMeta,
  stored: BareMeta,
): void {
  if (served.defined === undefined) return
  const name = served.nameIn(key)
  if (meta.name === undefined)
    throw badRequest(
      `the name of the object (${name} based on URL) was undeterminable: name must be provided`,
    )
  if (meta.uid !== undefined && meta.uid !== stored.uid) {
    const { group, kind } = served.model
    const field = 'metadata.uid'
    const message = 'field is immutable'
    throw new ApiError(
      'Invalid',
      `${served.kindTitle} ${JSON.stringify(name)} is invalid: ${field}: ${message}`,
      { group, kind, name, causes: [{ reason: 'FieldValueInvalid', field, message }] },
    )
  }
  const { resourceVersion } = isRecord(patched) && isRecord(patched.metadata) ? patched.metadata : {}
  if (changesMetadata(patch, 'resourceVersion') && isNoVersion(resourceVersion))
    throw versionMissing(served, key)
}

/** @throws ApiError 422 for a replacement without a version */
export function checkReplacedMeta(served: ServedModel, key: ObjectKey, meta: ClientMeta): void {
  const isNeeded = served.defined !== undefined || served.rules?.needsVersion
  if (isNeeded && isNoVersion(meta.resourceVersion ?? meta.version)) throw versionMissing(served, key)
}

function isNoVersion(version: unknown): boolean {
  return version === undefined || version === null || version === '' || version === '0'
}

/** @throws ApiError 400 for a configuration with a field that the schema does not declare */
export function checkDeclared(version: ServedVersion, configuration: unknown): void {
  if (version.defined === undefined || !isRecord(configuration)) return
  const { apiVersion: _apiVersion, kind: _kind, metadata: _metadata, ...content } = configuration
  const [unknown] = unknownFieldsOf(version.schemas, content)
  if (unknown !== undefined)
    throw badRequest(`failed to create typed patch object: .${unknown}: field not declared in schema`)
}

/** Adds the causes of metadata that Kubernetes checks more closely. */
export function checkMetaAsKubernetes(
  { defined }: ServedModel,
  { annotations, finalizers = [] }: BareMeta,
  previous: BareMeta | undefined,
  causes: Causes,
): void {
  if (defined === undefined) return
  const add = (field: string, message: string) =>
    causes.add({ reason: 'FieldValueInvalid', field: `metadata.${field}`, message })
  if (annotations !== previous?.annotations)
    for (const key of checkAnnotationKeys(annotations))
      add('annotations', `the key ${quote(key)} must be of the form <domain>/<name>, or a name`)
  const known = new Set(previous?.finalizers)
  for (const finalizer of finalizers)
    if (!known.has(finalizer) && !isFinalizer(finalizer))
      add('finalizers', `${quote(finalizer)} must be of the form <domain>/<name>, or a name`)
}

function isFinalizer(text: string): boolean {
  return /^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/.test(
    text,
  )
}

/** Adds the causes of numbers of replicas that an object's scale cannot show. */
export function checkScaled({ defined }: ServedVersion, object: BareObject, causes: Causes): void {
  const { scale } = defined ?? {}
  if (scale === undefined) return
  for (const path of [scale.spec, scale.status]) {
    const replicas = compileJsonPath(path)(object)
    if (replicas === undefined || (Number.isSafeInteger(replicas) && Number(replicas) >= 0)) continue
    causes.add({ reason: 'FieldValueInvalid', field: path, message: 'should be a non-negative integer' })
  }
}
