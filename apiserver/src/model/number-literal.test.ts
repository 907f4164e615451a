import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isExactDecimal } from './number-literal.ts'

/** Compares both as integers over a common power of ten. */
function sameDecimal(a: string, b: string): boolean {
  const [left, leftScale] = scaled(a)
  const [right, rightScale] = scaled(b)
  const shift = leftScale - rightScale
  return shift < 0n ? left === right * powerOfTen(-shift) : left * powerOfTen(shift) === right
}

function powerOfTen(exponent: bigint): bigint {
  return BigInt(`1${'0'.repeat(Number(exponent))}`)
}

function scaled(literal: string): [value: bigint, scale: bigint] {
  const [mantissa = '', exponent = '0'] = literal.toLowerCase().split('e')
  const [whole = '', fraction = ''] = mantissa.split('.')
  return [BigInt(`${whole}${fraction}`), BigInt(exponent) - BigInt(fraction.length)]
}

const digits = (maxLength: number) => fc.stringMatching(new RegExp(`^(0|[1-9][0-9]{0,${maxLength - 1}})$`))
const literals = fc
  .tuple(
    fc.constantFrom('', '-'),
    digits(25),
    fc.option(fc.stringMatching(/^[0-9]{1,25}$/)),
    fc.option(fc.integer({ min: -340, max: 320 })),
  )
  .map(([sign, whole, fraction, exponent]) => {
    return `${sign}${whole}${fraction === null ? '' : `.${fraction}`}${exponent === null ? '' : `e${exponent}`}`
  })

describe('isExactDecimal', () => {
  it.each([
    '0',
    '-0',
    '1',
    '1.0',
    '1e2',
    '1E+2',
    '0.1',
    '100e-2',
    '0e999999999999',
    '1e308',
    '5e-324',
    '1e23',
  ])('returns true for %s', literal => {
    expect(isExactDecimal(literal)).toBe(true)
  })

  it.each([
    '9007199254740991',
    '-9007199254740992',
    '12345678901234567000',
    '1.7976931348623157e308',
    '0.30000000000000004',
  ])('returns true for %s', literal => {
    expect(isExactDecimal(literal)).toBe(true)
  })

  it.each([
    '9007199254740993',
    '12345678901234567890',
    '0.1000000000000000055',
    '0.10000000000000001',
    '1e400',
    '-1e400',
    '1e-400',
    '4.9e-324',
    '1e99999999999999999999',
    '1e-99999999999999999999',
    `1${'0'.repeat(400)}`,
    '',
    '.',
    'Infinity',
    'NaN',
    '0x10',
  ])('returns false for %s', literal => {
    expect(isExactDecimal(literal)).toBe(false)
  })

  it('agrees with exact arithmetic for any literal', () => {
    fc.assert(
      fc.property(literals, literal => {
        const value = Number(literal)
        expect(isExactDecimal(literal)).toBe(Number.isFinite(value) && sameDecimal(literal, String(value)))
      }),
      { numRuns: 2000 },
    )
  })

  it('accepts every number as JavaScript prints it', () => {
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), value =>
        isExactDecimal(String(value)),
      ),
    )
  })
})
