import type { DeepReadonly } from '../api/deep-readonly.ts'
import { ApiError, isApiError } from '../api/errors.ts'
import type { Model } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'
import { objectKey } from '../api/object-key.ts'
import type { JsonPatchOperation } from '../client/bodies.ts'
import type { Client } from '../client/client.ts'

/**
 * The next step for an object, by whether it has the controller's finalizer and is being deleted:
 *
 *                        without our finalizer   with our finalizer
 *     not deleting       'add'                   'reconcile'
 *     deleting           'none'                  'finalize'
 *
 * Guarantee: if reconcile was called for an object, finalize succeeds before the object is removed. As in kube-rs
 * (`kube_runtime::finalizer`), a separate write adds the finalizer, and reconcile starts with the event that shows it.
 *
 * A controller without a finalizer always reconciles, also objects with a `deletionTimestamp`, as in Kubernetes.
 */
type FinalizerStep = 'add' | 'reconcile' | 'finalize' | 'none'

export function finalizerStep(
  { metadata }: DeepReadonly<ApiObject>,
  finalizer: string | undefined,
): FinalizerStep {
  if (finalizer === undefined) return 'reconcile'
  const present = metadata.finalizers?.includes(finalizer) ?? false
  if (metadata.deletionTimestamp === undefined) return present ? 'reconcile' : 'add'
  return present ? 'finalize' : 'none'
}

/**
 * Adds the finalizer, unless the object has changed since it was read.
 * @throws ApiError Conflict if it has changed or was deleted; its event follows.
 */
export async function addFinalizer<T extends ApiObject>(
  client: Client,
  model: Model<T>,
  object: DeepReadonly<T>,
  finalizer: string,
): Promise<void> {
  const { name, version, finalizers } = object.metadata
  const key = objectKey(object.metadata)
  const patch: JsonPatchOperation[] = [
    // The version covers everything: uid, the other finalizers, and that deletion has not started.
    { op: 'test', path: '/metadata/version', value: version },
    finalizers === undefined
      ? { op: 'add', path: '/metadata/finalizers', value: [finalizer] }
      : { op: 'add', path: '/metadata/finalizers/-', value: finalizer },
  ]
  try {
    await client.patch(model, key, patch)
  } catch (error) {
    if (!isApiError(error, 'Invalid')) throw error
    // A failed `test` is Invalid, as in Kubernetes; so is an object that violates its schema.
    const live = await client.getIfExists(model, key)
    if (live?.metadata.version === version) throw error
    throw new ApiError('Conflict', `${model.kind} ${name} has changed since it was read`, undefined, {
      cause: error,
    })
  }
}

/**
 * Removes this finalizer from this object. A patch that fails because of other writers is rebuilt from the stored
 * object. Does nothing if the object or the finalizer no longer exists.
 * @throws ApiError after `attempts` refused patches; any other error at once.
 */
export async function removeFinalizer<T extends ApiObject>(
  client: Client,
  model: Model<T>,
  object: DeepReadonly<T>,
  finalizer: string,
  attempts: number,
): Promise<void> {
  const { uid } = object.metadata
  const key = objectKey(object.metadata)
  let current: DeepReadonly<ApiObject> = object
  for (let attempt = 1; ; attempt++) {
    const index = current.metadata.finalizers?.indexOf(finalizer) ?? -1
    if (index === -1 || current.metadata.uid !== uid) return
    try {
      await client.patch(model, key, [
        { op: 'test', path: '/metadata/uid', value: uid },
        { op: 'test', path: `/metadata/finalizers/${index}`, value: finalizer },
        { op: 'remove', path: `/metadata/finalizers/${index}` },
      ])
      return
    } catch (error) {
      // A failed `test` is Invalid, as in Kubernetes, or Conflict.
      if (!isApiError(error, 'Conflict', 'Invalid', 'NotFound') || attempt >= attempts) throw error
    }
    const live = await client.getIfExists(model, key)
    if (live === undefined) return
    current = live
  }
}
