import { isRecord } from '@setpoint/controller-runtime/api'
import { recordOf, textOf } from '../../kubernetes/index.ts'
import type { BareObject, JsonObject } from '../../model/index.ts'

const group = 'apiextensions.k8s.io'

/** The versions of ConversionReview that the server can send. */
type ReviewVersion = 'v1' | 'v1beta1'

/** Returns the first of the versions that a webhook takes which the server can send; undefined if there is none. */
export function reviewVersionOf(versions: readonly string[]): ReviewVersion | undefined {
  return versions.find(version => version === 'v1' || version === 'v1beta1')
}

export function reviewRequest(
  version: ReviewVersion,
  uid: string,
  desiredAPIVersion: string,
  objects: readonly BareObject[],
): JsonObject {
  const apiVersion = `${group}/${version}`
  const request = { uid, desiredAPIVersion, objects: objects.map(sent) }
  return { kind: 'ConversionReview', apiVersion, request }
}

/** Returns an object without the metadata that one has only once it is created. Go parses no empty time. */
function sent({ metadata, ...object }: BareObject): JsonObject {
  const given = Object.entries(metadata).filter(([, value]) => value !== '')
  return { ...object, metadata: Object.fromEntries(given) }
}

/** The webhook has refused to convert. Another object may fare better. */
export class RefusedConversionError extends Error {}

/**
 * Returns the converted objects of a response. The rules and messages are those of Kubernetes (`webhook_converter.go`), which
 * checks less of a v1beta1 response.
 * @throws RefusedConversionError; Error if it is not the response to the request
 */
export function convertedObjects(version: ReviewVersion, uid: string, document: unknown): unknown[] {
  const review = recordOf(document)
  if (version === 'v1' && (review.apiVersion !== `${group}/v1` || review.kind !== 'ConversionReview'))
    throw new Error(
      `expected webhook response of ${group}/v1, Kind=ConversionReview, got ${shown(review.apiVersion)}, Kind=${shown(review.kind)}`,
    )
  const { response } = review
  if (!isRecord(response)) throw new Error('no response provided')
  if (version === 'v1' && response.uid !== uid)
    throw new Error(
      `expected response.uid=${JSON.stringify(uid)}, got ${JSON.stringify(shown(response.uid))}`,
    )
  const result = recordOf(response.result)
  if (result.status !== 'Success')
    throw new RefusedConversionError(
      shown(result.message) || `response.result.status was '${shown(result.status)}', not 'Success'`,
    )
  return Array.isArray(response.convertedObjects) ? response.convertedObjects : []
}

const longestShown = 1_000

function shown(value: unknown): string {
  return textOf(value).slice(0, longestShown)
}
