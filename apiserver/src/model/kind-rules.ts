import type { HookViolation, PrinterColumn, UserInfo } from '@setpoint/controller-runtime/api'
import type { BareObject } from './bare-object.ts'

/** The part of an object that a write may change: all but the status, or what a subresource has. */
export type Scope = 'object' | 'status' | 'finalize'

/** A column of tables whose cells are computed. */
export interface ComputedColumn extends Omit<PrinterColumn, 'jsonPath'> {
  readonly description: string
  /** Returns a value of the column's type, or undefined. */
  readonly cell: (object: Readonly<Record<string, unknown>>) => unknown
}

/**
 * What a built-in kind does beyond its model. Methods that change the draft of a write do so before the schema is
 * checked, and replace its fields rather than changing them, because their values are shared.
 */
export interface KindRules {
  /** The subresources besides status. */
  readonly subresources?: readonly Exclude<Scope, 'object' | 'status'>[]
  /** Set if its objects have a generation: Kubernetes' strategy for the kind sets one. */
  readonly hasGeneration?: true
  /**
   * Set if the kind's own validation reports duplicates in lists of type map, because Kubernetes names other fields.
   */
  readonly reportsDuplicates?: true
  /** Set if writes to the status change the metadata too: Kubernetes' strategy for the kind does not reset it. */
  readonly statusTakesMetadata?: true
  /** Names of indexes in selectors and sorts of versions whose fields have other names. */
  readonly fieldAliases?: Readonly<Record<string, string>>
  /**
   * The columns of tables in all versions, in place of the model's. If one is called `Name`, the table does not
   * begin with the name.
   */
  readonly columns?: readonly ComputedColumn[]
  /** Completes a new object. */
  created?(draft: BareObject): void
  /** Completes a changed object, and restores what a write of this scope cannot change. */
  updated?(draft: BareObject, previous: BareObject, scope: Scope): void
  /**
   * Returns the violations that the model's `validate` cannot find: those that depend on the version of the request, or
   * that the stored object does not excuse. The object matches its schema.
   */
  validate?(
    object: BareObject,
    previous: BareObject | undefined,
    apiVersion: string,
  ): readonly HookViolation[]
  /**
   * Returns the violations that take long to find, in turns of the event loop. The object has no others. Not called for
   * writes that only take away finalizers.
   */
  inspect?(
    object: BareObject,
    previous: BareObject | undefined,
    write: { readonly scope: Scope; readonly user: UserInfo },
  ): Promise<readonly HookViolation[]>
  /** Returns texts of `Warning` headers for an object that is stored. */
  warningsOf?(object: BareObject, previous: BareObject | undefined, scope: Scope): readonly string[]
  /**
   * Checks that the caller of a write may store this object, after its validation. Not called for the server's own
   * writes, and for those that only take away finalizers.
   * @throws ApiError 403, 404
   */
  admit?(object: BareObject, previous: BareObject | undefined, user: UserInfo): void
  /** Set if a replacement must name the version that it replaces (`AllowUnconditionalUpdate`). */
  readonly needsVersion?: true
  /**
   * Set if a response to a write must wait until this server's cache has the write, because the server acts on the
   * cache.
   */
  readonly takesEffectAtOnce?: true
  /**
   * For kinds with objects that always exist. Their collections cannot be deleted. @throws ApiError 403 for such an
   * object
   */
  checkDeletion?(object: BareObject): void
  /**
   * Set if the response to a deletion that removes the object is the object, and not a Status (`ReturnDeletedObject`).
   */
  readonly returnsDeleted?: true
  /** Marks an object whose deletion starts. */
  deleting?(draft: BareObject): void
  /** Returns true if a deletion cannot remove the object yet, although it has no finalizers. */
  holds?(object: BareObject): boolean
}
