import { decodeWire, type ServedModel } from '../model/index.ts'
import type { ApiResponse } from './api-request.ts'

/**
 * Returns the response to a DELETE of a sensitive kind. It shows no object, because a caller may delete objects without being
 * allowed to read them, and a dry run deletes nothing. The form is that of Kubernetes, where an object was removed.
 * @param deleted the object; undefined for a collection
 */
export function deletionStatus({ model }: ServedModel, deleted: Buffer | undefined): ApiResponse {
  const { name, uid } = deleted === undefined ? {} : decodeWire(deleted).metadata
  const details = { name, group: model.group || undefined, kind: model.plural, uid }
  const status = { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success', details }
  return {
    status: 200,
    headers: { 'content-type': 'application/json', 'cache-control': 'no-cache, private' },
    body: Buffer.from(JSON.stringify(status)),
  }
}
