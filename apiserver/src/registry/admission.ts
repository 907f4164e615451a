import type { Revision, UserInfo } from '@setpoint/controller-runtime/api'
import type { BareObject, Scope, ServedModel } from '../model/index.ts'
import type { AdmittedObject } from './subresource-form.ts'
import type { WriteOptions } from './write-options.ts'

/** What a write does to its object. */
export type AdmissionOperation = 'CREATE' | 'UPDATE' | 'DELETE'

/** A client's write, before its object is known. */
export interface AdmissionRequest {
  readonly served: ServedModel
  readonly operation: AdmissionOperation
  readonly scope: Scope
  /** Undefined while the server has not chosen the name, and in the deletion of a collection. */
  readonly name: string | undefined
  readonly namespace: string | undefined
  readonly user: UserInfo
  readonly options: WriteOptions
}

/** The object that a write starts from, at the hub unless it cannot be converted. */
export interface AdmittedFrom {
  readonly object: BareObject
  readonly revision: Revision
}

/**
 * The admission of one write. Its methods are called for each state that the write is decided on: again after another
 * write came first.
 */
export interface WriteAdmission {
  /**
   * Returns the object as the mutating webhooks have changed it, in the version in which it was given; the same object
   * if they change nothing. The object has its defaults, but has not been validated.
   * @param object undefined for a deletion
   * @param from undefined for a creation
   * @throws ApiError if a webhook denies the write, or fails
   */
  mutate(
    object: AdmittedObject | undefined,
    from: AdmittedFrom | undefined,
  ): Promise<AdmittedObject | undefined>
  /**
   * Asks the validating policies, and then the validating webhooks.
   * @param object what would be stored, at the hub. Undefined for a deletion
   * @throws ApiError if one of them denies the write, or fails
   */
  validate(object: BareObject | undefined, from: AdmittedFrom | undefined): Promise<void>
}

/** Policies and webhooks that decide on writes. The registry is given them, because it knows no kinds. */
export interface Admission {
  /** False if nothing is configured. A write then costs this question. */
  readonly isActive: boolean
  /** Returns undefined if nothing that is configured concerns the write. */
  begin(request: AdmissionRequest): WriteAdmission | undefined
}
