/**
 * Identifies an object among those of its kind: the name, or `<namespace>/<name>` if the kind is namespaced, as
 * client-go's `MetaNamespaceKeyFunc`. Neither part contains a slash.
 */
export type ObjectKey = string

/** The parts of a key. The metadata of an object has them. */
export interface KeyParts {
  /** Absent for objects of cluster-scoped kinds. */
  readonly namespace?: string | undefined
  readonly name: string
}

/** Returns the key of an object. */
export function objectKey({ namespace, name }: KeyParts): ObjectKey {
  return namespace === undefined ? name : `${namespace}/${name}`
}

/** Returns the namespace and the name in a key. */
export function splitObjectKey(key: ObjectKey): { namespace: string | undefined; name: string } {
  const slash = key.indexOf('/')
  return slash < 0
    ? { namespace: undefined, name: key }
    : { namespace: key.slice(0, slash), name: key.slice(slash + 1) }
}

/** Returns the name in a key. */
export function nameOfKey(key: ObjectKey): string {
  const slash = key.indexOf('/')
  return slash < 0 ? key : key.slice(slash + 1)
}
