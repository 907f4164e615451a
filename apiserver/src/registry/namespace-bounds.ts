import type { ObjectKey, Revision } from '@setpoint/controller-runtime/api'
import type { BareObject, ServedModel } from '../model/index.ts'

/** A write after which a namespace may hold more than before. */
export interface NamespaceGrowth {
  readonly served: ServedModel
  readonly key: ObjectKey
  /** At the hub. */
  readonly object: BareObject
  /** Undefined for a new object. */
  readonly previous: BareObject | undefined
  /** Returns the bytes by which the object's JSON grows. Negative if it shrinks. */
  bytes(): number
}

/** Room in a namespace that a write has taken. Call one of the methods when the outcome of the write is known. */
export interface Room {
  /** The write is stored. The room counts until the caches have the write. */
  stored(revision: Revision): void
  /** The write is not stored. */
  release(): void
}

/** Bounds what namespaces hold. The registry is given one, because it knows no kinds. */
export interface NamespaceBounds {
  /**
   * Takes room for a write. Returns undefined if nothing bounds the write. Each refusal rests on caches that have all
   * writes acknowledged before.
   * @throws ApiError 403 past a bound; 503 if the caches cannot tell what the namespace holds
   */
  admit(growth: NamespaceGrowth, signal?: AbortSignal): Promise<Room> | undefined
}
