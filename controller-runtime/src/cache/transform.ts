import type { ApiObject } from '../api/object.ts'

/** Reduces objects before an informer caches them. */
export interface TransformOption<T extends ApiObject = ApiObject> {
  /**
   * Removes parts that no reader needs, such as large annotations or the status. The object is frozen; return a new
   * one:
   *
   *     ({ metadata: { annotations, ...metadata }, ...rest }) => ({ ...rest, metadata })
   *
   * Name, namespace, uid and version must not change. If the transform throws or changes one of them, the error is
   * logged and the object is cached unchanged. Write transformed objects with patches: an update would remove the
   * missing parts from the server too.
   */
  // Method syntax for bivariance: an informer of a specific type is usable as an informer of any type.
  transform?(object: T): T
}

/** @throws the error of the transform; TypeError if it changes name, namespace, uid or version. */
export function applyTransform<T extends ApiObject>(option: TransformOption<T>, object: T): T {
  if (option.transform === undefined) return object
  const kept = option.transform(object)
  const { name, namespace, uid, version } = object.metadata
  const { metadata } = kept
  if (
    metadata.name !== name ||
    metadata.namespace !== namespace ||
    metadata.uid !== uid ||
    metadata.version !== version
  ) {
    throw new TypeError('a transform must not change name, namespace, uid or version')
  }
  return kept
}
