/**
 * Index values and names compare by Unicode code point, which is also the order of their UTF-8 bytes. JavaScript's
 * `<` compares UTF-16 units, and differs only where a surrogate (U+D800 to U+DFFF, half of a character above
 * U+FFFF) meets a unit from U+E000: there the surrogate is the smaller unit but belongs to the larger character.
 */

/** Negative, zero or positive as `left` comes before, is, or comes after `right` in the order of code points. */
export function compareCodePoints(left: string, right: string): number {
  return ordersByUnit(left) ? compareUnits(left, right) : compareUnitwise(left, right)
}

/**
 * Whether `<` orders this text right against any other: it has no unit from U+D800 up. A search asks once about the
 * key that it looks for and then uses `compareUnits`, instead of looking at both texts of every comparison.
 */
export function ordersByUnit(text: string): boolean {
  return !fromSurrogatesUp.test(text)
}

/** The order of UTF-16 units: right where either text `ordersByUnit`. */
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

/** Moves surrogates above all other units, and keeps the order among each. */
function rankOfUnit(unit: number): number {
  return unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit
}
