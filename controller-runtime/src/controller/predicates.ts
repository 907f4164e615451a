import { isDeepStrictEqual } from 'node:util'
import type { ApiObject } from '../api/object.ts'

/** Whether the change from `before` to `after` concerns a controller. Must not throw; one that does lets the change pass. */
export type UpdatePredicate<T extends ApiObject = ApiObject> = (before: T, after: T) => boolean

/** Every change, status and all. */
export const anyChange: UpdatePredicate = () => true

/**
 * The default: every change but one of the status alone. The status is what reconcilers write; one that was woken by
 * its own status would never come to rest. As in java-operator-sdk's generation-aware filter, a change of finalizers
 * and the start of deletion pass; labels, annotations and owners do too.
 */
export const changedBeyondStatus: UpdatePredicate = (before, after) =>
  !isDeepStrictEqual(desired(before), desired(after))

function desired({ status: _status, metadata, ...content }: ApiObject): object {
  const { version: _version, resourceVersion: _resourceVersion, generation: _generation, ...meta } = metadata
  return { ...content, metadata: meta }
}
