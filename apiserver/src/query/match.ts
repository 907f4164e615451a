import { matchesAll, type Selector } from '@setpoint/controller-runtime/api'
import type { Entry } from '../cache/entry.ts'
import { type IndexSet, noValues } from '../cache/index-set.ts'

/**
 * Whether an object is selected. Fields must be indexes of the model, as `parseSelector` has checked; one that is
 * not has no values.
 */
export function matchesEntry(entry: Entry, selector: Selector, indexes: IndexSet): boolean {
  return entryMatcher(selector, indexes)(entry)
}

/** `matchesEntry` for many objects. */
export function entryMatcher(selector: Selector, indexes: IndexSet): (entry: Entry) => boolean {
  const { labels, fields } = selector
  if (labels.length === 0 && fields.length === 0) return () => true
  let current: Entry | undefined
  const valuesOfLabel = (key: string) => {
    if (current === undefined || !Object.hasOwn(current.labels, key)) return noValues
    const value = current.labels[key]
    return value === undefined ? noValues : [value]
  }
  const valuesOfField = (name: string) => {
    const position = indexes.indexOf(name)
    return (position === undefined ? undefined : current?.values[position]) ?? noValues
  }
  return entry => {
    current = entry
    return matchesAll(labels, valuesOfLabel) && matchesAll(fields, valuesOfField)
  }
}
