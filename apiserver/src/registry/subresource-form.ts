import type { BareMeta } from '../model/index.ts'

/** An object in the version that its apiVersion names. A new one has no uid yet, and perhaps no name. */
export interface AdmittedObject {
  apiVersion: string
  kind: string
  metadata: Partial<BareMeta>
  [field: string]: unknown
}

/** A subresource whose requests have objects of a kind of its own, such as the scale. */
export interface SubresourceForm {
  readonly subresource: string
  readonly group: string
  readonly version: string
  readonly kind: string
  /** Returns what the subresource shows of an object. @throws ApiError */
  show(object: AdmittedObject): AdmittedObject
  /** Returns an object with the changes that somebody has made to what the subresource shows of it. @throws ApiError */
  take(object: AdmittedObject, shown: unknown): unknown
}
