import {
  type ApiError,
  type KeyParts,
  type ObjectKey,
  objectKey,
  type Revision,
} from '@setpoint/controller-runtime/api'
import { ConversionError, type PackedValues, type Reservations } from '../model/index.ts'

/**
 * One version of one object in the cache. It is immutable. The cache, its snapshots, the history and responses share
 * it.
 */
export interface Entry {
  /** metadata.name */
  readonly name: string
  /** metadata.namespace, if the kind is namespaced. */
  readonly namespace?: string
  /** The revision of the write: metadata.version. */
  readonly revision: Revision
  /** The object's wire JSON, with its version. */
  readonly bytes: Buffer
  /** Labels by key. Empty objects are shared. */
  readonly labels: Readonly<Record<string, string>>
  /** Index values, see `valuesAt`. Those of 'metadata.labels' are strings `key=value`. */
  readonly values: PackedValues
  /**
   * Set if the stored form cannot be told from this entry: the object has recorded other unique values than those in
   * `values`, or was stored under another API version, or with fields that are pruned. A write to it starts from a live
   * read.
   */
  readonly storedFormDiffers?: true
  /**
   * Set if the stored object cannot be converted to the hub. `bytes` is then in the version `apiVersion` that it is
   * stored in, only the default indexes have values, and `recorded` are the unique values that it has recorded.
   */
  readonly unconverted?: {
    readonly apiVersion: string
    readonly error: ApiError
    readonly recorded: Reservations
  }
}

/** Returns true for an object that a webhook could not convert to the hub, which may succeed later. */
export function mayBeConverted({ unconverted }: Entry): boolean {
  return unconverted?.error instanceof ConversionError && unconverted.error.mayPass
}

/** Returns the 503 of an object that is stored in a version that this server does not know. */
export function unknownVersionOf({ unconverted }: Entry): ApiError | undefined {
  return unconverted?.error instanceof ConversionError ? undefined : unconverted?.error
}

/** Returns the key of an entry's object. */
export function keyOfEntry(entry: Entry): ObjectKey {
  return entry.namespace === undefined ? entry.name : objectKey(entry)
}

/**
 * Returns the text that orders objects with equal index values: the name, then the namespace. A zero character is lower
 * than any in a name.
 */
export function tieOf({ namespace, name }: KeyParts): string {
  return namespace === undefined ? name : `${name}\0${namespace}`
}
