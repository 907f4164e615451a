/**
 * Index values and names compare by Unicode code point, which is also the order of their UTF-8 bytes. JavaScript's `<`
 * compares UTF-16 units. It differs only between a surrogate (U+D800 to U+DFFF) and a unit from U+E000 up: the
 * surrogate is the smaller unit, but part of the larger character.
 */

/** Compares by code point. Returns a negative number, zero or a positive number. */
export function compareCodePoints(left: string, right: string): number {
  return ordersByUnit(left) ? compareUnits(left, right) : compareUnitwise(left, right)
}

/**
 * Returns true if `compareUnits` is correct for this text and any other: it has no unit from U+D800 up. A search checks
 * its key once instead of both texts of every comparison.
 */
export function ordersByUnit(text: string): boolean {
  return !fromSurrogatesUp.test(text)
}

/** Compares by UTF-16 unit. Correct if `ordersByUnit` is true for either text. */
export function compareUnits(left: string, right: string): number {
  return left === right ? 0 : left < right ? -1 : 1
}

const fromSurrogatesUp = /[\ud800-\uffff]/

function compareUnitwise(left: string, right: string): number {
  const length = Math.min(left.length, right.length)
  for (let at = 0; at < length; at++) {
    const a = left.charCodeAt(at)
    const b = right.charCodeAt(at)
    if (a !== b) return rankOfUnit(a) - rankOfUnit(b)
  }
  return left.length - right.length
}

/** Moves surrogates above all other units. */
function rankOfUnit(unit: number): number {
  return unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit
}
