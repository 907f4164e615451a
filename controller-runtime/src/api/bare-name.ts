import { groupResource } from './group-resource.ts'
import type { Model } from './model.ts'
import type { ObjectKey } from './object-key.ts'

/**
 * Refuses a key without a namespace for a namespaced kind: a cache has no object of that key, and `undefined` would
 * look like a missing object.
 * @throws TypeError
 */
export function refuseBareName(model: Pick<Model, 'group' | 'plural' | 'scope'>, key: ObjectKey): void {
  if (model.scope !== 'Namespaced' || key.includes('/')) return
  throw new TypeError(
    `${groupResource(model)} are in namespaces: give the key <namespace>/<name> instead of ${JSON.stringify(key)}`,
  )
}
