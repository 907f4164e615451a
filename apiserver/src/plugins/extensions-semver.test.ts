import fc from 'fast-check'
import { expect, it } from 'vitest'
import { compareSemanticVersions, isSemanticVersion } from './extensions-semver.ts'

it('orders versions as semver.org does in its examples', () => {
  const ascending = [
    'nonsense',
    '0.0.0-0',
    '0.0.0',
    '0.9.0',
    '0.10.0',
    '1.0.0-0',
    '1.0.0-1',
    '1.0.0-11',
    '1.0.0--1',
    '1.0.0-alpha',
    '1.0.0-alpha.1',
    '1.0.0-alpha.beta',
    '1.0.0-beta',
    '1.0.0-beta.2',
    '1.0.0-beta.11',
    '1.0.0-rc.1',
    '1.0.0',
    '2.0.0',
    '2.1.0',
    '2.1.1',
    '99999999999999999998.0.0',
    '99999999999999999999.0.0',
  ]
  for (const [i, left] of ascending.entries()) {
    for (const [j, right] of ascending.entries()) {
      expect([left, right, Math.sign(compareSemanticVersions(left, right))]).toEqual([
        left,
        right,
        Math.sign(i - j),
      ])
    }
  }
})

it('does not count build metadata', () => {
  expect(compareSemanticVersions('1.0.0+a', '1.0.0+b')).toBe(0)
  expect(compareSemanticVersions('1.0.0-rc.1+z', '1.0.0')).toBeLessThan(0)
})

it('tells versions from other texts', () => {
  for (const text of [
    '1.2.3',
    '0.0.0',
    '1.0.0-a.b-c.0',
    '1.0.0-0a',
    '1.0.0+001',
    '1.0.0---',
    '10.20.30-x+y.z',
  ]) {
    expect([text, isSemanticVersion(text)]).toEqual([text, true])
  }
  for (const text of [
    '',
    '1',
    '1.2',
    'v1.2.3',
    '01.2.3',
    '1.2.3-',
    '1.2.3-01',
    '1.2.3-a..b',
    '1.2.3+',
    '1.2.3 ',
    '1.2.3.4',
  ]) {
    expect([text, isSemanticVersion(text)]).toEqual([text, false])
  }
  expect(isSemanticVersion(`1.0.0-${'a'.repeat(300)}`)).toBe(false)
})

it('is a total order', () => {
  const identifier = fc.oneof(fc.nat(20).map(String), fc.constantFrom('a', 'b', 'rc', '-', 'A', '1a'))
  const version = fc
    .tuple(fc.nat(3), fc.nat(3), fc.array(identifier, { maxLength: 3 }))
    .map(([major, minor, pre]) => `${major}.${minor}.0${pre.length > 0 ? `-${pre.join('.')}` : ''}`)
  fc.assert(
    fc.property(version, version, version, (a, b, c) => {
      expect(Math.sign(compareSemanticVersions(a, b))).toBe(0 - Math.sign(compareSemanticVersions(b, a)))
      if (compareSemanticVersions(a, b) <= 0 && compareSemanticVersions(b, c) <= 0) {
        expect(compareSemanticVersions(a, c)).toBeLessThanOrEqual(0)
      }
      expect(compareSemanticVersions(a, b) === 0).toBe(a === b)
    }),
  )
})
