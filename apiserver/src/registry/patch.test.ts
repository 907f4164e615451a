import { ApiError, isApiError } from '@setpoint/controller-runtime/api'
import fc from 'fast-check'
import { createPatch } from 'rfc6902'
import { describe, expect, it } from 'vitest'
import { runsOf } from '../../../test/support/runs.ts'
import { deepEqual } from '../model/deep-equal.ts'
import { cloneJson } from '../model/json-value.ts'
import { valueAt } from '../model/violation.ts'
import { applyJsonPatch, applyMergePatch, createMergePatch, jsonPatchDefaults } from './patch.ts'

const json = (text: string): unknown => JSON.parse(text)

/** Few names and small values, so that two values often overlap. */
const { value: values } = fc.letrec(tie => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom<unknown>(0, 1, 'a', '', true, false),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(fc.constantFrom('a', 'b', 'c/d', 'e~f', '', 'constructor', '0'), tie('value'), {
      noNullPrototype: true,
    }),
  ),
}))

describe('a merge patch', () => {
  // RFC 7386, appendix A.
  it.each([
    ['{"a":"b"}', '{"a":"c"}', '{"a":"c"}'],
    ['{"a":"b"}', '{"b":"c"}', '{"a":"b","b":"c"}'],
    ['{"a":"b"}', '{"a":null}', '{}'],
    ['{"a":"b","b":"c"}', '{"a":null}', '{"b":"c"}'],
    ['{"a":["b"]}', '{"a":"c"}', '{"a":"c"}'],
    ['{"a":"c"}', '{"a":["b"]}', '{"a":["b"]}'],
    ['{"a":{"b":"c"}}', '{"a":{"b":"d","c":null}}', '{"a":{"b":"d"}}'],
    ['{"a":[{"b":"c"}]}', '{"a":[1]}', '{"a":[1]}'],
    ['["a","b"]', '["c","d"]', '["c","d"]'],
    ['{"a":"b"}', '["c"]', '["c"]'],
    ['{"a":"foo"}', 'null', 'null'],
    ['{"a":"foo"}', '"bar"', '"bar"'],
    ['{"e":null}', '{"a":1}', '{"e":null,"a":1}'],
    ['[1,2]', '{"a":"b","c":null}', '{"a":"b"}'],
    ['{}', '{"a":{"bb":{"ccc":null}}}', '{"a":{"bb":{}}}'],
    // Nulls inside lists are values.
    ['{}', '{"a":[null,{"b":null}]}', '{"a":[null,{"b":null}]}'],
    ['{"toString":1}', '{"constructor":{"x":null}}', '{"toString":1,"constructor":{}}'],
  ])('of %s and %s gives %s', (target, patch, result) => {
    expect(JSON.stringify(applyMergePatch(json(target), json(patch)))).toBe(result)
  })

  it('does not change target and patch', () => {
    const target = { a: { list: [{ x: 1 }] }, b: { c: 1 } }
    const patch = { d: { e: [{ y: 1 }] }, b: { f: 2 } }
    const before = JSON.stringify([target, patch])
    const result = applyMergePatch(target, patch)
    expect(result).toEqual({ a: { list: [{ x: 1 }] }, b: { c: 1, f: 2 }, d: { e: [{ y: 1 }] } })
    expect(JSON.stringify([target, patch])).toBe(before)
  })

  it('with a field __proto__ changes no prototype', () => {
    const result = applyMergePatch({}, json('{"__proto__":{"polluted":1},"a":{"__proto__":{"polluted":1}}}'))
    expect(Object.getPrototypeOf(result)).toBe(Object.prototype)
    expect({}).not.toHaveProperty('polluted')
    expect(result).not.toHaveProperty('polluted')
  })

  it('made by createMergePatch turns one value into the other, and is undefined for equal ones', () => {
    fc.assert(
      fc.property(values, values, (from, to) => {
        const patch = createMergePatch(from, to)
        if (patch === undefined) expect(deepEqual(from, to)).toBe(true)
        else expect(deepEqual(applyMergePatch(from, patch), to)).toBe(true)
        expect(createMergePatch(from, cloneJson(from))).toBeUndefined()
      }),
      { numRuns: 1000 },
    )
  })

  it('made by createMergePatch contains only the differences', () => {
    const from = { a: 1, b: { c: 1, d: [1, 2], e: 3 }, f: 1 }
    const to = { a: 1, b: { c: 2, d: [1, 2], g: undefined }, h: { i: 1 } }
    expect(createMergePatch(from, to)).toEqual({ b: { c: 2, e: null }, f: null, h: { i: 1 } })
  })
})

