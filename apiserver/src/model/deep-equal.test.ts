import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { deepEqual } from './deep-equal.ts'
import { cloneJson } from './json-value.ts'

describe('equality of JSON values', () => {
  it.each([
    [
      { a: 1, b: 2 },
      { b: 2, a: 1 },
    ],
    [0, -0],
    [{ a: undefined }, {}],
    [{}, { a: undefined }],
    [
      { a: undefined, b: 1 },
      { b: 1, c: undefined },
    ],
    [[], []],
    [JSON.parse('{"__proto__":1}'), JSON.parse('{"__proto__":1}')],
  ])('%j equals %j', (a, b) => {
    expect(deepEqual(a, b)).toBe(true)
  })

  it.each([
    [{}, []],
    [[], {}],
    [{}, null],
    [null, undefined],
    [1, '1'],
    [
      [1, 2],
      [2, 1],
    ],
    [[1], [1, undefined]],
    [{ 0: 1 }, [1]],
    [{ a: 1 }, { a: 1, b: 2 }],
    [{ a: 1, b: 2 }, { a: 1 }],
    [{ a: null }, {}],
    [{ toString: 1 }, {}],
    [{}, { constructor: 1 }],
    [JSON.parse('{"__proto__":{}}'), {}],
    [JSON.parse('{"__proto__":{}}'), { a: 1 }],
    [JSON.parse('{"__proto__":{"a":1}}'), { a: 1 }],
  ])('%j does not equal %j', (a, b) => {
    expect(deepEqual(a, b)).toBe(false)
    expect(deepEqual(b, a)).toBe(false)
  })

  it('agrees with Node on JSON values', () => {
    const values = fc.jsonValue().map(value => JSON.parse(JSON.stringify(value)) as unknown)
    fc.assert(
      fc.property(values, values, (a, b) => {
        expect(deepEqual(a, b)).toBe(isDeepStrictEqual(a, b))
        expect(deepEqual(a, cloneJson(a))).toBe(true)
      }),
    )
  })
})
