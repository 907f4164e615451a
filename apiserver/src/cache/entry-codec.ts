import type { Revision } from '@setpoint/controller-runtime/api'
import type { ServedModel } from '../model/served-model.ts'
import { type BareObject, objectStart, wireBytes } from '../registry/stored-object.ts'
import { reservationsOf, reservationsWithout } from '../registry/unique-index.ts'
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
  const labels = served.indexes.labelsOf(object)
  const { values, problems } = served.indexes.tryValuesOf(object)
  const unheld = unheldIn(served, values, value)
  // The name in the object is a text of its own, where one cut out of a key keeps the key alive.
  const own = object.metadata.name === name ? object.metadata.name : name
  return {
    entry: {
      name: own,
      revision,
      bytes: wireBytes(served, name, value, revision, start),
      labels,
      values,
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
            ...unheld,
          ],
  }
}

const noProblems: readonly IndexProblem[] = Object.freeze([])

function unheldIn(
  served: ServedModel,
  values: readonly (readonly string[])[],
  stored: Buffer,
): readonly IndexProblem[] {
  if (served.uniqueIndexes.length === 0) return noProblems
  const wanted = reservationsOf(served, values)
  const recorded = stored.toString('utf8', 0, stored.indexOf(0x0a))
  // Almost every object holds just what it has, written in the same order: that is seen without parsing.
  if (JSON.stringify(wanted) === recorded) return noProblems
  return reservationsWithout(wanted, JSON.parse(recorded)).map(({ index, value }) => ({
    kind: 'unheld',
    index,
    value,
  }))
}
