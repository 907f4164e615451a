import type { IndexSpec } from '@setpoint/controller-runtime/api'

const withinNamespace = '@namespace'

/**
 * Returns the id of a unique index: its name, with a mark if values are unique within each namespace only. So an index whose
 * values become unique in another scope is another index, and its reservations are computed again.
 */
export function uniqueIndexId({ name, uniqueWithin }: Pick<IndexSpec, 'name' | 'uniqueWithin'>): string {
  return uniqueWithin === undefined ? name : name + withinNamespace
}

/** Returns true for the id of an index whose values are unique within each namespace. */
export function isWithinNamespace(id: string): boolean {
  return id.endsWith(withinNamespace)
}

/** Returns the name of the index with an id. No name contains the mark. */
export function uniqueIndexName(id: string): string {
  return isWithinNamespace(id) ? id.slice(0, -withinNamespace.length) : id
}
