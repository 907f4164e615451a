import { quote } from '../../../model/index.ts'
import type { Findings } from '../../findings.ts'

/** Reports a value that is not one of those that are supported. */
export function checkOneOf(
  supported: readonly string[],
  value: string,
  field: string,
  found: Findings,
): void {
  if (!supported.includes(value)) found.unsupported(field, value, supported)
}

/** Reports each value that is in a list a second time. @param fieldOf the field of the item at a position */
export function checkDistinct(
  values: readonly string[],
  fieldOf: (at: number) => string,
  found: Findings,
): void {
  const seen = new Set<string>()
  for (const [at, value] of values.entries()) {
    if (value !== '' && seen.has(value))
      found.duplicate(fieldOf(at), `must be distinct, ${quote(value)} is there twice`)
    seen.add(value)
  }
}
