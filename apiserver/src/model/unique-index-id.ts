import type { IndexSpec } from '@setpoint/controller-runtime/api'

const withinNamespace = '@namespace'

const sourceMark = /@[0-9a-f]{8}$/

/**
 * Returns the id of a unique index: its name, its source if it has one, and a mark if values are unique within each
 * namespace only. So an index whose values come from another field, or become unique in another scope, is another
 * index, and its reservations are computed again.
 */
export function uniqueIndexId({
  name,
  source,
  uniqueWithin,
}: Pick<IndexSpec, 'name' | 'source' | 'uniqueWithin'>): string {
  const id = source === undefined ? name : `${name}@${source}`
  return uniqueWithin === undefined ? id : id + withinNamespace
}

/** Returns true for the id of an index whose values are unique within each namespace. */
export function isWithinNamespace(id: string): boolean {
  return id.endsWith(withinNamespace)
}

/** Returns the name of the index with an id. No name ends in a mark. */
export function uniqueIndexName(id: string): string {
  return (isWithinNamespace(id) ? id.slice(0, -withinNamespace.length) : id).replace(sourceMark, '')
}
