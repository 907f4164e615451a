import { noValues } from './index-set.ts'

/**
 * The index values of an object as caches keep them, by position in the model's `IndexSet`. A value that is alone is
 * its text, without a list around it, which would take 56 bytes. Read it with `valuesAt`.
 */
export type PackedValues = readonly unknown[]

export function packValues(values: readonly (readonly string[])[]): PackedValues {
  return values.map(list => (list.length === 1 ? list[0] : list))
}

/** Returns the values at a position, which may be a list made for this call. */
export function valuesAt(
  { values }: { readonly values: PackedValues },
  position: number | undefined,
): readonly string[] {
  const packed = position === undefined ? undefined : values[position]
  if (typeof packed === 'string') return [packed]
  return Array.isArray(packed) ? packed : noValues
}

export function unpackValues(of: { readonly values: PackedValues }): (readonly string[])[] {
  return of.values.map((_, position) => valuesAt(of, position))
}
