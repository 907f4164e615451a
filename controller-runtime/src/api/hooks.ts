import type { DeepReadonly } from './deep-readonly.ts'
import type { IndexSpec } from './index-spec.ts'
import type { ApiObject, ObjectMeta } from './object.ts'
import type { ObjectKey } from './object-key.ts'

/** The user that sent a request. */
export interface UserInfo {
  readonly name: string
  readonly groups: readonly string[]
  /** Distinguishes users who had the same name at different times. */
  readonly uid?: string
  /** Further facts of the authentication, such as the id of the credential. */
  readonly extra?: Readonly<Record<string, readonly string[]>>
}

/** The reasons for the causes of a refused write, as in Kubernetes. */
export type ViolationReason =
  | 'FieldValueRequired'
  | 'FieldValueTypeInvalid'
  | 'FieldValueInvalid'
  | 'FieldValueNotSupported'
  | 'FieldValueTooLong'
  | 'FieldValueTooMany'
  | 'FieldValueForbidden'
  | 'FieldValueDuplicate'

/** A reason to refuse a write, returned by a model's `validate`. */
export interface HookViolation {
  /** The place, for example `spec.tags[2]`. */
  readonly field: string
  readonly message: string
  /** Default `FieldValueInvalid`. */
  readonly reason?: ViolationReason
}

/** An object before it is stored. The store determines its version. */
export type HookObject<T extends ApiObject = ApiObject> = Omit<T, 'metadata'> & {
  readonly metadata: Readonly<Omit<ObjectMeta, 'version' | 'resourceVersion'>>
}

/** Passed to a model's `default`. */
export interface DefaultContext<T extends ApiObject = ApiObject> {
  /** The stored object, frozen; undefined on create. */
  readonly previous: HookObject<T> | undefined
  /** `status` if the write goes to the status subresource. */
  readonly subresource: 'status' | undefined
}

/** Passed to a model's `validate`. */
export interface ValidateContext<T extends ApiObject = ApiObject> extends DefaultContext<T> {
  readonly user: UserInfo
}

/** What an `AdmitLister` needs of a model. */
export interface ListedModel<T extends ApiObject = ApiObject> {
  readonly group: string
  readonly version: string
  readonly plural: string
  readonly scope: 'Cluster' | 'Namespaced'
  readonly indexes: readonly IndexSpec<T>[]
}

/** The objects that a model's `admit` lists. */
export interface AdmitListOptions {
  /** Only those in this namespace. */
  readonly namespace?: string
  /** Only those with a value in an index of the model. */
  readonly index?: { readonly name: string; readonly value: string }
}

/**
 * Reads the objects of the server's caches, frozen. They have every write that was acknowledged before the request
 * came, and none of those that are under way. One run of `admit` may read 1,000 objects and 2 MiB of them.
 */
export interface AdmitLister {
  /**
   * @throws Error past the bound, for a kind that is not served, for a name without the namespace that the kind needs,
   * and without the permission `get`
   */
  get<T extends ApiObject>(model: ListedModel<T>, key: ObjectKey): DeepReadonly<T> | undefined
  /**
   * @throws Error past the bound, for unknown options, for a kind or index that is not served, and without the
   * permission `list`
   */
  list<T extends ApiObject>(model: ListedModel<T>, options?: AdmitListOptions): readonly DeepReadonly<T>[]
}

/** Passed to a model's `admit`. */
export interface AdmitContext<T extends ApiObject = ApiObject> extends ValidateContext<T> {
  /** Reads other objects, with the permissions of the plugin. It can be used until `admit` returns. */
  readonly lister: AdmitLister
}

/**
 * Functions that the server calls for each write of a kind, dry runs included, except for writes that only take away
 * finalizers. All must be synchronous. One that throws refuses the write with a 500 that names the plugin. They may run
 * several times for one request, and the results must depend on nothing but the arguments.
 */
export interface ModelHooks<T extends ApiObject = ApiObject> {
  /**
   * Completes an object after the defaults of its schema, by changing the draft. It may change `spec`, and `status` if
   * the write can: with the status subresource, a write changes one of the two. The schema has not been checked yet, so
   * the draft may be of other types than declared; errors thrown for such a draft are ignored. So is the result.
   */
  // Method syntax, because it is bivariant: a model of a specific type is assignable to a model of any object.
  default?(draft: HookObject<T>, context: DefaultContext<T>): void
  /**
   * Returns the object's violations, which are reported with those of the schema. The object is frozen. If it breaks
   * the schema, errors thrown here are ignored.
   */
  // biome-ignore lint/suspicious/noConfusingVoidType: a function without a return statement is a valid hook
  validate?(object: HookObject<T>, context: ValidateContext<T>): readonly HookViolation[] | undefined | void
  /**
   * Returns the violations that other objects cause, for example of a quota. It is called for objects without any other
   * violation. Two writes at the same time do not see each other: what must be exact belongs in a unique index.
   */
  // biome-ignore lint/suspicious/noConfusingVoidType: as `validate`
  admit?(object: HookObject<T>, context: AdmitContext<T>): readonly HookViolation[] | undefined | void
}
