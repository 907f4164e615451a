import { isRecord } from '@setpoint/controller-runtime/api'
import type { ReviewContent, ReviewRequest, ServedModel } from '../model/index.ts'
import { Causes } from './causes.ts'
import { readClientObject } from './client-object.ts'
import { checkNamespace } from './identity.ts'
import { invalid } from './refusals.ts'
import { violationsLeft } from './violations.ts'
import type { WriteOptions } from './write-options.ts'

/** The body of a review, and the texts of `Warning` headers. */
interface ReadReview {
  readonly content: ReviewContent
  readonly metadata: ReviewRequest['metadata']
  readonly warnings: readonly string[]
}

/**
 * Checks the body of a review as that of any object, with its defaults. `apiVersion` and `kind` may be absent, as in
 * Kubernetes.
 * @throws ApiError 400, 422
 */
export function readReview(
  served: ServedModel,
  body: unknown,
  {
    fieldValidation,
    duplicates,
    namespace,
  }: Pick<WriteOptions, 'fieldValidation' | 'duplicates' | 'namespace'>,
): ReadReview {
  const { apiVersion, kind, schemas } = served.hub
  const client = readClientObject(served.hub, isRecord(body) ? { apiVersion, kind, ...body } : body, {
    fieldValidation,
    duplicates,
  })
  if (namespace !== undefined) checkNamespace(namespace, client.meta)
  const { status: _status, ...content } = client.content
  const metadata = { name: '', uid: '', creationTimestamp: '' }
  const object = schemas.withDefaults({ apiVersion, kind, metadata, spec: {}, ...content })
  const causes = new Causes(client.causes)
  for (const violation of violationsLeft(schemas, object, undefined)) causes.add(violation)
  if (!causes.isEmpty) throw invalid(served, '', causes)
  return { content: { spec: object.spec }, metadata: { ...client.meta }, warnings: client.warnings }
}
