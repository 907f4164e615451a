import { decodeWire, type ServedModel } from '../model/index.ts'
import type { WriteResult } from '../registry/index.ts'
import type { ApiRequest, ApiResponse } from './api-request.ts'

/**
 * Returns true if the response to a DELETE of an object is a Status. For built-in kinds and those of definitions that
 * is so if the object was removed, as in Kubernetes; for sensitive kinds always, because a caller may delete objects
 * without being allowed to read them, and a dry run deletes nothing.
 */
export function isDeletionStatus(
  { model, hub, rules, defined }: ServedModel,
  { isRemoved }: WriteResult,
): boolean {
  const isOfKubernetes = hub.isBuiltIn || defined !== undefined
  return model.sensitive || (isOfKubernetes && isRemoved === true && rules?.returnsDeleted !== true)
}

/**
 * Returns a Status with the name and uid of an object that was deleted, in the form of Kubernetes.
 * @param deleted the object; undefined for a collection, and for an object that cannot be read
 */
export function deletionStatus(
  { group, plural, name: asked }: ApiRequest['path'],
  deleted: Buffer | undefined,
): ApiResponse {
  const { name, uid } = deleted === undefined ? { name: asked } : decodeWire(deleted).metadata
  const details = { name, group: group || undefined, kind: plural, uid }
  const status = { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success', details }
  return {
    status: 200,
    headers: { 'content-type': 'application/json', 'cache-control': 'no-cache, private' },
    body: Buffer.from(JSON.stringify(status)),
  }
}
