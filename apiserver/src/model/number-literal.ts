/** A double keeps any number of up to this many decimal digits, as long as the exponent is in range (DBL_DIG). */
const safeDigits = 15

/**
 * Returns true if `Number(literal)` keeps a number of JSON or YAML exactly. A double prints as the shortest decimal
 * that reads back as itself, so the literal is kept if that is the same decimal: 0.1 and 1e2 are kept, but
 * 9007199254740993 and 0.10000000000000001 are not. Returns false on overflow, underflow, or an invalid literal.
 */
export function isExactDecimal(literal: string): boolean {
  // Of that length it is in range too. A body may have a hundred thousand numbers, so the common ones come first.
  const isPlain = literal.length <= 100 && /^[-+]?(?:\d+\.?\d*|\.\d+)$/.test(literal)
  if (isPlain && significantDigits(literal) <= safeDigits) return true
  const value = Number(literal)
  if (!Number.isFinite(value)) return false
  if (String(value) === literal) return true
  const given = decimalOf(literal)
  const kept = decimalOf(String(value))
  if (given === undefined || kept === undefined) return false
  return given.digits === kept.digits && (given.digits === '' || given.exponent === kept.exponent)
}

/**
 * The decimal 0.digits × 10^exponent. The digits have no leading or trailing zeros, and are '' for zero. The sign is
 * left out because the conversion never changes it.
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

/** Returns the number of digits from the first to the last one that is not zero. */
function significantDigits(plain: string): number {
  let digits = 0
  let first = 0
  let last = 0
  for (let at = 0; at < plain.length; at++) {
    const digit = plain.charCodeAt(at) - 0x30
    if (digit < 0) continue
    digits++
    if (digit === 0) continue
    if (first === 0) first = digits
    last = digits
  }
  return last - first + 1
}
