import { type Fields, isFields } from '../support/json.ts'
import type { Selection } from './history.ts'

/** Reads the parts of an object that judges compare. An object that lacks one has the neutral value. */

export function metadataOf(object: unknown): Fields {
  return isFields(object) && isFields(object.metadata) ? object.metadata : {}
}

/** Returns NaN if there is none. */
export function versionOf(object: unknown): number {
  return Number(metadataOf(object).resourceVersion)
}

export function nameOf(object: unknown): string {
  return String(metadataOf(object).name)
}

export function namespaceOf(object: unknown): string | undefined {
  const { namespace } = metadataOf(object)
  return typeof namespace === 'string' ? namespace : undefined
}

/** Returns the value by which a write is recognised in what it left. */
export function markOf(object: unknown): string | undefined {
  const { annotations } = metadataOf(object)
  return isFields(annotations) && typeof annotations.mark === 'string' ? annotations.mark : undefined
}

export function finalizersOf(object: unknown): readonly string[] {
  const { finalizers } = metadataOf(object)
  return Array.isArray(finalizers) ? finalizers.map(String) : []
}

export function specOf(object: unknown): Fields {
  return isFields(object) && isFields(object.spec) ? object.spec : {}
}

export function isSelected(object: unknown, { namespace, color, size }: Selection): boolean {
  const { labels } = metadataOf(object)
  if (namespace !== undefined && namespaceOf(object) !== namespace) return false
  if (color !== undefined && !(isFields(labels) && labels['sim.example.com/color'] === color)) return false
  return size === undefined || specOf(object).size === size
}
