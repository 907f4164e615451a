import type { BareObject } from './bare-object.ts'

/** The part of an object that a write may change: all but the status, or what a subresource has. */
export type Scope = 'object' | 'status' | 'finalize'

/**
 * What a built-in kind does beyond its model. Each method changes the draft of a write before the schema is checked, and
 * replaces `spec` and `status` rather than changing them, because they are shared.
 */
export interface KindRules {
  /** The subresources besides status. */
  readonly subresources: readonly Exclude<Scope, 'object' | 'status'>[]
  /** Completes a new object. */
  created(draft: BareObject): void
  /** Restores what a write of this scope cannot change. */
  updated(draft: BareObject, previous: BareObject, scope: Scope): void
  /** @throws ApiError 403 for an object that always exists */
  checkDeletion(object: BareObject): void
  /** Marks an object whose deletion starts. */
  deleting(draft: BareObject): void
  /** Returns true if a deletion cannot remove the object yet, although it has no finalizers. */
  holds(object: BareObject): boolean
}
