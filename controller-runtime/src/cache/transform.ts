import type { ApiObject } from '../api/object.ts'

/** What an informer makes of objects before it keeps them. */
export interface TransformOption<T extends ApiObject = ApiObject> {
  /**
   * Takes from each object what nobody will read, before it is kept: large annotations, a status. The object that
   * comes in is frozen: answer another one, as in
   *
   *     ({ metadata: { annotations, ...metadata }, ...rest }) => ({ ...rest, metadata })
   *
   * Name, uid and version must stay. Where it throws, or changes one of them, the object is kept whole and the log says
   * so. Whoever reads the cache misses what was taken away: write by patches, a replacement would take it away from
   * the server too.
   */
  // Method syntax on purpose: an informer of a specific object type is usable where any informer is expected.
  transform?(object: T): T
}

/** @throws what the transform throws, TypeError where it changes what identifies the object. */
export function applyTransform<T extends ApiObject>(option: TransformOption<T>, object: T): T {
  if (option.transform === undefined) return object
  const kept = option.transform(object)
  const { name, uid, version } = object.metadata
  const { metadata } = kept
  if (metadata.name !== name || metadata.uid !== uid || metadata.version !== version) {
    throw new TypeError('a transform must leave name, uid and version as they are')
  }
  return kept
}
