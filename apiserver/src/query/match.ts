import { matchesAll, type Selector } from '@setpoint/controller-runtime/api'
import type { Entry } from '../cache/for-query.ts'
import { type IndexSet, noValues, valuesAt } from '../model/index.ts'

/** Entries that testing an object by so many terms counts as, in long work. */
export function testWorkOf(terms: number): number {
  return 1 + (terms >> 3)
}

/** Entries that testing an object by a selector counts as. */
export function testWork({ labels, fields }: Selector): number {
  return testWorkOf(labels.length + fields.length)
}

/** Whether a selector matches an object. A field that is no index of the model has no values. */
export function matchesEntry(entry: Entry, selector: Selector, indexes: IndexSet): boolean {
  const { labels, fields } = selector
  return (
    (labels.length === 0 || matchesAll(labels, key => labelValuesOf(entry, key))) &&
    (fields.length === 0 || matchesAll(fields, name => fieldValuesOf(entry, name, indexes)))
  )
}

/** Returns true if a query needs values of indexes that the model declares. */
export function readsDeclared(
  {
    selector,
    sort = [],
  }: { readonly selector: Selector; readonly sort?: readonly { readonly index: number }[] },
  indexes: IndexSet,
): boolean {
  return (
    selector.fields.some(({ key }) => indexes.isDeclared(indexes.indexOf(key) ?? 0)) ||
    sort.some(({ index }) => indexes.isDeclared(index))
  )
}

/** The value of a label as a list of at most one. */
export function labelValuesOf(entry: Entry, key: string): readonly string[] {
  // A label may have the name of an inherited property, such as `constructor`.
  const value = Object.hasOwn(entry.labels, key) ? entry.labels[key] : undefined
  return value === undefined ? noValues : [value]
}

function fieldValuesOf(entry: Entry, name: string, indexes: IndexSet): readonly string[] {
  return valuesAt(entry, indexes.indexOf(name))
}
