import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { compareVersions, isVersion, parseRevision, toRevision } from './version.ts'

describe('a revision', () => {
  test.each([0, 1, Number.MAX_SAFE_INTEGER])('may be %d, and survives formatting and parsing', value => {
    expect(toRevision(value)).toBe(value)
    expect(parseRevision(String(value))).toBe(value)
  })

  test.each([-1, 1.5, Number.NaN, Infinity, Number.MAX_SAFE_INTEGER + 1])('cannot be %d', value => {
    expect(() => toRevision(value)).toThrow(RangeError)
  })

  test.each([
    '',
    '-1',
    '+1',
    '1.5',
    '1e3',
    ' 1',
    '1 ',
    '0x1',
    '١',
    'abc',
    '9007199254740992',
    '9'.repeat(17),
    '1'.repeat(1e6),
  ])('is not parsed from %.30j', text => {
    expect(() => parseRevision(text)).toThrow(RangeError)
  })
})

describe('a version from a client', () => {
  test.each(['0', '1', '007', '9'.repeat(128)])('may be %.30j', text => {
    expect(isVersion(text)).toBe(true)
  })

  test.each(['', '-1', '+1', '1.5', '1e3', ' 1', '1 ', '1\n', '0x1', '١', 'abc', '9'.repeat(129)])(
    'cannot be %.30j',
    text => {
      expect(isVersion(text)).toBe(false)
    },
  )

  test('compares as an integer of any length', () => {
    const digits = fc.stringMatching(/^[0-9]{1,40}$/)
    fc.assert(
      fc.property(digits, digits, (left, right) => {
        const [a, b] = [BigInt(left), BigInt(right)]
        expect(Math.sign(compareVersions(left, right))).toBe(a < b ? -1 : a > b ? 1 : 0)
      }),
      { numRuns: 1000 },
    )
    expect(compareVersions('0', '000')).toBe(0)
    expect(compareVersions('9', '10')).toBeLessThan(0)
  })
})
