import type { DeepMutable } from '../api/deep-readonly.ts'
import type { Model } from '../api/model.ts'
import type { ApiObject, ObjectMeta, SpecInput } from '../api/object.ts'
import type { ObjectKey } from '../api/object-key.ts'
import { deepFreeze } from '../freeze.ts'
import type { OwnFields, ReplacementOf } from './bodies.ts'
import { partsOfKey } from './paths.ts'

/** The metadata fields that clients may change. */
type WritableMeta = Pick<ObjectMeta, 'labels' | 'annotations' | 'finalizers' | 'ownerReferences'>

/**
 * An object being changed: a copy of the stored one, or a new one with a name and, if its kind has one, an empty spec.
 * Any field of the spec may be missing, also required ones; the server validates the result.
 */
export type Draft<T extends ApiObject = ApiObject> = OwnFields<T> & {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: WritableMeta &
    Readonly<Partial<Omit<ObjectMeta, keyof WritableMeta>>> & { readonly name: string }
  spec: SpecInput<T> extends object ? Partial<SpecInput<T>> : SpecInput<T>
  /** Read-only: write it with `patchStatus`. */
  readonly status?: Readonly<NonNullable<T['status']>>
}

/**
 * Changes the draft, or returns another one, such as the result of `setControllerReference(owner, draft)`. A returned
 * object replaces the draft entirely. It may be called several times, each time with a new draft.
 */
export type Mutate<T extends ApiObject = ApiObject> =
  | ((draft: Draft<T>) => void | Promise<void>)
  | ((draft: Draft<T>) => Draft<T> | undefined | Promise<Draft<T> | undefined>)

/** Returns a deep copy that can be changed, as `structuredClone` does; cached objects are frozen. */
export function mutableCopy<T>(object: T): DeepMutable<T>
export function mutableCopy(object: unknown): unknown {
  return structuredClone(object)
}

/** Returns a draft of the stored object, or of a new one. Its status is frozen. */
export function draftOf<T extends ApiObject>(
  model: Model<T>,
  key: ObjectKey,
  stored: T | undefined,
): Draft<T> {
  const { apiVersion, kind, schema } = model
  const { namespace, name } = partsOfKey(model, key)
  const metadata = namespace === undefined ? { name } : { name, namespace }
  // An object may be stored without a spec if its schema requires nothing.
  const spec = schema.spec === undefined ? undefined : { spec: {} }
  const draft: unknown = { apiVersion, kind, metadata, ...spec, ...mutableCopy(stored) }
  if (!isDraft<T>(draft, name)) throw new TypeError(`the stored object is not the ${kind} ${name}`)
  deepFreeze(draft.status)
  return draft
}

/**
 * Returns the object to send: the draft, or what `mutate` returned instead, with the draft's status.
 * @throws TypeError if its name has changed, or `mutate` returned something other than an object.
 */
export function finishDraft<T extends ApiObject>(
  draft: Draft<T>,
  returned: unknown,
  name: string,
): ReplacementOf<T> {
  if (
    returned !== undefined &&
    !(typeof returned === 'object' && returned !== null && 'metadata' in returned)
  ) {
    throw new TypeError(`mutate must return the whole object ${name}, or nothing`)
  }
  // Drops undefined fields, as sending it would.
  const finished: unknown = JSON.parse(JSON.stringify({ ...(returned ?? draft), status: draft.status }))
  if (!isReplacement<T>(finished, name)) throw new TypeError(`mutate must not change the name of ${name}`)
  return finished
}

function isDraft<T extends ApiObject>(value: unknown, name: string): value is Draft<T> {
  return isNamed(value, name)
}

function isReplacement<T extends ApiObject>(value: unknown, name: string): value is ReplacementOf<T> {
  return isNamed(value, name)
}

function isNamed(value: unknown, name: string): boolean {
  if (typeof value !== 'object' || value === null || !('metadata' in value)) return false
  const { metadata } = value
  return typeof metadata === 'object' && metadata !== null && 'name' in metadata && metadata.name === name
}
