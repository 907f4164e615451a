import {
  type BareObject,
  countReservations,
  encodeObject,
  filterReservations,
  noReservations,
  objectLimits,
  type Reservations,
  reservationsOf,
  reservationsWithout,
  type ServedModel,
  type StoredObject,
  shorten,
} from '../model/index.ts'
import type { Causes } from './causes.ts'
import { uniqueLimits } from './unique-index.ts'

/**
 * Returns the unique values that an object must hold and those that it may claim. Adds a cause for every index that
 * fails on the object, unless it failed on the stored one too.
 */
export function indexDraft(
  served: ServedModel,
  object: BareObject,
  json: string,
  stored: StoredObject | undefined,
  causes: Causes,
): { reservations: Reservations; claims: Reservations } {
  const { values, problems } = indexValuesOf(served, object, () => json)
  const wanted = reservationsOf(served, values)
  const overfull = overfullIndexes(served, values)
  // The index values of the stored object are computed only if the decision needs them.
  const unusual =
    stored !== undefined &&
    (problems.length > 0 ||
      overfull.length > 0 ||
      reservationsWithout(wanted, stored.reservations).length > 0)
  const before = unusual ? indexValuesOf(served, stored.object, () => encodeObject(stored.object)) : undefined
  for (const { index, message } of problems) {
    if (before?.problems.some(problem => problem.index === index)) continue
    causes.add({
      reason: 'FieldValueInvalid',
      field: index,
      message: `the index ${index} cannot handle this object: ${shorten(message, messageLength)}`,
    })
  }
  for (const { index, position, count } of overfull) {
    if (count <= (before?.values[position]?.length ?? 0)) continue
    causes.add({
      reason: 'FieldValueTooMany',
      field: index,
      message: `must have at most ${objectLimits.indexValues} values in this index, has ${count}`,
    })
  }
  const unheld =
    before && stored ? reservationsWithout(reservationsOf(served, before.values), stored.reservations) : []
  const unheldKeys = new Set(unheld.map(({ index, value }) => `${index}\0${value}`))
  const isUnheld = (index: string, value: string) => unheldKeys.has(`${index}\0${value}`)
  const reservations =
    unheld.length === 0 ? wanted : filterReservations(wanted, (index, value) => !isUnheld(index, value))
  const count = countReservations(reservations)
  if (count > uniqueLimits.valuesPerObject) {
    causes.add({
      reason: 'FieldValueTooMany',
      message: `the object has ${count} values in unique indexes, at most ${uniqueLimits.valuesPerObject} are allowed`,
    })
  }
  let room = uniqueLimits.valuesPerObject - count
  const claims =
    unheld.length === 0
      ? noReservations
      : filterReservations(wanted, (index, value) => isUnheld(index, value) && room-- > 0)
  return { reservations, claims }
}

/** Returns the multi-value indexes that an object overfills. Labels have a bound of their own. */
function overfullIndexes(served: ServedModel, values: readonly (readonly string[])[]) {
  return values.flatMap(({ length: count }, position) => {
    const index = served.indexes.specs[position]?.name
    if (count <= objectLimits.indexValues || index === undefined || index === 'metadata.labels') return []
    return [{ index, position, count }]
  })
}

/** Characters of an index function's error in a message. */
const messageLength = 300

/** A declared index function may change its argument, for example sort a list in place, so it gets a copy. */
function indexValuesOf({ indexes }: ServedModel, object: BareObject, json: () => string) {
  const indexed: BareObject = indexes.areDeclared ? JSON.parse(json()) : object
  // The cache must not keep the values of a draft.
  return indexes.tryValuesOf(indexed, { isKept: false })
}
