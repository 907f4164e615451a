import type { DeepReadonly } from '../api/deep-readonly.ts'
import type { ApiObject, NewObject, ObjectMeta, SpecInput, StatusInput } from '../api/object.ts'
import type { KeyParts } from '../api/object-key.ts'

/** The top-level fields that only objects of type T have, such as the `data` of a `Secret`. */
export type OwnFields<T extends ApiObject> = Omit<T, keyof ApiObject>

/** The spec, which a kind of Kubernetes may do without. */
type SpecField<Spec> = undefined extends Spec
  ? unknown extends Spec
    ? { readonly spec: unknown }
    : { readonly spec?: DeepReadonly<Spec> }
  : { readonly spec: DeepReadonly<Spec> }

/** An object of type T as a client sends it for creation. Fields with a default are optional. */
export type NewObjectOf<T extends ApiObject> = DeepReadonly<
  Omit<NewObject<unknown, StatusInput<T>>, 'spec'>
> &
  DeepReadonly<OwnFields<T>> &
  SpecField<SpecInput<T>>

/**
 * An object of type T as a client sends it to replace the stored one. With `metadata.version` the write fails with
 * Conflict unless that is the current version; without it, the write is unconditional.
 */
export type ReplacementOf<T extends ApiObject> = NewObjectOf<T> & {
  readonly metadata: { readonly name: string }
}

/** RFC 7396: sets the given fields, removes those that are `null`, replaces arrays as a whole. */
export type MergePatch<T> = unknown extends T
  ? unknown
  : T extends readonly unknown[]
    ? DeepReadonly<T>
    : T extends object
      ? { readonly [K in keyof T]?: MergePatch<T[K]> | null }
      : T

/** One step of RFC 6902. `path` and `from` are JSON Pointers. */
export type JsonPatchOperation =
  | { readonly op: 'add' | 'replace' | 'test'; readonly path: string; readonly value: unknown }
  | { readonly op: 'remove'; readonly path: string }
  | { readonly op: 'move' | 'copy'; readonly from: string; readonly path: string }

/** An array is a JSON Patch (RFC 6902), an object a merge patch (RFC 7396). */
export type Patch<T extends ApiObject> = readonly JsonPatchOperation[] | MergePatch<NewObjectOf<T>>

/** The name of an object that is applied. With `uid` or `version`, the apply fails with Conflict unless they match. */
export interface AppliedName extends KeyParts {
  readonly uid?: string
  readonly version?: string
}

/** The fields that `Client.apply` sets, and that its manager owns from then on. */
export type DesiredObject<T extends ApiObject = ApiObject> = DesiredFields<OwnFields<T>> & {
  readonly metadata: AppliedName &
    DeepReadonly<Pick<ObjectMeta, 'labels' | 'annotations' | 'finalizers' | 'ownerReferences'>>
  readonly spec?: DesiredFields<SpecInput<T>>
  /** For a model without the status subresource. Otherwise use `applyStatus`. */
  readonly status?: DesiredFields<NonNullable<StatusInput<T>>>
}

/** The fields of the status that `Client.applyStatus` sets. */
export interface DesiredStatus<T extends ApiObject = ApiObject> {
  readonly metadata: AppliedName
  readonly status: DesiredFields<NonNullable<StatusInput<T>>>
}

/** A part of a value, at any depth. Items of arrays are whole. */
export type DesiredFields<S> = unknown extends S
  ? unknown
  : S extends readonly unknown[]
    ? DeepReadonly<S>
    : S extends object
      ? { readonly [K in keyof S]?: DesiredFields<S[K]> }
      : S
