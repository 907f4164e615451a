import { IndexSet, type ServedModel, type ServedVersion } from '../model/index.ts'
import { notReady } from '../registry/index.ts'

/**
 * Parses the fields of a request by the indexes of a version. A field may be an index that is being built, because the
 * definition of the kind has changed.
 * @param parse throws ApiError 400 for an unknown field
 * @throws ApiError 503 for an index that is being built; the errors of `parse`
 */
export function withIndexes<T>(
  served: ServedModel,
  version: ServedVersion,
  parse: (indexes: IndexSet) => T,
): T {
  const { next } = served
  const later = next?.versions.find(({ name }) => name === version.name)
  if (next === undefined || later === undefined) return parse(served.indexesOf(version))
  try {
    return parse(unchangedIndexes(served, version, next))
  } catch {
    // Throws the same error if no index is the reason.
    parse(next.indexesOf(later))
    throw notReady(served, 'an index that the request uses is being built')
  }
}

/** Returns the indexes of a version without those that have other values in the next kind. */
function unchangedIndexes(served: ServedModel, version: ServedVersion, next: ServedModel): IndexSet {
  const known = new Set(served.indexesOf(version).names)
  const sources = new Map(next.model.indexes.map(({ name, source }) => [name, source]))
  const hidden = served.model.indexes.filter(
    ({ name, source }) => !known.has(name) || (sources.has(name) && sources.get(name) !== source),
  )
  return new IndexSet(
    served.model,
    {},
    hidden.map(({ name }) => name),
  )
}
