import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { deepEqual } from '../model/deep-equal.ts'
import { mergeShipped } from './extensions-merge.ts'

describe('a newer file merged into an object', () => {
  it.each([
    ['a field that the file changed is set', { a: 1 }, { a: 2 }, { a: 1, b: 5 }, { a: 2, b: 5 }],
    ['a field that only people changed stays', { a: 1 }, { a: 1 }, { a: 7 }, { a: 7 }],
    ['a field that both changed is as the file has it', { a: 1 }, { a: 2 }, { a: 7 }, { a: 2 }],
    ['a field that the file no longer has is taken away', { a: 1 }, {}, { a: 7, b: 5 }, { b: 5 }],
    ['a field that people took away stays away', { a: 1, b: 1 }, { a: 1, b: 2 }, {}, { b: 2 }],
    ['a new field is added', {}, { a: { b: 1 } }, { c: 1 }, { a: { b: 1 }, c: 1 }],
    ['what people have below a new field stays', {}, { a: { b: 1 } }, { a: { c: 2 } }, { a: { b: 1, c: 2 } }],
    [
      'fields that users added below a removed field stay',
      { a: { b: 1 } },
      {},
      { a: { b: 1, c: 2 } },
      { a: { c: 2 } },
    ],
    [
      'a removed field goes with all shipped fields below it',
      { a: { b: { c: 1 } } },
      {},
      { a: { b: { c: 3 } } },
      {},
    ],
    ['lists are set whole', { a: [1, 2] }, { a: [1, 3] }, { a: [1, 2, 9] }, { a: [1, 3] }],
    ['lists that the file left alone stay whole', { a: [1] }, { a: [1] }, { a: [9] }, { a: [9] }],
    ['a list may become a mapping', { a: [1] }, { a: { b: 1 } }, { a: [1] }, { a: { b: 1 } }],
    ['a mapping may become a text', { a: { b: 1 } }, { a: 'x' }, { a: { b: 1, c: 1 } }, { a: 'x' }],
    [
      'below a mapping that a user replaced with a string',
      { a: { b: 1, c: 1 } },
      { a: { b: 2, c: 1 } },
      { a: 'x' },
      { a: { b: 2 } },
    ],
  ])('%s', (_, last, shipped, live, expected) => {
    expect(mergeShipped(last, shipped, live)).toEqual(expected)
  })
})

const json = fc.jsonValue({ maxDepth: 3 })

it('gives the shipped values if users changed nothing', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), json), fc.dictionary(fc.string(), json), (last, shipped) => {
      const merged = mergeShipped(last, shipped, last)
      expect(deepEqual(merged, shipped)).toBe(true)
    }),
  )
})

it('changes nothing if the file is the same', () => {
  fc.assert(
    fc.property(json, json, (shipped, live) => {
      expect(mergeShipped(shipped, shipped, live)).toBe(live)
    }),
  )
})

it('changes nothing the second time', () => {
  fc.assert(
    fc.property(json, json, json, (last, shipped, live) => {
      const once = mergeShipped(last, shipped, live)
      expect(deepEqual(mergeShipped(shipped, shipped, once), once)).toBe(true)
      expect(deepEqual(mergeShipped(last, shipped, once), once)).toBe(true)
    }),
  )
})
