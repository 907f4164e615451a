import { quote } from './echo.ts'

/**
 * A revision of the store: a non-negative safe integer. Branded so that only `toRevision` and `parseRevision` create
 * one, and arithmetic on it does not compile.
 */
export type Revision = number & { readonly [revisionBrand]: true }
declare const revisionBrand: unique symbol

/** The revision before the first write. */
export const zeroRevision = 0 as Revision

/** @throws RangeError unless the number is a non-negative safe integer. */
export function toRevision(value: number): Revision {
  if (!Number.isSafeInteger(value) || value < 0) throw new RangeError(`not an exact revision: ${value}`)
  return value as Revision
}

/**
 * Parses a decimal revision written by a store or the server.
 * @throws RangeError if it is not decimal or not a safe integer.
 */
export function parseRevision(text: string): Revision {
  if (!/^\d{1,16}$/.test(text)) throw new RangeError(`not a decimal revision: ${quote(text)}`)
  return toRevision(Number(text))
}

/** Returns the higher of two revisions. */
export function laterRevision(left: Revision, right: Revision): Revision {
  return Math.max(left, right) as Revision
}

/** Returns true if the text is a well-formed version: up to 128 decimal digits. */
export function isVersion(text: string): boolean {
  return /^\d{1,128}$/.test(text)
}

/**
 * Compares two well-formed versions as integers of any length; returns a negative number, zero or a positive number.
 */
export function compareVersions(left: string, right: string): number {
  const a = left.replace(/^0+(?=\d)/, '')
  const b = right.replace(/^0+(?=\d)/, '')
  if (a.length !== b.length) return a.length - b.length
  return a < b ? -1 : a > b ? 1 : 0
}
