/**
 * A revision of the store: a non-negative integer, exact in a JavaScript number.
 * Branded so that nothing but `toRevision` and `parseRevision` makes one and nobody adds to one by accident.
 */
export type Revision = number & { readonly [revisionBrand]: true }
declare const revisionBrand: unique symbol

/** Before every write. */
export const zeroRevision = 0 as Revision

/** @throws RangeError when the number is not an exact non-negative integer. */
export function toRevision(value: number): Revision {
  if (!Number.isSafeInteger(value) || value < 0) throw new RangeError(`not an exact revision: ${value}`)
  return value as Revision
}

/**
 * Reads a decimal revision, as a store or the server itself wrote it.
 * @throws RangeError when it is not decimal or would lose digits (above 2^53 - 1).
 */
export function parseRevision(text: string): Revision {
  if (!/^\d{1,16}$/.test(text))
    throw new RangeError(`not a decimal revision: ${JSON.stringify(text.slice(0, 40))}`)
  return toRevision(Number(text))
}

/** The higher of two revisions. */
export function laterRevision(left: Revision, right: Revision): Revision {
  return Math.max(left, right) as Revision
}

/** Whether a client's version is well-formed: decimal digits, of any length. */
export function isVersion(text: string): boolean {
  return /^\d{1,128}$/.test(text)
}

/** Orders two versions as integers of any length: negative, zero or positive. Both must be well-formed. */
export function compareVersions(left: string, right: string): number {
  const a = left.replace(/^0+(?=\d)/, '')
  const b = right.replace(/^0+(?=\d)/, '')
  if (a.length !== b.length) return a.length - b.length
  return a < b ? -1 : a > b ? 1 : 0
}
