import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { compareCodePoints, compareUnits, ordersByUnit } from './code-point-order.ts'

/** The definition: code points one by one. */
function plainOrder(left: string, right: string): number {
  const a = [...left].map(character => character.codePointAt(0) ?? 0)
  const b = [...right].map(character => character.codePointAt(0) ?? 0)
  for (let at = 0; at < Math.min(a.length, b.length); at++) {
    const difference = (a[at] ?? 0) - (b[at] ?? 0)
    if (difference !== 0) return Math.sign(difference)
  }
  return Math.sign(a.length - b.length)
}

const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 6 }),
  fc
    .array(
      fc.constantFrom(
        'a',
        'b',
        'é',
        '\u{d7ff}',
        '\u{e000}',
        '\u{ffff}',
        '\u{10000}',
        '\u{1f600}',
        '\u{10ffff}',
      ),
    )
    .map(parts => parts.join('')),
)

describe('string comparison', () => {
  test('is by code point, also where UTF-16 units differ', () => {
    expect(compareCodePoints('\u{ffff}', '\u{1f600}')).toBeLessThan(0)
    expect('\u{ffff}' < '\u{1f600}').toBe(false)
    fc.assert(
      fc.property(text, text, (left, right) => {
        expect(Math.sign(compareCodePoints(left, right))).toBe(plainOrder(left, right))
      }),
      { numRuns: 3000 },
    )
  })

  test('agrees with the order of the UTF-8 bytes', () => {
    fc.assert(
      fc.property(text, text, (left, right) => {
        expect(Math.sign(compareCodePoints(left, right))).toBe(
          Buffer.compare(Buffer.from(left), Buffer.from(right)),
        )
      }),
      { numRuns: 3000 },
    )
  })

  test('agrees with the order of UTF-16 units if either text orders by unit', () => {
    fc.assert(
      fc.property(text, text, (left, right) => {
        fc.pre(ordersByUnit(left) || ordersByUnit(right))
        expect(Math.sign(compareUnits(left, right))).toBe(plainOrder(left, right))
      }),
      { numRuns: 3000 },
    )
  })

  test.each([
    ['10', '9'],
    ['01', '1'],
    ['', 'a'],
    ['a', 'ab'],
    ['Z', 'a'],
  ])('puts %j before %j', (left, right) => {
    expect(compareCodePoints(left, right)).toBeLessThan(0)
    expect(compareCodePoints(right, left)).toBeGreaterThan(0)
    expect(compareCodePoints(left, left)).toBe(0)
  })
})
