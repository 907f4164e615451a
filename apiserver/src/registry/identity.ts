import { type ObjectKey, splitObjectKey } from '@setpoint/controller-runtime/api'
import { quote, type ServedModel } from '../model/index.ts'
import type { ClientMeta } from './metadata.ts'
import { badRequest } from './refusals.ts'

/** @throws ApiError 400 if the metadata of a request names another object than its path */
export function checkIdentity(served: ServedModel, key: ObjectKey, meta: ClientMeta): void {
  const name = served.nameIn(key)
  if (served.indexes.isNamespaced) checkNamespace(splitObjectKey(key).namespace, meta)
  const { name: given } = meta
  if (given !== undefined && given !== name) {
    throw badRequest(`metadata.name ${quote(given)} differs from the name in the path, ${quote(name)}`)
  }
}

/** @throws ApiError 400 if the metadata of a request names another namespace than its path */
export function checkNamespace(namespace: string | undefined, { namespace: given }: ClientMeta): void {
  if (given === undefined || given === namespace) return
  const shown = typeof given === 'string' ? quote(given) : 'not a string'
  throw badRequest(
    `metadata.namespace is ${shown}, which differs from the namespace in the path, ${quote(namespace)}`,
  )
}
