import type { ApiObject, ObjectKey } from '@setpoint/controller-runtime/api'
import type { SchemaSubject } from '../model/index.ts'

/** Reads and writes objects on behalf of the plugin. */
export interface ResourceWriter {
  /** Returns true if the objects of a kind are in namespaces. @throws ApiError as `get` does */
  isNamespaced(apiVersion: string, kind: string): boolean
  /**
   * Reads an object from the store, not from a cache. Returns undefined if it does not exist.
   * @throws ApiError NotFound if the kind is not served, ServiceUnavailable if it is not ready.
   */
  get(apiVersion: string, kind: string, key: ObjectKey): Promise<ApiObject | undefined>
  /** @throws ApiError as a POST of the object does */
  create(object: NewExtension): Promise<ApiObject>
  /**
   * Applies an RFC 7386 merge patch. Its `metadata.version` is a precondition.
   * @throws ApiError as a PATCH of the object does
   */
  patch(apiVersion: string, kind: string, key: ObjectKey, mergePatch: object): Promise<ApiObject>
  /**
   * Returns the paths of the fields outside metadata that the kind does not know.
   * @throws ApiError as `get` does
   */
  unknownFields(object: KindAndContent): readonly string[]
}

/** The fields of an object other than its metadata. */
export interface KindAndContent extends Readonly<SchemaSubject> {
  readonly apiVersion: string
  readonly kind: string
}

/** An object as a file declares it, with the annotations that record this. */
export interface NewExtension {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: {
    readonly name: string
    readonly namespace?: string
    readonly annotations: Readonly<Record<string, unknown>>
    readonly [field: string]: unknown
  }
  readonly [field: string]: unknown
}
