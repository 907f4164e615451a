import type { ObjectMeta, OwnerReference } from '@setpoint/controller-runtime/api'

/** Metadata as stored, without the version: that is the revision of the write. */
export interface BareMeta extends Omit<ObjectMeta, 'version' | 'resourceVersion'> {
  ownerReferences?: OwnerReference[]
}

/** An object without its version, with its keys in the order of the JSON. */
export interface BareObject {
  apiVersion: string
  kind: string
  metadata: BareMeta
  /** Absent in the objects of built-in kinds without a spec. */
  spec: unknown
  status?: unknown
  [unknownField: string]: unknown
}
