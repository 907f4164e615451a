import { type ObjectKey, type Revision, splitObjectKey } from '@setpoint/controller-runtime/api'
import type { ServedModel } from '../model/index.ts'
import {
  type Allocate,
  atHub,
  type BareObject,
  ConversionError,
  decodeWire,
  encodeObject,
  IndexSet,
  objectStart,
  packValues,
  type Reservations,
  reservationsOf,
  reservationsWithout,
  wireBytes,
  wireVersionOf,
} from '../model/index.ts'
import { type Entry, keyOfEntry } from './entry.ts'

export const entryDefaults = Object.freeze({
  /** Characters kept of an index function's error. The function may throw for every object. */
  messageLength: 300,
})

/** A problem of a stored object in an index. The object stays readable by name. */
export type IndexProblem =
  /** The index function threw, or returned something other than strings. */
  | { readonly kind: 'function'; readonly index: string; readonly message: string }
  /**
   * It has a value of a unique index that another object holds, because stored data clashed when the index was added.
   */
  | { readonly kind: 'unheld'; readonly index: string; readonly value: string }
  /** A conversion function failed, so the object cannot be read in that version. */
  | { readonly kind: 'conversion'; readonly version: string; readonly message: string }

/**
 * Converts a stored value to a cache entry: decodes it once, calls the model's index functions, and splices the version
 * into the wire bytes. If an index function fails, the object has no values in that index.
 * @param allocate as of `wireBytes`
 * @throws SyntaxError if the value is malformed
 */
export function decodeEntry(
  served: ServedModel,
  key: ObjectKey,
  value: Buffer,
  revision: Revision,
  allocate?: Allocate,
): { entry: Entry; problems: readonly IndexProblem[] } {
  const { name } = partsOf(served, key)
  // Creates no view of the part: that would be a view for every object.
  const start = objectStart(value)
  const raw: BareObject = JSON.parse(value.toString('utf8', start))
  const at = atHub(served, raw, { asks: false })
  if (at.failure !== undefined) {
    const recorded: Reservations = JSON.parse(value.toString('utf8', 0, start - 1))
    const unconverted = { apiVersion: raw.apiVersion, error: at.failure, recorded }
    return unconvertedEntry(served, key, raw, unconverted, revision)
  }
  const { object } = at
  const bytes = at.isAsStored
    ? wireBytes(served.hub, name, value, revision, start, allocate)
    : wireBytes(served.hub, name, Buffer.from(encodeObject(object)), revision, 0, allocate)
  return entryAtHub(served, key, object, {
    revision,
    bytes,
    // A conversion makes another object, and so does pruning.
    isOfVersion: object === raw && object.kind === served.model.kind,
    recordedIn: wanted => recordedIn(value, start, wanted),
  })
}

interface AtHub {
  readonly revision: Revision
  /** Wire JSON at the hub. */
  readonly bytes: Buffer
  /** False if the object differs from the stored one. */
  readonly isOfVersion: boolean
  /** Returns the unique values that are recorded: the given ones if they are exactly those. */
  recordedIn(wanted: Reservations): Reservations
}

/** @param object at the hub. The author's functions may change it. */
function entryAtHub(
  served: ServedModel,
  key: ObjectKey,
  object: BareObject,
  { revision, bytes, isOfVersion, recordedIn }: AtHub,
): { entry: Entry; problems: readonly IndexProblem[] } {
  const { name, namespace } = partsOf(served, key)
  const labels = served.indexes.labelsOf(object)
  const { values, problems } = served.indexes.tryValuesOf(object)
  const wanted = reservationsOf(served, values)
  const recorded = recordedIn(wanted)
  const unheld = recorded === wanted ? noUnheld : reservationsWithout(wanted, recorded)
  return {
    // One literal with all fields: an object that is spread into another one takes four times the memory.
    entry: {
      // The name in the object is a text of its own, where one cut out of a key keeps the key alive.
      name: object.metadata.name === name ? object.metadata.name : name,
      namespace: namespaceIn(values, namespace),
      revision,
      bytes,
      labels,
      values: packValues(values),
      storedFormDiffers: recorded === wanted && isOfVersion ? undefined : true,
    },
    problems:
      problems.length === 0 && unheld.length === 0
        ? noProblems
        : [
            ...problems.map(({ index, message }) => ({
              kind: 'function' as const,
              index,
              message: message.slice(0, entryDefaults.messageLength),
            })),
            ...unheld.map(({ index, value }) => ({ kind: 'unheld' as const, index, value })),
          ],
  }
}

/** Returns the entry of an object that cannot be converted to the hub. It keeps the version that it is stored in. */
function unconvertedEntry(
  served: ServedModel,
  key: ObjectKey,
  raw: BareObject,
  unconverted: NonNullable<Entry['unconverted']>,
  revision: Revision,
): { entry: Entry; problems: readonly IndexProblem[] } {
  const { name, namespace } = partsOf(served, key)
  const { apiVersion, error } = unconverted
  const values = served.indexes.metadataValuesOf(raw)
  const message = error instanceof ConversionError ? error.problem : error.message
  return {
    entry: {
      name,
      namespace: namespaceIn(values, namespace),
      revision,
      bytes: wireBytes(wireVersionOf(apiVersion, raw.kind), name, Buffer.from(encodeObject(raw)), revision),
      labels: served.indexes.labelsOf(raw),
      values: packValues(values),
      storedFormDiffers: true,
      unconverted,
    },
    problems: [
      {
        kind: 'conversion',
        version: served.hub.name,
        message: message.slice(0, entryDefaults.messageLength),
      },
    ],
  }
}

/**
 * Returns the entry of an object that could not be converted to the hub before.
 * @param bytes its wire JSON at the hub
 */
export function convertedEntry(
  served: ServedModel,
  entry: Entry,
  bytes: Buffer,
): { entry: Entry; problems: readonly IndexProblem[] } {
  const { revision, unconverted } = entry
  return entryAtHub(served, keyOfEntry(entry), decodeWire(bytes), {
    revision,
    bytes,
    isOfVersion: false,
    recordedIn: () => unconverted?.recorded ?? {},
  })
}

/** @throws SyntaxError if the object was stored under another scope of its kind */
function partsOf({ indexes }: ServedModel, key: ObjectKey): ReturnType<typeof splitObjectKey> {
  const parts = splitObjectKey(key)
  if ((parts.namespace !== undefined) !== indexes.isNamespaced)
    throw new SyntaxError(`its key has ${indexes.isNamespaced ? 'no' : 'a'} namespace`)
  return parts
}

/** Returns the namespace of a namespaced kind's entry. The text in its values is shared by all entries. */
function namespaceIn(
  values: readonly (readonly string[])[],
  namespace: string | undefined,
): string | undefined {
  if (namespace === undefined) return undefined
  const shared = values[IndexSet.namespace]?.[0]
  return shared === namespace ? shared : namespace
}

const noProblems: readonly IndexProblem[] = Object.freeze([])

const noUnheld: readonly { index: string; value: string }[] = Object.freeze([])

/** Returns the reservations recorded in a stored value: `wanted` itself if they are written as exactly those. */
function recordedIn(value: Buffer, start: number, wanted: Reservations): Reservations {
  const line = value.toString('utf8', 0, start - 1)
  // Almost every object has recorded its values in the same order, which shows without parsing.
  return line === JSON.stringify(wanted) ? wanted : JSON.parse(line)
}
