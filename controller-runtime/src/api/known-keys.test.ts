import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { nearestName, refuseUnknownKeys, unknownKeys } from './known-keys.ts'

const known = { name: true, order: true, requeueAfterMs: true } as const

describe('unknown keys', () => {
  test('are all listed, each with the nearest valid name, or with all of them', () => {
    expect(unknownKeys({ name: 'a', nam: 'b', colour: 'c' }, known, 'defineThing')).toEqual([
      'unknown key nam in defineThing, did you mean name?',
      'unknown key colour in defineThing, valid keys are name, order, requeueAfterMs',
    ])
    expect(() => refuseUnknownKeys({ requeueAfter: 60 }, known, 'the result')).toThrow(
      new TypeError('unknown key requeueAfter in the result, did you mean requeueAfterMs?'),
    )
  })

  test('include names of Object.prototype, and keys without a value', () => {
    expect(unknownKeys(JSON.parse('{"__proto__": 1, "constructor": 2}'), known, 'x')).toHaveLength(2)
    expect(unknownKeys({ colour: undefined }, known, 'x')).toHaveLength(1)
    expect(() => refuseUnknownKeys({ order: undefined }, known, 'x')).not.toThrow()
  })
})

describe('the nearest name', () => {
  test.each([
    ['indexs', 'indexes'],
    ['INDEXES', 'indexes'],
    ['index', 'indexes'],
    ['printColumns', 'printerColumns'],
    ['subresource', 'subresources'],
    ['knd', 'kind'],
  ])('of %s is %s', (name, nearest) => {
    const names = ['group', 'kind', 'indexes', 'printerColumns', 'subresources']
    expect(nearestName(name, names)).toBe(nearest)
  })

  test.each(['', 'x', 'kay', 'colour', 'a'.repeat(1_000_000)])('of other names does not exist', name => {
    expect(nearestName(name, ['ab', 'kind', 'indexes'])).toBeUndefined()
  })

  test('is the one with the fewest single-letter edits', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[a-z]{6,12}$/), fc.nat(11), (name, at) => {
        const without = name.slice(0, at) + name.slice(at + 1)
        expect(nearestName(without, [`${name}xx`, name, `xx${name}`])).toBe(name)
      }),
    )
  })
})
