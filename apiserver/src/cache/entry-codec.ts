import type { Revision } from '@setpoint/controller-runtime/api'
import type { ServedModel } from '../model/served-model.ts'
import { type BareObject, objectBytes, wireBytes } from '../registry/stored-object.ts'
import type { Entry } from './entry.ts'

/** What an index could not make of a stored object. */
export interface IndexProblem {
  readonly index: string
  readonly message: string
}

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
  const json = objectBytes(value)
  const object: BareObject = JSON.parse(json.toString())
  const { values, problems } = served.indexes.tryValuesOf(object)
  const labels = served.indexes.labelsOf(object)
  return {
    entry: { name, revision, bytes: wireBytes(served, name, json, revision), labels, values },
    problems,
  }
}
