import { matchesAll, type Selector } from '@setpoint/controller-runtime/api'
import type { Entry } from '../cache/entry.ts'
import { type IndexSet, noValues } from '../cache/index-set.ts'

/**
 * Whether an object is selected. Fields must be indexes of the model, as `parseSelector` has checked; one that is
 * not has no values.
 */
export function matchesEntry(entry: Entry, selector: Selector, indexes: IndexSet): boolean {
  const { labels, fields } = selector
  return (
    (labels.length === 0 || matchesAll(labels, key => labelValuesOf(entry, key))) &&
    (fields.length === 0 || matchesAll(fields, name => fieldValuesOf(entry, name, indexes)))
  )
}

/** The value of a label as a list of one, or none. */
export function labelValuesOf(entry: Entry, key: string): readonly string[] {
  // A label may be named as something that every object inherits, such as `constructor`.
  const value = Object.hasOwn(entry.labels, key) ? entry.labels[key] : undefined
  return value === undefined ? noValues : [value]
}

function fieldValuesOf(entry: Entry, name: string, indexes: IndexSet): readonly string[] {
  const position = indexes.indexOf(name)
  return (position === undefined ? undefined : entry.values[position]) ?? noValues
}
