import type { Revision } from '@setpoint/controller-runtime/api'
import { type Reservations, reservationsOf, reservationsWithout } from '../model/reservations.ts'
import type { ServedModel } from '../model/served-model.ts'
import { type BareObject, objectStart, wireBytes } from '../model/stored-object.ts'
import type { Entry } from './entry.ts'

export const entryDefaults = Object.freeze({
  /** Characters kept of an index function's error. The function may throw for every object. */
  messageLength: 300,
})

/** What is wrong with a stored object in an index: it is readable by its name all the same. */
export type IndexProblem =
  /** The index function threw, or answered something other than strings. */
  | { readonly kind: 'function'; readonly index: string; readonly message: string }
  /** It has a value of a unique index without holding it, because an older object held it when the index came. */
  | { readonly kind: 'unheld'; readonly index: string; readonly value: string }

/**
 * Makes a cache entry of a stored value: decodes it once, asks the model's index functions, and splices the version
 * into the wire bytes. An index function that fails leaves the object without values in that index.
 * @throws SyntaxError when the value is no stored object.
 */
export function decodeEntry(
  served: ServedModel,
  name: string,
  value: Buffer,
  revision: Revision,
): { entry: Entry; problems: readonly IndexProblem[] } {
  // No view of the part is made: of a million objects that is as many views less.
  const start = objectStart(value)
  const object: BareObject = JSON.parse(value.toString('utf8', start))
  // Before the author's functions get the object, which may change it.
  const isOfVersion = object.apiVersion === served.model.apiVersion && object.kind === served.model.kind
  const labels = served.indexes.labelsOf(object)
  const { values, problems } = served.indexes.tryValuesOf(object)
  const wanted = reservationsOf(served, values)
  const recorded = recordedIn(value, start, wanted)
  const unheld = recorded === wanted ? noUnheld : reservationsWithout(wanted, recorded)
  // The name in the object is a text of its own, where one cut out of a key keeps the key alive.
  const own = object.metadata.name === name ? object.metadata.name : name
  const bytes = wireBytes(served, name, value, revision, start)
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

const noProblems: readonly IndexProblem[] = Object.freeze([])

const noUnheld: readonly { index: string; value: string }[] = Object.freeze([])

/** Returns the reservations recorded in a stored value: `wanted` itself if they are written as exactly those. */
function recordedIn(value: Buffer, start: number, wanted: Reservations): Reservations {
  const line = value.toString('utf8', 0, start - 1)
  // Almost every object has recorded its values in the same order, which shows without parsing.
  return line === JSON.stringify(wanted) ? wanted : JSON.parse(line)
}
