import type { ApiError, Revision } from '@setpoint/controller-runtime/api'
import type { ServedModel } from '../model/index.ts'
import {
  atHub,
  type BareObject,
  ConversionError,
  encodeObject,
  objectStart,
  type Reservations,
  reservationsOf,
  reservationsWithout,
  wireBytes,
  wireVersionOf,
} from '../model/index.ts'
import type { Entry } from './entry.ts'

export const entryDefaults = Object.freeze({
  /** Characters kept of an index function's error. The function may throw for every object. */
  messageLength: 300,
})

/** A problem of a stored object in an index. The object stays readable by name. */
export type IndexProblem =
  /** The index function threw, or returned something other than strings. */
  | { readonly kind: 'function'; readonly index: string; readonly message: string }
  /** It has a value of a unique index that another object holds, because stored data clashed when the index was added. */
  | { readonly kind: 'unheld'; readonly index: string; readonly value: string }
  /** A conversion function failed, so the object cannot be read in that version. */
  | { readonly kind: 'conversion'; readonly version: string; readonly message: string }

/**
 * Converts a stored value to a cache entry: decodes it once, calls the model's index functions, and splices the version
 * into the wire bytes. If an index function fails, the object has no values in that index.
 * @throws SyntaxError if the value is malformed
 */
export function decodeEntry(
  served: ServedModel,
  name: string,
  value: Buffer,
  revision: Revision,
): { entry: Entry; problems: readonly IndexProblem[] } {
  // Creates no view of the part: that would be a view for every object.
  const start = objectStart(value)
  const raw: BareObject = JSON.parse(value.toString('utf8', start))
  const { object, failure } = atHub(served, raw)
  if (failure !== undefined) return unconvertedEntry(served, name, raw, failure, revision)
  // Before the author's functions get the object, which may change it.
  const isOfVersion = object === raw && object.kind === served.model.kind
  const json = object === raw ? undefined : Buffer.from(encodeObject(object))
  const labels = served.indexes.labelsOf(object)
  const { values, problems } = served.indexes.tryValuesOf(object)
  const wanted = reservationsOf(served, values)
  const recorded = recordedIn(value, start, wanted)
  const unheld = recorded === wanted ? noUnheld : reservationsWithout(wanted, recorded)
  // The name in the object is a text of its own, where one cut out of a key keeps the key alive.
  const own = object.metadata.name === name ? object.metadata.name : name
  const bytes =
    json === undefined
      ? wireBytes(served.hub, name, value, revision, start)
      : wireBytes(served.hub, name, json, revision)
  const entry = { name: own, revision, bytes, labels, values }
  return {
    entry: recorded === wanted && isOfVersion ? entry : { ...entry, storedFormDiffers: true },
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
  name: string,
  raw: BareObject,
  error: ApiError,
  revision: Revision,
): { entry: Entry; problems: readonly IndexProblem[] } {
  const { apiVersion } = raw
  const message = error instanceof ConversionError ? error.problem : error.message
  return {
    entry: {
      name,
      revision,
      bytes: wireBytes(wireVersionOf(apiVersion, raw.kind), name, Buffer.from(encodeObject(raw)), revision),
      labels: served.indexes.labelsOf(raw),
      values: served.indexes.metadataValuesOf(raw),
      storedFormDiffers: true,
      unconverted: { apiVersion, error },
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

const noProblems: readonly IndexProblem[] = Object.freeze([])

const noUnheld: readonly { index: string; value: string }[] = Object.freeze([])

/** Returns the reservations recorded in a stored value: `wanted` itself if they are written as exactly those. */
function recordedIn(value: Buffer, start: number, wanted: Reservations): Reservations {
  const line = value.toString('utf8', 0, start - 1)
  // Almost every object has recorded its values in the same order, which shows without parsing.
  return line === JSON.stringify(wanted) ? wanted : JSON.parse(line)
}
