import { ApiError, type ObjectKey, splitObjectKey } from '@setpoint/controller-runtime/api'
import type { ServedModel } from '../model/index.ts'
import type { CallerRights } from '../registry/index.ts'
import type { ResourcePath } from './api-request.ts'
import { targetOfPath } from './request-info.ts'

/**
 * Returns what the caller of a write may do with the objects of its kind besides.
 * @param check throws ApiError 403 if the caller lacks the permission
 */
export function rightsOf(
  { model, indexes }: ServedModel,
  check: (verb: string, target: ResourcePath) => void,
): CallerRights {
  const targetOf = (key: ObjectKey): ResourcePath => {
    const { group, version, plural } = model
    const { namespace, name } = indexes.isNamespaced
      ? splitObjectKey(key)
      : { namespace: undefined, name: key }
    return targetOfPath({ group, version, plural, namespace, name, subresource: undefined })
  }
  return {
    checkCreation: key => check('create', targetOf(key)),
    mayRead(key) {
      try {
        check('get', targetOf(key))
        return true
      } catch (error) {
        if (error instanceof ApiError) return false
        throw error
      }
    },
  }
}
