import type { Review, ServedModel } from '../model/index.ts'
import { readReview } from '../registry/index.ts'
import type { ApiRequest, ApiResponse } from './api-request.ts'
import { MethodNotAllowedError } from './error-response.ts'
import { warningHeaders } from './warning-headers.ts'
import { readObject, readWriteOptions } from './write-parameters.ts'

/** The methods of a kind whose objects are answered and not stored. */
export const reviewMethods = ['POST'] as const

/** Responds to a review. Nothing is stored, so a dry run is no other request. @throws ApiError */
export async function respondToReview(
  served: ServedModel,
  review: Review,
  request: ApiRequest,
): Promise<ApiResponse> {
  const { method, path, caller, signal } = request
  if (method !== 'POST') throw new MethodNotAllowedError(method, reviewMethods)
  const options = readWriteOptions(request)
  const { document, duplicates } = await readObject(request, options.fieldValidation, served.hub)
  const { namespace, name } = path
  const read = readReview(served, document, { ...options, duplicates, namespace })
  const asked = { user: caller.user, namespace, name, metadata: read.metadata, signal }
  const { metadata: more, warnings = [], ...content } = await review.respond(read.content, asked)
  const { apiVersion, kind } = served.hub
  const metadata = { name, namespace, ...more }
  const texts = [...read.warnings, ...warnings]
  return {
    status: 201,
    headers: {
      'content-type': 'application/json',
      'cache-control': 'no-cache, private',
      ...(texts.length > 0 && { warning: warningHeaders(texts) }),
    },
    body: Buffer.from(JSON.stringify({ apiVersion, kind, metadata, ...content })),
  }
}
