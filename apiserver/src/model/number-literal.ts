/**
 * Decides whether a decimal literal survives as a JavaScript number. A double prints as the shortest decimal that
 * reads back as itself, so a literal is kept when that print names the same decimal: 0.1 and 1e2 are, while
 * 9007199254740993 and 0.10000000000000001 would silently become another number in the next answer.
 */

/** Decimal digits that a double keeps whatever they are (DBL_DIG), as long as the exponent is in range. */
const safeDigits = 15

/**
 * Whether `literal` (a number as JSON or YAML write it, signs and leading zeros included) is kept exactly by
 * `Number(literal)`. False for what overflows or underflows, and for anything that is no decimal literal.
 */
export function isExactDecimal(literal: string): boolean {
  const plain = /^[-+]?\d+$/.test(literal)
  if (plain && literal.length <= safeDigits) return true
  const value = Number(literal)
  if (!Number.isFinite(value)) return false
  const given = decimalOf(literal)
  const kept = decimalOf(String(value))
  if (given === undefined || kept === undefined) return false
  return given.digits === kept.digits && (given.digits === '' || given.exponent === kept.exponent)
}

/**
 * A decimal as digits without leading or trailing zeros ('' for zero), to be read as 0.digits × 10^exponent. The
 * sign is left out: the conversion never changes it.
 */
interface Decimal {
  readonly digits: string
  readonly exponent: number
}

function decimalOf(literal: string): Decimal | undefined {
  const match = /^[-+]?(\d*)(?:\.(\d*))?(?:[eE]([-+]?\d+))?$/.exec(literal)
  if (match === null) return undefined
  const [, whole = '', fraction = '', exponent = '0'] = match
  const all = whole + fraction
  if (all === '') return undefined
  let start = 0
  while (all[start] === '0') start++
  let end = all.length
  while (end > start && all[end - 1] === '0') end--
  return { digits: all.slice(start, end), exponent: Number(exponent) + whole.length - start }
}