describe('a JSON patch', () => {
  // RFC 6902, appendix A.
  it.each([
    ['A.1', '{"foo":"bar"}', '[{"op":"add","path":"/baz","value":"qux"}]', '{"foo":"bar","baz":"qux"}'],
    [
      'A.2',
      '{"foo":["bar","baz"]}',
      '[{"op":"add","path":"/foo/1","value":"qux"}]',
      '{"foo":["bar","qux","baz"]}',
    ],
    ['A.3', '{"baz":"qux","foo":"bar"}', '[{"op":"remove","path":"/baz"}]', '{"foo":"bar"}'],
    ['A.4', '{"foo":["bar","qux","baz"]}', '[{"op":"remove","path":"/foo/1"}]', '{"foo":["bar","baz"]}'],
    [
      'A.5',
      '{"baz":"qux","foo":"bar"}',
      '[{"op":"replace","path":"/baz","value":"boo"}]',
      '{"baz":"boo","foo":"bar"}',
    ],
    [
      'A.6',
      '{"foo":{"bar":"baz","waldo":"fred"},"qux":{"corge":"grault"}}',
      '[{"op":"move","from":"/foo/waldo","path":"/qux/thud"}]',
      '{"foo":{"bar":"baz"},"qux":{"corge":"grault","thud":"fred"}}',
    ],
    [
      'A.7',
      '{"foo":["all","grass","cows","eat"]}',
      '[{"op":"move","from":"/foo/1","path":"/foo/3"}]',
      '{"foo":["all","cows","eat","grass"]}',
    ],
    [
      'A.8',
      '{"baz":"qux","foo":["a",2,"c"]}',
      '[{"op":"test","path":"/baz","value":"qux"},{"op":"test","path":"/foo/1","value":2}]',
      '{"baz":"qux","foo":["a",2,"c"]}',
    ],
    [
      'A.10',
      '{"foo":"bar"}',
      '[{"op":"add","path":"/child","value":{"grandchild":{}}}]',
      '{"foo":"bar","child":{"grandchild":{}}}',
    ],
    [
      'A.11',
      '{"foo":"bar"}',
      '[{"op":"add","path":"/baz","value":"qux","xyz":123}]',
      '{"foo":"bar","baz":"qux"}',
    ],
    ['A.14', '{"/":9,"~1":10}', '[{"op":"test","path":"/~01","value":10}]', '{"/":9,"~1":10}'],
    [
      'A.16',
      '{"foo":["bar"]}',
      '[{"op":"add","path":"/foo/-","value":["abc","def"]}]',
      '{"foo":["bar",["abc","def"]]}',
    ],
    ['the root added', '{"a":1}', '[{"op":"add","path":"","value":[1]}]', '[1]'],
    [
      'the root replaced',
      '{"a":1}',
      '[{"op":"replace","path":"","value":{"b":1}},{"op":"add","path":"/c","value":2}]',
      '{"b":1,"c":2}',
    ],
    ['the root tested', '{"a":1,"b":2}', '[{"op":"test","path":"","value":{"b":2,"a":1}}]', '{"a":1,"b":2}'],
    ['a part moved to the root', '{"a":{"b":1}}', '[{"op":"move","from":"/a","path":""}]', '{"b":1}'],
    [
      'the root copied into itself',
      '{"a":1}',
      '[{"op":"copy","from":"","path":"/b"}]',
      '{"a":1,"b":{"a":1}}',
    ],
    ['a move to where it is', '{"a":[1]}', '[{"op":"move","from":"/a/0","path":"/a/0"}]', '{"a":[1]}'],
    [
      'null added, tested, replaced',
      '{}',
      '[{"op":"add","path":"/a","value":null},{"op":"test","path":"/a","value":null},{"op":"replace","path":"/a","value":1}]',
      '{"a":1}',
    ],
    [
      'a missing field tested for null',
      '{"a":{}}',
      '[{"op":"test","path":"/a/b","value":null},{"op":"add","path":"/a/b","value":[1]}]',
      '{"a":{"b":[1]}}',
    ],
    ['the empty key', '{"":1}', '[{"op":"replace","path":"/","value":2}]', '{"":2}'],
    [
      'inherited names',
      '{}',
      '[{"op":"add","path":"/constructor","value":{}},{"op":"add","path":"/constructor/prototype","value":1}]',
      '{"constructor":{"prototype":1}}',
    ],
    ['nothing', '{"a":1}', '[]', '{"a":1}'],
  ])('%s', (_name, target, patch, result) => {
    expect(JSON.stringify(applyJsonPatch(json(target), json(patch)))).toBe(result)
  })

  it.each([
    [
      '{"baz":"qux"}',
      '[{"op":"test","path":"/baz","value":"bar"}]',
      'operation 1 of the patch (test "/baz")',
    ],
    ['{"foo":"bar"}', '[{"op":"add","path":"/baz/bat","value":"qux"}]', 'nothing at /baz'],
    ['{"/":9,"~1":10}', '[{"op":"test","path":"/~01","value":"10"}]', 'another value'],
    [
      '{"l":[1,2]}',
      '[{"op":"test","path":"/l","value":[1,2]},{"op":"add","path":"/l/01","value":0}]',
      'operation 2 of the patch (add "/l/01")',
    ],
    ['{"l":[1,2]}', '[{"op":"replace","path":"/l/01","value":0}]', 'is not an index'],
    ['{"l":[1,2]}', '[{"op":"remove","path":"/l/length"}]', 'is not an index'],
    ['{"l":[1,2]}', '[{"op":"add","path":"/l/1e0","value":0}]', 'is not an index'],
    ['{"l":[1,2]}', '[{"op":"add","path":"/l/+1","value":0}]', 'is not an index'],
    ['{"l":[1,2]}', '[{"op":"add","path":"/l/3","value":0}]', 'past the end'],
    ['{"l":[1,2]}', '[{"op":"add","path":"/l/99999999999999999999","value":0}]', 'past the end'],
    ['{"l":[1,2]}', '[{"op":"replace","path":"/l/2","value":0}]', 'does not exist'],
    ['{"l":[1,2]}', '[{"op":"replace","path":"/l/-","value":0}]', 'does not exist'],
    ['{"l":[1,2]}', '[{"op":"remove","path":"/l/-"}]', 'does not exist'],
    ['{"l":[1,2]}', '[{"op":"test","path":"/l/-","value":null}]', 'does not exist'],
    ['{"a":1}', '[{"op":"test","path":"/a","value":null}]', 'another value'],
    ['{}', '[{"op":"test","path":"/a/b","value":null}]', 'nothing at /a'],
    ['{}', '[{"op":"test","path":"/a","value":1}]', 'nothing at /a'],
    ['{"a":"text"}', '[{"op":"add","path":"/a/0","value":0}]', 'no fields'],
    ['{"a":"text"}', '[{"op":"replace","path":"/a/length","value":0}]', 'no fields'],
    ['{"a":null}', '[{"op":"add","path":"/a/b","value":0}]', 'no fields'],
    ['{}', '[{"op":"remove","path":"/toString"}]', 'does not exist'],
    ['{}', '[{"op":"test","path":"/constructor/name","value":"Object"}]', 'nothing at /constructor'],
    ['{}', '[{"op":"copy","from":"/a","path":"/b"}]', 'copy "/a" to "/b"'],
    ['{}', '[{"op":"move","from":"/a","path":"/b"}]', 'does not exist'],
    ['{"a":{"b":1}}', '[{"op":"move","from":"/a","path":"/a/b"}]', 'inside'],
    ['{"a":1}', '[{"op":"move","from":"","path":"/a"}]', 'inside'],
    ['{"a":1}', '[{"op":"remove","path":""}]', 'cannot be removed'],
  ])('on %s %s does not apply', (target, patch, why) => {
    expect(() => applyJsonPatch(json(target), json(patch))).toThrow(
      expect.objectContaining({ reason: 'Invalid', message: expect.stringContaining(why) }),
    )
  })

  it.each([
    ['{}', 'array of operations'],
    ['null', 'array of operations'],
    ['[1]', 'operation 1 of the patch must be an object'],
    ['[[]]', 'operation 1 of the patch must be an object'],
    ['[{"op":"test","path":"","value":{}},{}]', 'operation 2 of the patch must have an "op"'],
    ['[{"op":"ADD","path":"/a","value":1}]', '"op" that is one of add'],
    ['[{"op":"toString","path":"/a"}]', '"op" that is one of add'],
    ['[{"op":"add","path":"/a"}]', 'must have a "value"'],
    ['[{"op":"test","path":"/a"}]', 'must have a "value"'],
    ['[{"op":"remove"}]', 'must have a "path"'],
    ['[{"op":"remove","path":5}]', 'must have a "path"'],
    ['[{"op":"move","path":"/a"}]', 'must have a "from"'],
    ['[{"op":"add","path":"a","value":1}]', "start with '/'"],
    ['[{"op":"add","path":"/a~","value":1}]', '~0'],
    ['[{"op":"add","path":"/a~2","value":1}]', '~0'],
    [`[{"op":"add","path":"${'/a'.repeat(1_000)}","value":1}]`, 'at most 200 levels'],
    ['[{"op":"add","path":"/__proto__/polluted","value":1}]', '__proto__'],
    ['[{"op":"copy","from":"/__proto__","path":"/a"}]', '__proto__'],
  ])('%s is malformed', (patch, why) => {
    expect(() => applyJsonPatch({ a: 1 }, json(patch))).toThrow(
      expect.objectContaining({ reason: 'BadRequest', message: expect.stringContaining(why) }),
    )
  })

  it('does not change its target, whether it fails or applies', () => {
    const target = { a: { b: [1, 2] } }
    expect(() =>
      applyJsonPatch(target, [
        { op: 'remove', path: '/a/b/0' },
        { op: 'remove', path: '/x' },
      ]),
    ).toThrow(ApiError)
    const result = applyJsonPatch(target, [{ op: 'add', path: '/a/b/-', value: 3 }])
    expect(result).toEqual({ a: { b: [1, 2, 3] } })
    expect(target).toEqual({ a: { b: [1, 2] } })
  })

  it('adds a separate copy of its value each time', () => {
    const value = { list: [] }
    const patch = [
      { op: 'add', path: '/a', value },
      { op: 'copy', from: '/a', path: '/b' },
      { op: 'add', path: '/a/list/-', value: 1 },
    ]
    expect(applyJsonPatch({}, patch)).toEqual({ a: { list: [1] }, b: { list: [] } })
    expect(value).toEqual({ list: [] })
  })

  const tooLarge = expect.objectContaining({ reason: 'RequestEntityTooLarge' })

  it('may have as many operations as the bound allows', () => {
    const operations = (count: number) =>
      Array.from({ length: count }, () => ({ op: 'test', path: '', value: {} }))
    expect(applyJsonPatch({}, operations(jsonPatchDefaults.maxOperations))).toEqual({})
    expect(() => applyJsonPatch({}, operations(jsonPatchDefaults.maxOperations + 1))).toThrow(tooLarge)
  })

  it('is rejected with 413 if it copies too much', () => {
    const doubling = Array.from({ length: 60 }, (_, index) => ({ op: 'copy', from: '', path: `/c${index}` }))
    expect(() => applyJsonPatch({ a: 'x'.repeat(100) }, doubling)).toThrow(tooLarge)
  })

  it('is rejected with 413 if it copies too many fields, or names too many levels', () => {
    const { maxCopiedParts, maxLevels, maxPointerCharacters } = jsonPatchDefaults
    const list = Array.from({ length: maxCopiedParts / 2 }, () => ({}))
    const copies = (count: number) =>
      Array.from({ length: count }, (_, at) => ({ op: 'copy', from: '/list', path: `/c${at}` }))
    expect(applyJsonPatch({ list }, copies(2))).toHaveProperty('c1', list)
    expect(() => applyJsonPatch({ list }, copies(3))).toThrow(tooLarge)
    const deep = Array.from({ length: 150 }).reduce<object>(value => ({ a: value }), {})
    const path = '/a'.repeat(150)
    const tests = (count: number) => Array.from({ length: count }, () => ({ op: 'test', path, value: {} }))
    const most = Math.floor(maxLevels / 150)
    expect(applyJsonPatch(deep, tests(most))).toEqual(deep)
    expect(() => applyJsonPatch(deep, tests(most + 1))).toThrow(tooLarge)
    const add = (length: number) => [{ op: 'add', path: `/${'~1'.repeat(length / 2 - 1)}a`, value: 1 }]
    expect(Object.keys(Object(applyJsonPatch({}, add(maxPointerCharacters))))).toHaveLength(1)
    expect(() => applyJsonPatch({}, add(maxPointerCharacters + 2))).toThrow(tooLarge)
  })

  it('copies only what it changes', () => {
    const target = { a: { b: { c: 1 }, d: { e: 1 } }, f: [{ g: 1 }, { h: 1 }] }
    const patch = [
      { op: 'replace', path: '/a/b/c', value: 2 },
      { op: 'remove', path: '/f/0/g' },
    ]
    const result = applyJsonPatch(target, patch)
    expect(result).toEqual({ a: { b: { c: 2 }, d: { e: 1 } }, f: [{}, { h: 1 }] })
    expect(valueAt(result, ['a', 'd'])).toBe(target.a.d)
    expect(valueAt(result, ['f', 1])).toBe(target.f[1])
  })

  it('is rejected with 413 if it shifts a long list repeatedly', () => {
    const list = Array.from({ length: 700_000 }, () => 0)
    for (const operation of [
      { op: 'add', path: '/0', value: 1 },
      { op: 'remove', path: '/0' },
    ]) {
      expect(() =>
        applyJsonPatch(
          list,
          Array.from({ length: 10_000 }, () => operation),
        ),
      ).toThrow(tooLarge)
    }
  })

  it('cannot nest its target deeper than a document may be, by moves or by copies', () => {
    const { maxDepth } = jsonPatchDefaults
    const nested = (levels: number) =>
      Array.from({ length: levels }).reduce<object>(value => ({ a: value }), {})
    const add = (levels: number) => [{ op: 'add', path: '/a/a/b', value: nested(levels) }]
    expect(applyJsonPatch(nested(10), add(maxDepth - 4))).toHaveProperty('a.a.b.a')
    expect(() => applyJsonPatch(nested(10), add(maxDepth - 3))).toThrow(
      expect.objectContaining({ reason: 'BadRequest' }),
    )
    const moves = Array.from({ length: 3000 }, () => [
      { op: 'add', path: '/b', value: {} },
      { op: 'move', from: '/a', path: '/b/a' },
      { op: 'move', from: '/b', path: '/a' },
    ]).flat()
    expect(() => applyJsonPatch({ a: {} }, moves)).toThrow(expect.objectContaining({ reason: 'BadRequest' }))
    const thenCopy = [...moves, { op: 'copy', from: '', path: '/c' }]
    expect(() => applyJsonPatch({ a: {} }, thenCopy)).toThrow(tooLarge)
  })

  it('made by another implementation turns one value into the other', () => {
    fc.assert(
      fc.property(values, values, (from, to) => {
        // The other implementation cannot replace the root.
        expect(applyJsonPatch({ root: from }, createPatch({ root: from }, { root: to }))).toEqual({
          root: to,
        })
      }),
      { numRuns: 500 },
    )
  })

  it('of random operations is applied or refused', () => {
    const pointers = fc
      .array(
        fc.constantFrom('a', 'b', '0', '1', '-', '01', '', 'constructor', '__proto__', 'length', '~0', '~'),
        { maxLength: 4 },
      )
      .map(tokens => tokens.map(token => `/${token}`).join(''))
    const operation = fc.record(
      {
        op: fc.constantFrom('add', 'remove', 'replace', 'move', 'copy', 'test', 'x'),
        path: fc.oneof({ weight: 9, arbitrary: pointers }, { weight: 1, arbitrary: fc.anything() }),
        from: pointers,
        value: values,
      },
      { requiredKeys: ['op', 'path'] },
    )
    const patches = fc.oneof(
      { weight: 9, arbitrary: fc.array<unknown>(operation, { maxLength: 6 }) },
      { weight: 1, arbitrary: fc.jsonValue() },
    )
    fc.assert(
      fc.property(values, patches, (target, patch) => {
        const before = JSON.stringify(target)
        try {
          JSON.stringify(applyJsonPatch(target, patch))
        } catch (error) {
          expect(isApiError(error, 'BadRequest', 'Invalid', 'RequestEntityTooLarge')).toBe(true)
        }
        applyMergePatch(target, patch)
        expect(JSON.stringify(target)).toBe(before)
      }),
      { numRuns: runsOf(3000) },
    )
  })
})
