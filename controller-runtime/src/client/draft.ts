import type { Model } from '../api/model.ts'
import type { ApiObject, ObjectMeta } from '../api/object.ts'
import { deepFreeze } from '../freeze.ts'
import type { ReplacementOf } from './client.ts'

/** What of the metadata is for clients to change. */
type WritableMeta = Pick<ObjectMeta, 'labels' | 'annotations' | 'finalizers' | 'ownerReferences'>

/**
 * An object while it is being changed: a copy of the stored one or, where there is none, one with a name and an empty
 * spec. Hence every field of the spec may be missing, also those that the schema requires; whether the outcome is
 * complete is for the server to check.
 */
export interface Draft<T extends ApiObject = ApiObject> {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: WritableMeta &
    Readonly<Partial<Omit<ObjectMeta, keyof WritableMeta>>> & { readonly name: string }
  spec: T['spec'] extends object ? Partial<T['spec']> : T['spec']
  /** For looking at: it is written by `patchStatus`. */
  readonly status?: Readonly<NonNullable<T['status']>>
}

/**
 * Makes of an object what it should be: changes the draft, or answers another one, such as what
 * `setControllerReference(owner, draft)` answers. What is answered counts whole, the draft's own changes only as far
 * as they are in it. It may be called several times, each time with a new draft.
 */
export type Mutate<T extends ApiObject = ApiObject> =
  | ((draft: Draft<T>) => void | Promise<void>)
  | ((draft: Draft<T>) => Draft<T> | undefined | Promise<Draft<T> | undefined>)

/** A deep copy that can be changed, of an object that must not be: those of a cache are frozen. */
export function mutableCopy<T>(object: T): T {
  return structuredClone(object)
}

/** A draft of the stored object, or of a new one. Its status is frozen. */
export function draftOf<T extends ApiObject>(model: Model<T>, name: string, stored: T | undefined): Draft<T> {
  const { apiVersion, kind } = model
  // An object may have been stored without a spec, where its schema requires nothing.
  const draft: unknown = { apiVersion, kind, metadata: { name }, spec: {}, ...mutableCopy(stored) }
  if (!isDraft<T>(draft, name)) throw new TypeError(`not a ${kind} of the name ${name}`)
  deepFreeze(draft.status)
  return draft
}

/**
 * A draft as it goes to the server, or what `mutate` has answered in its place; with the draft's status.
 * @throws TypeError where it has another name than the one it was made for, or what was answered is no object.
 */
export function finishDraft<T extends ApiObject>(
  draft: Draft<T>,
  answer: Awaited<ReturnType<Mutate<T>>>,
  name: string,
): ReplacementOf<T> {
  if (answer !== undefined && !(typeof answer === 'object' && answer !== null && 'metadata' in answer)) {
    throw new TypeError(`mutate must answer the whole of ${name}, or nothing`)
  }
  // As the server would get it: without fields that are undefined.
  const finished: unknown = JSON.parse(JSON.stringify({ ...(answer ?? draft), status: draft.status }))
  if (!isReplacement<T>(finished, name)) throw new TypeError(`the name of ${name} must not be changed`)
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
