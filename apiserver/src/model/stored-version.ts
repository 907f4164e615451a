import { ApiError, isApiError, isRecord } from '@setpoint/controller-runtime/api'
import { retryAfterSeconds } from '@setpoint/controller-runtime/internal'
import type { BareObject } from './bare-object.ts'
import { ConversionNeeded } from './converter.ts'
import { deepEqual } from './deep-equal.ts'
import { formatPath } from './field-path.ts'
import type { ServedModel } from './served-model.ts'
import type { ServedVersion } from './served-version.ts'
import { encodeObject } from './stored-object.ts'

/** A stored object at the hub, or the reason why it cannot be converted to the hub. */
type AtHub =
  | {
      /** The given one, unless it was converted. */
      readonly object: BareObject
      /** False if the object differs from the stored one: converted, pruned, with a default or without a generation. */
      readonly isAsStored: boolean
      readonly failure?: undefined
    }
  | { readonly object?: undefined; readonly failure: ApiError }

/**
 * Converts an object as it is stored to the hub, fills in the defaults of the schema, prunes unknown fields, if the
 * model says so, and takes out the generation of a kind without one. The schema may be newer than the object. The
 * failure is a ConversionError, or a 503 if this server does not know the version: another server may.
 * @param raw may be changed: it gets the defaults of its version, and loses a generation
 * @param how.asks false if a conversion whose outcome is not known counts as failed
 * @throws ConversionNeeded
 */
export function atHub(served: ServedModel, raw: BareObject, { asks = true } = {}): AtHub {
  const { hub, versions } = served
  const version =
    raw.apiVersion === hub.apiVersion ? hub : versions.find(({ apiVersion }) => apiVersion === raw.apiVersion)
  if (version === undefined) return { failure: unknownVersion(served, raw) }
  const isCompleted = version.schemas.applyDefaults(raw)
  // An earlier version of the server gave every object a generation.
  const isNumbered = !served.hasGeneration && raw.metadata.generation !== undefined
  if (isNumbered) delete raw.metadata.generation
  const object = version.schemas.prune(raw)
  if (version.isHub) return { object, isAsStored: !isCompleted && !isNumbered && object === raw }
  try {
    return { object: toCompleteHub(served, version, object), isAsStored: false }
  } catch (error) {
    if (isApiError(error)) return { failure: error }
    if (asks || !(error instanceof ConversionNeeded)) throw error
    return { failure: version.notConverted(object) }
  }
}

/** @throws ConversionError; ConversionNeeded */
function toCompleteHub(served: ServedModel, version: ServedVersion, raw: BareObject): BareObject {
  const object = version.toHub(raw)
  // As in Kubernetes, an object of a definition has the defaults of the version that it is stored in.
  if (version.defined === undefined) served.schemas.applyDefaults(object)
  return served.schemas.prune(object)
}

function unknownVersion({ model, title }: ServedModel, { metadata, apiVersion }: BareObject): ApiError {
  const { group, plural } = model
  return new ApiError(
    'ServiceUnavailable',
    `${title} ${JSON.stringify(metadata.name)} is stored in ${apiVersion}, which this server's plugin does not declare`,
    { group, kind: plural, name: metadata.name, retryAfterSeconds },
  )
}

/**
 * Returns the JSON of an object in the version that it is stored in. The conversion must lose nothing, because the
 * object is read back from there.
 * @param hubJson the object's JSON at the hub
 * @throws ConversionError; ConversionNeeded
 */
export function storedJson(
  served: ServedModel,
  version: ServedVersion,
  object: BareObject,
  hubJson: string,
): string {
  if (version.isHub) return hubJson
  const stored = version.fromHub(object)
  version.schemas.applyDefaults(stored)
  // Kubernetes drops what the other version does not have.
  if (version.defined !== undefined) return encodeObject(stored)
  const lost = firstDifference(object, toCompleteHub(served, version, stored), [])
  if (lost !== undefined) {
    const problem = `${formatPath(lost)} is lost in ${version.name}, the version that objects are stored in`
    throw version.failure(object.metadata.name, served.hub.name, version.name, problem, new Error(problem))
  }
  return encodeObject(stored)
}

/** Returns the path of the first field that differs. */
function firstDifference(
  left: unknown,
  right: unknown,
  path: readonly (string | number)[],
): (string | number)[] | undefined {
  if (deepEqual(left, right)) return undefined
  if (!isRecord(left) || !isRecord(right)) return [...path]
  for (const key of new Set([...Object.keys(left), ...Object.keys(right)])) {
    const found = firstDifference(left[key], right[key], [...path, key])
    if (found !== undefined) return found
  }
  return [...path]
}

/** Returns the form of an apiVersion that the model may not declare. */
export function wireVersionOf(apiVersion: string, kind: string) {
  const wirePrefix = `{"apiVersion":${JSON.stringify(apiVersion)},"kind":${JSON.stringify(kind)},"metadata":{"name":"`
  return { apiVersion, kind, wirePrefix }
}
