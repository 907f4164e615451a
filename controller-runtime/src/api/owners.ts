import type { ApiObject, ObjectMeta, OwnerReference } from './object.ts'

/**
 * Owner references: from a dependent to the objects that it exists for. The collector deletes a dependent once none
 * of its owners exists any more. The uid decides which object is meant; name and kind only say where to look for it.
 *
 * Nothing here changes what it is given: objects from a cache are frozen, and what comes back can be written.
 */

/** An object that may have owners: a stored one, or one that is yet to be created. */
export interface Dependent {
  readonly metadata: Readonly<Partial<ObjectMeta>>
}

/** How an owner reference is set. */
export interface OwnerReferenceOptions {
  /** Whether the owner, deleted with the policy Foreground, waits until the dependent has gone. */
  readonly blockOwnerDeletion?: boolean
}

/** The dependent has another controller. An object has one at most, so that two never fight over it. */
export class AlreadyOwnedError extends Error {
  override readonly name = 'AlreadyOwnedError'
  /** The controller that it has. */
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
 * The dependent with `owner` as its controller: the one owner that manages it. Unless said otherwise it blocks the
 * owner's foreground deletion. As in controller-runtime, a reference to an earlier object of the same kind and name
 * is brought up to date.
 * @throws AlreadyOwnedError when it has another controller, TypeError when the owner was never stored.
 */
export function setControllerReference<T extends Dependent>(
  owner: ApiObject,
  dependent: T,
  { blockOwnerDeletion = true }: OwnerReferenceOptions = {},
): T {
  const reference: OwnerReference = { ...referenceTo(owner), controller: true, blockOwnerDeletion }
  const controller = controllerOf(dependent)
  if (controller !== undefined && !namesSame(controller, reference)) {
    throw new AlreadyOwnedError(dependent, controller)
  }
  return withReference(dependent, reference)
}

/**
 * The dependent with `owner` as one of its owners. A reference to it that is there is replaced.
 * @throws TypeError when the owner was never stored.
 */
export function setOwnerReference<T extends Dependent>(
  owner: ApiObject,
  dependent: T,
  { blockOwnerDeletion }: OwnerReferenceOptions = {},
): T {
  const reference = referenceTo(owner)
  if (blockOwnerDeletion !== undefined) reference.blockOwnerDeletion = blockOwnerDeletion
  return withReference(dependent, reference)
}

/** The dependent without its references to `owner`; those to an earlier object of that name go too. */
export function removeOwnerReference<T extends Dependent>(owner: ApiObject, dependent: T): T {
  const reference = referenceTo(owner)
  const references = ownersOf(dependent)
  return withReferences(
    dependent,
    references.filter(other => other.uid !== reference.uid && !namesSame(other, reference)),
  )
}

/** The reference to the owner that manages the object, if it has one. */
export function controllerOf(object: Dependent): OwnerReference | undefined {
  return ownersOf(object).find(reference => reference.controller === true)
}

/** Whether `owner` itself, not another object of its name, is an owner of the object. */
export function isOwnedBy(object: Dependent, owner: ApiObject): boolean {
  const { uid } = owner.metadata
  return ownersOf(object).some(reference => reference.uid === uid)
}

/** The group of an `apiVersion`; that of Kubernetes' core is empty. */
export function groupOf(apiVersion: string): string {
  const slash = apiVersion.indexOf('/')
  return slash < 0 ? '' : apiVersion.slice(0, slash)
}

function ownersOf({ metadata }: Dependent): readonly OwnerReference[] {
  return metadata.ownerReferences ?? []
}

function referenceTo({ apiVersion, kind, metadata: { name, uid } }: ApiObject): OwnerReference {
  for (const [field, value] of Object.entries({ apiVersion, kind, name, uid })) {
    if (typeof value !== 'string' || value === '') {
      throw new TypeError(`an owner must have been stored: it has no ${field}`)
    }
  }
  return { apiVersion, kind, name, uid }
}

/** As in controller-runtime: the version may differ, and the uid changes when the owner is made anew. */
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
