import { ApiError, isRecord } from '@setpoint/controller-runtime/api'
import { compileJsonPath, leadingFields } from '@setpoint/controller-runtime/internal'
import { quote, type ScalePaths } from '../model/index.ts'
import { applyPatch, badRequest, type Patch, type SubresourceForm } from '../registry/index.ts'

/** The metadata of an object that its Scale shows. */
interface ScaledMeta {
  readonly name: string
  readonly namespace?: string
  readonly uid: string
  readonly version: string
  readonly resourceVersion: string
  readonly creationTimestamp: string
}

/**
 * An object as the `autoscaling/v1` Scale of its kind shows it (`customresource/etcd.go`, `scaleFromCustomResource`).
 */
export interface Scale {
  readonly apiVersion: 'autoscaling/v1'
  readonly kind: 'Scale'
  readonly metadata: ScaledMeta
  readonly spec: { readonly replicas?: number }
  readonly status: { readonly replicas: number; readonly selector?: string }
}

/** A change of the replicas that a client asks for. */
export interface ScaleChange {
  readonly replicas: number
  readonly resourceVersion: string | undefined
}

/**
 * @param isPatched true for the Scale that a patch changes: it may lack a number
 * @throws ApiError 500, as in Kubernetes, for an object without a number of replicas, or with other types
 */
export function scaleOf(
  object: Readonly<Record<string, unknown>>,
  paths: ScalePaths,
  isPatched = false,
): Scale {
  const replicas = numberAt(object, paths.spec)
  if (replicas === undefined && !isPatched)
    throw new ApiError('InternalError', `the spec replicas field ${quote(paths.spec)} does not exist`)
  const selector = paths.selector === undefined ? undefined : compileJsonPath(paths.selector)(object)
  if (selector !== undefined && typeof selector !== 'string')
    throw new ApiError('InternalError', `the label selector field ${quote(paths.selector)} is not a text`)
  const { metadata } = object
  return {
    apiVersion: 'autoscaling/v1',
    kind: 'Scale',
    metadata: scaledMeta(isRecord(metadata) ? metadata : {}),
    // As in Go, zero is absent.
    spec: replicas ? { replicas } : {},
    status: {
      replicas: numberAt(object, paths.status) ?? 0,
      ...(selector !== undefined && selector !== '' && { selector }),
    },
  }
}

/** Reads a Scale that a client sends. @throws ApiError 400 */
export function readScale(document: unknown, name: string): ScaleChange {
  if (!isRecord(document)) throw badRequest('the body must be one object with apiVersion, kind and metadata')
  const { apiVersion = 'autoscaling/v1', kind = 'Scale', metadata, spec } = document
  if (apiVersion !== 'autoscaling/v1' || kind !== 'Scale')
    throw badRequest(
      `this path takes kind "Scale" of apiVersion "autoscaling/v1", the body is of kind ${quote(kind)} and apiVersion ${quote(apiVersion)}`,
    )
  const { name: given = name, resourceVersion } = isRecord(metadata) ? metadata : {}
  if (given !== name)
    throw badRequest(`metadata.name ${quote(given)} differs from the name in the path, ${quote(name)}`)
  const { replicas = 0 } = isRecord(spec) ? spec : {}
  // A number of Go's type int32.
  if (typeof replicas !== 'number' || (replicas | 0) !== replicas)
    throw badRequest(`spec.replicas must be an integer of 32 bits, is ${quote(replicas)}`)
  if (resourceVersion !== undefined && typeof resourceVersion !== 'string')
    throw badRequest('metadata.resourceVersion must be a string')
  return { replicas, resourceVersion: resourceVersion || undefined }
}

/** Returns the patch of an object that makes a change of its Scale. @param version the precondition, if there is one */
export function scalePatch(replicas: number, { spec }: ScalePaths, version: string | undefined): Patch {
  const value = leadingFields(spec).reduceRight<unknown>((below, field) => ({ [field]: below }), replicas)
  const metadata = version === undefined ? {} : { metadata: { resourceVersion: version } }
  return { type: 'merge', document: { ...metadata, ...(isRecord(value) && value) } }
}

/** Returns how an admission sees a write to the scale. */
export function scaleForm(paths: ScalePaths): SubresourceForm {
  return {
    subresource: 'scale',
    group: 'autoscaling',
    version: 'v1',
    kind: 'Scale',
    show(object) {
      const { metadata, ...scale } = scaleOf(object, paths, true)
      const { version: _version, ...shown } = metadata
      return { ...scale, metadata: shown }
    },
    take(object, shown) {
      const { replicas } = readScale(shown, String(object.metadata.name))
      return applyPatch(object, scalePatch(replicas, paths, undefined))
    },
  }
}

function numberAt(object: unknown, path: string): number | undefined {
  const value = compileJsonPath(path)(object)
  if (value === undefined) return undefined
  if (Number.isSafeInteger(value)) return Number(value)
  throw new ApiError('InternalError', `the field ${quote(path)} is not an integer`)
}

function scaledMeta({
  name,
  namespace,
  uid,
  version,
  resourceVersion,
  creationTimestamp,
}: Readonly<Record<string, unknown>>): ScaledMeta {
  return {
    name: String(name),
    ...(namespace !== undefined && { namespace: String(namespace) }),
    uid: String(uid),
    version: String(version),
    resourceVersion: String(resourceVersion),
    creationTimestamp: String(creationTimestamp),
  }
}
