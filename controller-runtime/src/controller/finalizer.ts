import { ApiError, isApiError } from '../api/errors.ts'
import type { Model } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'
import type { Client, JsonPatchOperation } from '../client/client.ts'

/**
 * What is due for an object, by whether the controller's finalizer is on it and whether it is being deleted:
 *
 *                        without our finalizer   with it
 *     there              'add'                   'reconcile'
 *     being deleted      'none'                  'finalize'
 *
 * Guarantee: if reconcile ever began for an object, finalize succeeds before that object goes. As in kube-rs
 * (`kube_runtime::finalizer`): the finalizer is stored by a write of its own, and reconcile begins with the event
 * that shows it.
 *
 * A controller without a finalizer reconciles always, also what is being deleted (its `deletionTimestamp` is set),
 * as in Kubernetes.
 */
export type FinalizerStep = 'add' | 'reconcile' | 'finalize' | 'none'

export function finalizerStep({ metadata }: ApiObject, finalizer: string | undefined): FinalizerStep {
  if (finalizer === undefined) return 'reconcile'
  const present = metadata.finalizers?.includes(finalizer) ?? false
  if (metadata.deletionTimestamp === undefined) return present ? 'reconcile' : 'add'
  return present ? 'finalize' : 'none'
}

/**
 * Stores the finalizer, unless the object has changed since it was read.
 * @throws ApiError Conflict when it has changed or gone; its event follows.
 */
export async function addFinalizer<T extends ApiObject>(
  client: Client,
  model: Model<T>,
  object: T,
  finalizer: string,
): Promise<void> {
  const { name, version, finalizers } = object.metadata
  const patch: JsonPatchOperation[] = [
    // The version stands for everything: uid, the other finalizers, and that deletion has not begun.
    { op: 'test', path: '/metadata/version', value: version },
    finalizers === undefined
      ? { op: 'add', path: '/metadata/finalizers', value: [finalizer] }
      : { op: 'add', path: '/metadata/finalizers/-', value: finalizer },
  ]
  try {
    await client.patch(model, name, patch)
  } catch (error) {
    if (!isApiError(error, 'Invalid')) throw error
    // A `test` that does not hold is Invalid, as in Kubernetes; so is an object that the schema does not allow.
    const live = await client.getIfExists(model, name)
    if (live?.metadata.version === version) throw error
    throw new ApiError('Conflict', `${model.kind} ${name} has changed since it was read`, undefined, {
      cause: error,
    })
  }
}

/**
 * Takes exactly this finalizer off exactly this object: the patch fails rather than touch another's, and is then made
 * anew from what is stored. Nothing to do, and no error, where the object or the finalizer has gone already.
 * @throws ApiError when `attempts` patches were refused; any other error at once.
 */
export async function removeFinalizer<T extends ApiObject>(
  client: Client,
  model: Model<T>,
  object: T,
  finalizer: string,
  attempts: number,
): Promise<void> {
  const { name, uid } = object.metadata
  let current = object
  for (let attempt = 1; ; attempt++) {
    const index = current.metadata.finalizers?.indexOf(finalizer) ?? -1
    if (index === -1 || current.metadata.uid !== uid) return
    try {
      await client.patch(model, name, [
        { op: 'test', path: '/metadata/uid', value: uid },
        { op: 'test', path: `/metadata/finalizers/${index}`, value: finalizer },
        { op: 'remove', path: `/metadata/finalizers/${index}` },
      ])
      return
    } catch (error) {
      // A test that does not hold is Invalid, as in Kubernetes, or Conflict.
      if (!isApiError(error, 'Conflict', 'Invalid', 'NotFound') || attempt >= attempts) throw error
    }
    const live = await client.getIfExists(model, name)
    if (live === undefined) return
    current = live
  }
}
