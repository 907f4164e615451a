import type { ServedModel } from './served-model.ts'

/** The unique values that an object holds, by the id of the index (`uniqueIndexId`). Stored with the object. */
export type Reservations = Readonly<Record<string, readonly string[]>>

export const noReservations: Reservations = Object.freeze({})

/** Returns the values that an object must hold. `values` are its index values by position in the model's IndexSet. */
export function reservationsOf(served: ServedModel, values: readonly (readonly string[])[]): Reservations {
  let reservations: Record<string, readonly string[]> | undefined
  for (const { name, position } of served.uniqueIndexes) {
    const held = values[position]
    if (held === undefined || held.length === 0) continue
    reservations ??= {}
    reservations[name] = held
  }
  return reservations ?? noReservations
}

/** Returns the (index, value) pairs of `left` that are not in `right`. */
export function reservationsWithout(
  left: Reservations,
  right: Reservations,
): { index: string; value: string }[] {
  if (left === noReservations) return []
  const pairs: { index: string; value: string }[] = []
  for (const [index, values] of Object.entries(left)) {
    const others = new Set(Object.hasOwn(right, index) ? right[index] : undefined)
    for (const value of values) if (!others.has(value)) pairs.push({ index, value })
  }
  return pairs
}

export function filterReservations(
  reservations: Reservations,
  keep: (index: string, value: string) => boolean,
): Reservations {
  const kept: Record<string, readonly string[]> = {}
  for (const [index, values] of Object.entries(reservations)) {
    const some = values.filter(value => keep(index, value))
    if (some.length > 0) kept[index] = some
  }
  return kept
}

/** Returns the union of two disjoint sets. */
export function joinReservations(left: Reservations, right: Reservations): Reservations {
  if (right === noReservations) return left
  const joined: Record<string, readonly string[]> = { ...left }
  for (const [index, values] of Object.entries(right)) joined[index] = [...(joined[index] ?? []), ...values]
  return joined
}

export function countReservations(reservations: Reservations): number {
  let count = 0
  for (const values of Object.values(reservations)) count += values.length
  return count
}
