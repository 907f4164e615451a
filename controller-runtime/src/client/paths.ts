import { groupResource } from '../api/group-resource.ts'
import type { Model } from '../api/model.ts'
import { type KeyParts, type ObjectKey, objectKey, splitObjectKey } from '../api/object-key.ts'
import { refuseNonModel } from '../api/refuse-non-model.ts'

/**
 * A call does not say which object it means, so that no request can be made of it. A class of its own, because a
 * function that fetches a token may throw a TypeError too, and that is worth another try.
 */
export class AddressError extends TypeError {}

type NamedKind = Pick<Model, 'group' | 'version' | 'plural' | 'scope'>

/**
 * `/apis/<group>/<version>/[namespaces/<namespace>/]<plural>`, or `/api/<version>/...` for the core group.
 * @param namespace of a namespaced kind; without it, the objects of all namespaces. Ignored for other kinds.
 */
export function collectionPath(model: NamedKind, namespace?: string): string {
  refuseNonModel(model)
  const { group, version, plural, scope } = model
  const root = group === '' ? '/api' : `/apis/${encodeURIComponent(group)}`
  const part = scope === 'Namespaced' && namespace ? `namespaces/${encodeURIComponent(namespace)}/` : ''
  return `${root}/${encodeURIComponent(version)}/${part}${encodeURIComponent(plural)}`
}

/**
 * The collection's path with the name.
 * @param key with the namespace, if it is another one than `namespace`
 * @throws AddressError for an empty name, which would address the collection, and without a namespace that the kind
 * needs.
 */
export function objectPath(model: NamedKind, key: ObjectKey, namespace?: string): string {
  if (typeof key !== 'string' || key === '') throw new AddressError('the object name must not be empty')
  // A cluster-scoped object has no namespace: a slash would be part of its name.
  if (model.scope !== 'Namespaced') return `${collectionPath(model)}/${encodeURIComponent(key)}`
  const parts = partsOfKey(model, key)
  const own = parts.namespace ?? namespace
  if (!own)
    throw new AddressError(
      withoutNamespace(model, `give the key <namespace>/<name> instead of ${JSON.stringify(key)}`),
    )
  return `${collectionPath(model, own)}/${encodeURIComponent(parts.name)}`
}

/** The path for creating objects. @throws AddressError without a namespace that the kind needs. */
export function creationPath(model: NamedKind, namespace: string | undefined): string {
  if (model.scope === 'Namespaced' && !namespace)
    throw new AddressError(withoutNamespace(model, 'set metadata.namespace'))
  return collectionPath(model, namespace)
}

function withoutNamespace(model: NamedKind, remedy: string): string {
  return `${groupResource(model)} are in namespaces: ${remedy}, or use client.inNamespace(namespace)`
}

/** The path for writing the status: the subresource if the model has one, else the object. */
export function statusPath(
  model: NamedKind & Pick<Model, 'subresources'>,
  key: ObjectKey,
  namespace?: string,
): string {
  const path = objectPath(model, key, namespace)
  return model.subresources.status ? `${path}/status` : path
}

/** The path of an action on an object. */
export function actionPath(
  { model, name }: { readonly model: NamedKind; readonly name: string },
  key: ObjectKey,
  namespace?: string,
): string {
  return `${objectPath(model, key, namespace)}/${encodeURIComponent(name)}`
}

/** Returns the namespace and the name in a key. */
export function partsOfKey({ scope }: Pick<Model, 'scope'>, key: ObjectKey): KeyParts {
  return scope === 'Namespaced' ? splitObjectKey(key) : { name: key }
}

/** Returns the key with a client's namespace, if the kind is namespaced and the key has only a name. */
export function qualifiedKey(
  { scope }: Pick<Model, 'scope'>,
  key: ObjectKey,
  namespace: string | undefined,
): ObjectKey {
  if (scope !== 'Namespaced' || namespace === undefined || key.includes('/')) return key
  return objectKey({ namespace, name: key })
}

/** Returns the key of a write's target: with the namespace, if it has one and the kind is namespaced. */
export function targetKey(
  { scope }: Pick<Model, 'scope'>,
  target: ObjectKey | { readonly metadata: KeyParts },
): ObjectKey {
  if (typeof target === 'string') return target
  return scope === 'Namespaced' ? objectKey(target.metadata) : target.metadata.name
}

/** Appends the defined parameters to a path; an array repeats its parameter. */
export function withQuery(path: string, query: object): string {
  const parameters = new URLSearchParams()
  for (const [key, value] of Object.entries(query)) {
    if (value === undefined) continue
    for (const element of Array.isArray(value) ? value : [value]) parameters.append(key, String(element))
  }
  return parameters.size === 0 ? path : `${path}?${parameters}`
}
