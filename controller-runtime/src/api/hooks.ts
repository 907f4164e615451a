import type { ApiObject, ObjectMeta } from './object.ts'

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

/**
 * Functions that the server calls for each write of a kind, dry runs included, except for writes that only take away
 * finalizers. Both must be synchronous. One that throws refuses the write with a 500 that names the plugin. They may run
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
   * Returns the object's violations, which are reported with those of the schema. The object is frozen. If it breaks the
   * schema, errors thrown here are ignored.
   */
  // biome-ignore lint/suspicious/noConfusingVoidType: a function without a return statement is a valid hook
  validate?(object: HookObject<T>, context: ValidateContext<T>): readonly HookViolation[] | undefined | void
}
