import type { DeepReadonly } from './deep-readonly.ts'
import type { ApiObject, ObjectMeta, OwnerReference } from './object.ts'

/**
 * Owner references: from a dependent to its owners. The collector deletes a dependent when its last owner is gone. The
 * uid identifies the owner; its kind and name only help to find it.
 *
 * These functions return copies, since cached objects are frozen.
 */

/** An object that may have owners: stored, or not yet created. */
export interface Dependent {
  readonly metadata: DeepReadonly<Partial<ObjectMeta>>
}

export interface OwnerReferenceOptions {
  /** If true, a foreground deletion of the owner waits until the dependent is gone. */
  readonly blockOwnerDeletion?: boolean
}

/** The dependent has another controller. An object has at most one, so that two never fight over it. */
export class AlreadyOwnedError extends Error {
  override readonly name = 'AlreadyOwnedError'
  /** The present controller. */
  readonly controller: OwnerReference

  constructor(dependent: Dependent, controller: OwnerReference) {
    const { name = dependent.metadata.generateName ?? '' } = dependent.metadata
    super(
      `${JSON.stringify(name)} is already controlled by ${controller.kind} ${JSON.stringify(controller.name)} (uid ${controller.uid})`,
    )
    this.controller = controller
  }
}

/**
 * Returns the dependent with `owner` as its controller, the owner that manages it. By default it blocks the owner's
 * foreground deletion. As in controller-runtime, replaces a reference to an earlier object of the same kind and name.
 * @throws AlreadyOwnedError if it has another controller; TypeError if the owner was never stored, or is in another
 *   namespace
 */
export function setControllerReference<T extends Dependent>(
  owner: DeepReadonly<ApiObject>,
  dependent: T,
  { blockOwnerDeletion = true }: OwnerReferenceOptions = {},
): T {
  refuseOtherNamespace(owner, dependent)
  const reference: OwnerReference = { ...referenceTo(owner), controller: true, blockOwnerDeletion }
  const controller = controllerOf(dependent)
  if (controller !== undefined && !namesSame(controller, reference)) {
    throw new AlreadyOwnedError(dependent, controller)
  }
  return withReference(dependent, reference)
}

/**
 * Returns the dependent with `owner` as one of its owners. Replaces an existing reference to the owner.
 * @throws TypeError if the owner was never stored, or is in another namespace
 */
export function setOwnerReference<T extends Dependent>(
  owner: DeepReadonly<ApiObject>,
  dependent: T,
  { blockOwnerDeletion }: OwnerReferenceOptions = {},
): T {
  refuseOtherNamespace(owner, dependent)
  const reference = referenceTo(owner)
  if (blockOwnerDeletion !== undefined) reference.blockOwnerDeletion = blockOwnerDeletion
  return withReference(dependent, reference)
}

/** Returns the dependent without its references to `owner`, and to earlier objects of that name. */
export function removeOwnerReference<T extends Dependent>(owner: DeepReadonly<ApiObject>, dependent: T): T {
  const reference = referenceTo(owner)
  const references = ownersOf(dependent)
  return withReferences(
    dependent,
    references.filter(other => other.uid !== reference.uid && !namesSame(other, reference)),
  )
}

/** Returns the reference to the owner that manages the object, or undefined. */
export function controllerOf(object: Dependent): OwnerReference | undefined {
  return ownersOf(object).find(reference => reference.controller === true)
}

/** Returns true if `owner` is an owner of the object, by uid. */
export function isOwnedBy(object: Dependent, owner: DeepReadonly<ApiObject>): boolean {
  const { uid } = owner.metadata
  return ownersOf(object).some(reference => reference.uid === uid)
}

/** Returns the group of an `apiVersion`. Kubernetes' core group is empty. */
export function groupOf(apiVersion: string): string {
  const slash = apiVersion.indexOf('/')
  return slash < 0 ? '' : apiVersion.slice(0, slash)
}

function ownersOf({ metadata }: Dependent): readonly OwnerReference[] {
  return metadata.ownerReferences ?? []
}

function referenceTo({ apiVersion, kind, metadata: { name, uid } }: DeepReadonly<ApiObject>): OwnerReference {
  for (const [field, value] of Object.entries({ apiVersion, kind, name, uid })) {
    if (typeof value !== 'string' || value === '') {
      throw new TypeError(`an owner must have been stored: it has no ${field}`)
    }
  }
  return { apiVersion, kind, name, uid }
}

/**
 * As in controller-runtime: a reference has no namespace, so the owner is cluster-scoped or in that of the dependent.
 */
function refuseOtherNamespace({ kind, metadata }: DeepReadonly<ApiObject>, dependent: Dependent): void {
  const { namespace, name } = metadata
  if (namespace === undefined || namespace === dependent.metadata.namespace) return
  const place = dependent.metadata.namespace ?? 'none'
  throw new TypeError(
    `the owner ${kind} ${name} is in the namespace ${namespace}, but the dependent's metadata.namespace is ${place}`,
  )
}

/** As in controller-runtime: the API version may differ, and the uid changes when the owner is recreated. */
function namesSame(left: OwnerReference, right: OwnerReference): boolean {
  return (
    left.kind === right.kind &&
    left.name === right.name &&
    groupOf(left.apiVersion) === groupOf(right.apiVersion)
  )
}

function withReference<T extends Dependent>(dependent: T, reference: OwnerReference): T {
  const references = [...ownersOf(dependent)]
  const at = references.findIndex(other => namesSame(other, reference))
  if (at < 0) references.push(reference)
  else references[at] = reference
  return withReferences(dependent, references)
}

function withReferences<T extends Dependent>(dependent: T, references: OwnerReference[]): T {
  const { ownerReferences: _, ...metadata } = dependent.metadata
  return {
    ...dependent,
    metadata: references.length === 0 ? metadata : { ...metadata, ownerReferences: references },
  }
}
