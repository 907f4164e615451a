import { ApiError, isApiError, type StatusReason } from '@setpoint/controller-runtime/api'
import fc from 'fast-check'
import { dump } from 'js-yaml'
import { describe, expect, it } from 'vitest'
import { decodeBody, decodeDefaults, decodeDocument, decodeDocuments } from './decode.ts'
import { deepEqual } from './deep-equal.ts'
import { countParts, inspectJson } from './json-text.ts'

const bytes = (text: string) => new TextEncoder().encode(text)
const json = (text: string) => decodeDocument(bytes(text), 'json')
const duplicateFields = (text: string) =>
  decodeBody(bytes(text), 'json')
    .duplicates()
    .map(({ field }) => field)
const duplicateKeys = (text: string) =>
  decodeBody(bytes(text), 'yaml')
    .duplicates()
    .map(({ message }) => message)
const yaml = (text: string) => decodeDocument(bytes(text), 'yaml')

function refusal(run: () => unknown, reason: StatusReason = 'BadRequest'): ApiError {
  try {
    run()
  } catch (error) {
    if (isApiError(error, reason)) return error
    throw error
  }
  throw new Error('nothing was refused')
}

/** Any JSON value without the one field name that is refused. */
const values = fc.jsonValue({ maxDepth: 6 }).filter(value => !JSON.stringify(value).includes('"__proto__":'))

describe('a JSON body', () => {
  it('with too many fields, and items that are objects or lists, is rejected with 413', () => {
    const { maxParts } = decodeDefaults
    const list = (count: number, item: string) => `{"list":[${Array(count).fill(item).join(',')}]}`
    const refused = (parts: number) =>
      `the body has ${parts} fields and list items that are objects or lists, at most ${maxParts} are read`
    for (const item of ['{}', '[]']) {
      expect(json(list(maxParts - 1, item))).toHaveProperty('list.length', maxParts - 1)
      const { message } = refusal(() => json(list(maxParts, item)), 'RequestEntityTooLarge')
      expect(message).toBe(refused(maxParts + 1))
    }
    const { message } = refusal(() => json(list(maxParts / 2, '{ "a" : [ ] }')), 'RequestEntityTooLarge')
    expect(message).toBe(refused(maxParts + 1))
  })

  it('with too many values is rejected with 413', () => {
    const { maxValues } = decodeDefaults
    const list = (count: number) => `[${Array(count).fill('"a"').join(',')}]`
    expect(json(list(maxValues))).toHaveLength(maxValues)
    const { message } = refusal(() => json(list(maxValues + 1)), 'RequestEntityTooLarge')
    expect(message).toBe(`the body has more than ${maxValues} list items and fields`)
  })

  it('with too many long numbers is rejected with 413', () => {
    const { maxLongNumbers } = decodeDefaults
    const list = (count: number) => `[${Array(count).fill('0.5e000000').join(',')}]`
    expect(json(list(maxLongNumbers))).toHaveLength(maxLongNumbers)
    refusal(() => json(list(maxLongNumbers + 1)), 'RequestEntityTooLarge')
  })

  it('that is long and malformed is rejected with the message of the engine', () => {
    const { message } = refusal(() => json(`[${'1234567,'.repeat(90_000)}x]`), 'BadRequest')
    expect(message).toMatch(/^the body is not valid JSON: Unexpected token/)
    expect(message.length).toBeLessThan(200)
  })

  it('has as many parts as its value', () => {
    fc.assert(
      fc.property(values, fc.constantFrom(undefined, 1), (value, space) => {
        expect(inspectJson(JSON.stringify(value, null, space), 200, 0).parts).toBe(countParts(value))
      }),
    )
  })

  it('decodes to the value that was encoded', () => {
    fc.assert(
      fc.property(values, value => {
        const decoded = json(JSON.stringify(value))
        expect(deepEqual(decoded, value)).toBe(true)
        expect(JSON.stringify(decoded)).toBe(JSON.stringify(value))
      }),
    )
  })

  it.each([
    ['{', 'line 1, column 2 (offset 1)', "expected ',' or '}', found the end of the body"],
    ['{"a": 1,\n "b" 2}', 'line 2, column 6 (offset 14)', "expected ':' after the field name"],
    ['{"a": 1,}', 'line 1, column 9 (offset 8)', 'expected a field name in double quotes, found "}"'],
    ['{a: 1}', 'line 1, column 2 (offset 1)', 'expected a field name in double quotes, found "a"'],
    ["{'a': 1}", 'line 1, column 2 (offset 1)', 'expected a field name in double quotes'],
    ['{"a": 1, b: 2}', 'line 1, column 10 (offset 9)', 'expected a field name in double quotes, found "b"'],
    ['{"a": tru}', 'line 1, column 7 (offset 6)', 'expected a value'],
    ['[1, 2', 'line 1, column 6 (offset 5)', "expected ',' or"],
    ['[1 2]', 'line 1, column 4 (offset 3)', "expected ','"],
    ['[1,]', 'line 1, column 4 (offset 3)', 'expected a value, found "]"'],
    ['{"a": 1} x', 'line 1, column 10 (offset 9)', 'found "x"'],
    ['{} {}', 'line 1, column 4 (offset 3)', 'expected nothing after the end of the document'],
    ['01', 'line 1, column 2 (offset 1)', 'found "1"'],
    ['[1.]', 'line 1, column 2 (offset 1)', 'the number breaks off'],
    ['[.5]', 'line 1, column 2 (offset 1)', 'expected a value'],
    ['NaN', 'line 1, column 1 (offset 0)', 'expected a value'],
    ['// x\n{}', 'line 1, column 1 (offset 0)', 'comments are not allowed'],
    ['{"a": /* x */ 1}', 'line 1, column 7 (offset 6)', 'comments are not allowed'],
    ['{"a": "x\ny"}', 'line 1, column 7 (offset 6)', 'the string is not closed on its line'],
    ['"\u0001"', 'line 1, column 1 (offset 0)', 'control characters'],
    ['"\\x"', 'line 1, column 1 (offset 0)', 'the escape'],
    ['"\\u12"', 'line 1, column 1 (offset 0)', 'the escape'],
    ['\u00a0{}', 'line 1, column 1 (offset 0)', 'found "\\u00a0"'],
  ])('%j is rejected with the position and the reason', (text, where, why) => {
    const { message } = refusal(() => json(text))
    expect(message).toContain(where)
    expect(message).toContain(why)
  })

  it.each(['', ' \n\t', '\uFEFF'])('without content (%j) is refused as empty', text => {
    expect(refusal(() => json(text)).message).toContain('empty')
    expect(refusal(() => yaml(text)).message).toContain('empty')
  })

  it('may start with a byte order mark', () => {
    expect(json('\uFEFF{"a":1}')).toEqual({ a: 1 })
    expect(yaml('\uFEFFa: 1')).toEqual({ a: 1 })
    expect(duplicateFields('\uFEFF{"a":1,"a":2}')).toEqual(['a'])
  })

  it.each([
    [[0xff], 0],
    [[...bytes('{"a":"é\uFFFD'), 0xc3, 0x28], 11],
    [[...bytes('\uFEFF"x'), 0xe2, 0x82], 5],
    [[0x22, 0xed, 0xa0, 0x80, 0x22], 1],
  ])('that is not UTF-8 is rejected with the position of the first invalid byte', (body, at) => {
    for (const type of ['json', 'yaml'] as const) {
      expect(refusal(() => decodeDocument(Uint8Array.from(body), type)).message).toContain(`at byte ${at}`)
    }
  })

  it.each([
    ['{"n": 12345678901234567890}', 'column 7', '12345678901234567890'],
    ['[0, 9007199254740993]', 'column 5', 'become 9007199254740992'],
    ['{"a":\n [0.1000000000000000055]}', 'line 2, column 3', '0.1000000000000000055'],
    ['1e400', 'column 1', 'out of range'],
    ['-1e400', 'column 1', 'out of range'],
    ['1e-400', 'column 1', 'become 0'],
    ['[-1E-400]', 'column 2', 'become 0'],
  ])('%s is rejected, not rounded', (text, where, what) => {
    const { message } = refusal(() => json(text))
    expect(message).toContain(where)
    expect(message).toContain(what)
  })

  it('may contain any digits inside strings', () => {
    const text = '{"12345678901234567890":"\\\\\\"9007199254740993 1e400","a":["1e-400","\\\\"],"b":"[[["}'
    expect(JSON.stringify(json(text))).toBe(text)
  })

  it('decodes -0 as 0', () => {
    expect(json('[-0, -0.0, -0e5, {"a": -0}]')).toEqual([0, 0, 0, { a: 0 }])
    expect(json('-0')).toBe(0)
    expect(json('[-0.5]')).toEqual([-0.5])
  })

  it('nested deeper than the bound is rejected, however deep', () => {
    const { maxDepth } = decodeDefaults
    const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)
    expect(json(nested(maxDepth))).toBeDefined()
    expect(yaml(nested(maxDepth))).toBeDefined()
    for (const depth of [maxDepth + 1, 25_000, 1_000_000]) {
      for (const text of [nested(depth), '['.repeat(depth), '{"a":'.repeat(depth)]) {
        expect(refusal(() => json(text)).message).toContain(`deeper than ${maxDepth}`)
        if (text.length <= decodeDefaults.maxYamlBytes)
          expect(refusal(() => yaml(text)).message).toContain(`deeper than ${maxDepth}`)
      }
    }
  })

  it.each([
    '{"__proto__":{"x":1}}',
    '{"a":[{"__proto__":1}]}',
    '{"\\u005f_proto__":1}',
    '{"__pr\\u006fto__":1}',
  ])('%s is rejected for its field name', text => {
    expect(refusal(() => json(text)).message).toContain('__proto__')
  })

  it('may have fields with the names of inherited properties', () => {
    const text = '{"constructor":{"prototype":{"x":1}},"toString":1,"hasOwnProperty":2,"a":"__proto__"}'
    expect(JSON.stringify(json(text))).toBe(text)
    expect(JSON.stringify(yaml(text))).toBe(text)
    expect({}).not.toHaveProperty('x')
  })

  it('with a duplicate field keeps the last one, and reports the duplicates on request', () => {
    const text = '{"a":1,"a":2,"b":{"c":[{"d.e":1,"d.e":2,"d.e":3}]},"toString":1,"a":3}'
    expect(json(text)).toMatchObject({ a: 3 })
    expect(duplicateFields(text)).toEqual(['a', 'b.c[0][d.e]'])
    for (const unique of ['{"a":{"x":1},"b":{"x":1}}', '{"a":"b:c","d":[{"e":null},-0],"f":{}}', '[":"]'])
      expect(duplicateFields(unique)).toEqual([])
    expect(duplicateFields('{"a":{"x":1},"\\u0061":-0}')).toEqual(['a'])
    expect(duplicateFields(`{${'"a":1,'.repeat(3)}"b":[${'{"c":1,"c":2},'.repeat(500)}0]}`)).toHaveLength(100)
  })

  it('with a number, a name or a string of a megabyte is decoded, or rejected with a short message', () => {
    const long = '1'.repeat(1_000_000)
    for (const text of [`[${long}]`, `[0.${long}]`, `[1e${long}]`, `{"__proto__":{"${long}":1}}`])
      expect(refusal(() => json(text)).message.length).toBeLessThan(400)
    expect(json(`{"${long}":"\\ud800"}`)).toEqual({ [long]: '\ud800' })
    expect(duplicateFields(`{"${long}":1,"${long}":2}`)).toEqual([`[${long.slice(0, 99)}…]`])
  })
})

describe('a YAML body', () => {
  it('decodes to the same value as its JSON', () => {
    fc.assert(
      fc.property(values, value => {
        expect(deepEqual(yaml(JSON.stringify(value)), json(JSON.stringify(value)))).toBe(true)
      }),
    )
  })

  it('decodes every value that js-yaml writes, including strings that look like other types', () => {
    fc.assert(
      fc.property(values, value => {
        expect(deepEqual(yaml(dump(value)), json(JSON.stringify(value)))).toBe(true)
      }),
    )
  })

  it.each([
    ['a: 2024-01-01', { a: '2024-01-01' }],
    ['a: 2024-01-01T10:00:00Z', { a: '2024-01-01T10:00:00Z' }],
    ['<<: {a: 1}\nb: 2', { '<<': { a: 1 }, b: 2 }],
    ['a: yes\nb: on\nc: 1_000\nd: 12:30:00', { a: 'yes', b: 'on', c: '1_000', d: '12:30:00' }],
    [
      'a: 0o17\nb: 0x1F\nc: +5\nd: 007\ne: .5\nf: 5.\ng: 1e3',
      { a: 15, b: 31, c: 5, d: 7, e: 0.5, f: 5, g: 1000 },
    ],
    ['a: -0\nb: [-0.0]', { a: 0, b: [0] }],
    [
      'a: "12345678901234567890"\nb: !!str 9007199254740993',
      { a: '12345678901234567890', b: '9007199254740993' },
    ],
    [
      '1.10: a\n0x10: b\n8080: c\ntrue: d\n12345678901234567890: e',
      { '1.10': 'a', '0x10': 'b', 8080: 'c', true: 'd', '12345678901234567890': 'e' },
    ],
    ['a: &x 1\n&y b: 2', { a: 1, b: 2 }],
    ['%TAG !y! tag:yaml.org,2002:\n---\na: !y!str 1', { a: '1' }],
    ['%YAML 1.2\n---\na: 1\n...\n', { a: 1 }],
    ['# only\n---\na: 1\n---\n# nothing\n', { a: 1 }],
    ['a: ~\nb:\nc: null', { a: null, b: null, c: null }],
    ['5', 5],
  ])('%j is read by the rules of YAML 1.2', (text, value) => {
    expect(yaml(text)).toEqual(value)
  })

  it.each([
    ['a: 1\nb: [1, 2\nc: 3', 'line 3', 'not closed'],
    ['a: b: c', 'line 1, column 5', 'indentation'],
    ['a: 1\na: 2\nb: 1e400', 'line 3', 'out of range'],
    ['a: 1\nb: 12345678901234567890', 'line 2', 'cannot be kept exactly'],
    ['a: [1, 0.1000000000000000055]', 'line 1, column 8', 'become 0.1'],
    ['- 1e400', 'line 1, column 3', 'out of range'],
    [`a: 1${'0'.repeat(400)}`, 'line 1', 'out of range'],
    ['- 0xFFFFFFFFFFFFFFFFFF', 'line 1, column 3', 'cannot be kept exactly'],
    ['1e-400', 'line 1, column 1', 'become 0'],
    ['# x\n---\n 1e-400', 'line 3, column 2', 'become 0'],
    ['a: .nan', 'line 1', 'no number .nan'],
    ['a: -.INF', 'line 1', 'no number -.INF'],
    ['a: !!float 1e999', 'line 1', 'out of range'],
    ['a: !foo x', 'line 1, column 4', 'unknown'],
    ['a: !!binary aGk=', 'line 1, column 4', 'unknown'],
    ['? [a]\n: b', 'line 1', 'a key must be a string'],
    ['~: b', 'line 1', 'a key must be a string'],
    ['a:\n  __proto__: {x: 1}', 'line 2, column 3', '__proto__'],
    ['a: &x {b: 1}\nc: *x', 'line 2, column 5', 'aliases are not supported'],
    ['a: 1\n---\nb: 2', 'line 2, column 1', 'expected one document'],
    ['\n# x\n---\n', '', 'nothing but blank lines'],
    ['a: "\\q"', 'line 1', 'escape'],
  ])('%j is rejected with the position and the reason', (text, where, why) => {
    const { message } = refusal(() => yaml(text))
    expect(message).toContain(where)
    expect(message).toContain(why)
  })

  it.each([
    ['a: 1\na: 2', { a: 2 }, ['line 2: key "a" already set in map']],
    ['1: a\n"1": b', { 1: 'b' }, ['line 2: key "1" already set in map']],
    ['# x\n---\na: {b: 1, b: 2}\na: 3', { a: 3 }, ['line 3: key "b"', 'line 4: key "a"']],
    ['- a: 1\n- a: 1\n  b: [{c: 1}, {c: 1, "c": 2}]', undefined, ['line 3: key "c"']],
    ['a:\n  a:\n  - a\n  - a\n  b: a\n  c:\n', undefined, []],
    ['a: "x\n\n  a: y"\nb: |\n  a: 1\n  a: 1\na: 1', undefined, ['line 7: key "a"']],
  ])('%j keeps the last of its duplicate keys, and reports them', (text, value, duplicates) => {
    if (value !== undefined) expect(yaml(text)).toEqual(value)
    expect(duplicateKeys(text)).toEqual(duplicates.map(each => expect.stringContaining(each)))
  })

  it('reports each key that its map has already, the first hundred of them', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom('a', 'b', 'c', 'd')), keys => {
        const twice = keys.flatMap((key, at) => (keys.indexOf(key) < at ? [{ key, line: at + 1 }] : []))
        expect(duplicateKeys(keys.map(key => `${key}: {a: [b], c: }\n`).join('') || '{}')).toEqual(
          twice.map(({ key, line }) => `line ${line}: key "${key}" already set in map`),
        )
      }),
    )
    expect(duplicateKeys('a:\n'.repeat(20_000))).toHaveLength(100)
  })

  it('past its size limit is rejected, while JSON of that size is not', () => {
    const { maxYamlBytes } = decodeDefaults
    const text = `"${'x'.repeat(maxYamlBytes - 2)}"`
    expect(decodeDocument(bytes(text), 'yaml')).toHaveLength(maxYamlBytes - 2)
    const error = refusal(() => decodeDocument(bytes(`${text} `), 'yaml'), 'RequestEntityTooLarge')
    expect(error).toMatchObject({ code: 413, reason: 'RequestEntityTooLarge' })
    expect(error.message).toContain(`at most ${maxYamlBytes} are read; send larger bodies as JSON`)
    expect(json(`${text} `)).toHaveLength(maxYamlBytes - 2)
  })
})

describe('a stream of YAML documents', () => {
  it('decodes each document with its first line, also after a malformed one', () => {
    const text = [
      '# a file', // 1
      '', // 2
      'a: 1', // 3
      '---', // 4
      'b: [', // 5
      '---', // 6
      '# nothing', // 7
      '--- # nothing either', // 8
      '---', // 9
      'c: |', // 10
      '  x', // 11
      '  ---', // 12
      '...', // 13
      '%YAML 1.2', // 14
      '---', // 15
      'd: 1', // 16
      'd: 2', // 17
      '--- {e: 1}', // 18
      '---', // 19
      'f: 12345678901234567890', // 20
    ].join('\r\n')
    const documents = decodeDocuments(text)
    expect(documents.map(({ line }) => line)).toEqual([3, 4, 9, 15, 18, 19])
    expect(documents.map(({ value }) => value)).toEqual([
      { a: 1 },
      undefined,
      { c: 'x\n---\n' },
      undefined,
      { e: 1 },
      undefined,
    ])
    expect(documents[1]?.error?.message).toContain('line 6')
    expect(documents[3]?.error?.message).toContain('line 17, column 1')
    expect(documents[5]?.error?.message).toContain('line 20')
    expect(documents.every(({ error }) => error === undefined || error.reason === 'BadRequest')).toBe(true)
  })

  it('may be empty', () => {
    for (const text of ['', '\uFEFF', '# x\n\n', '---\n---\n...\n']) expect(decodeDocuments(text)).toEqual([])
  })

  it('may contain a document that is null', () => {
    expect(decodeDocuments('null')).toEqual([{ line: 1, value: null }])
  })

  it('decodes every document that js-yaml writes', () => {
    fc.assert(
      fc.property(fc.array(values, { maxLength: 5 }), list => {
        const documents = decodeDocuments(list.map(value => `---\n${dump(value)}`).join(''))
        expect(documents.map(({ value }) => value)).toEqual(list.map(value => json(JSON.stringify(value))))
      }),
    )
  })
})

describe('any input', () => {
  const run = (body: Uint8Array) => {
    for (const type of ['json', 'yaml'] as const) {
      try {
        decodeDocument(body, type)
      } catch (error) {
        expect(error).toBeInstanceOf(ApiError)
        expect(isApiError(error, 'BadRequest')).toBe(true)
      }
    }
    const text = new TextDecoder().decode(body)
    for (const { value, error } of decodeDocuments(text))
      expect(error === undefined || value === undefined).toBe(true)
  }

  it('of random bytes is decoded or rejected', () => {
    fc.assert(fc.property(fc.uint8Array({ maxLength: 60 }), run), { numRuns: 1000 })
  })

  it('of special characters is decoded or rejected', () => {
    const marks = fc.string({
      unit: fc.constantFrom(...'{}[]:,"\'\\ \n\t-?&*!|>%@`#~.0123eE+<_ax\u00a0\uFEFF\u2028'),
      maxLength: 40,
    })
    fc.assert(
      fc.property(marks, text => run(bytes(text))),
      { numRuns: 3000 },
    )
  })

  it('of a damaged document is decoded or rejected', () => {
    const damaged = fc
      .tuple(values, fc.nat(), fc.nat(20), fc.string({ maxLength: 5 }))
      .map(([value, at, cut, insert]) => {
        const text = dump({ a: value, b: [value, { c: 1.5, d: 'x' }] })
        const start = at % text.length
        return text.slice(0, start) + insert + text.slice(start + cut)
      })
    fc.assert(
      fc.property(damaged, text => run(bytes(text))),
      { numRuns: 1000 },
    )
    const damagedJson = fc
      .tuple(values, fc.nat(), fc.nat(20), fc.string({ maxLength: 5 }))
      .map(([value, at, cut, insert]) => {
        const text = JSON.stringify({ a: value, b: [value, { c: 1.5, d: 'x' }] })
        const start = at % text.length
        return text.slice(0, start) + insert + text.slice(start + cut)
      })
    fc.assert(
      fc.property(damagedJson, text => run(bytes(text))),
      { numRuns: 1000 },
    )
  })

  it('that JSON.parse rejects is rejected with a position', () => {
    const marks = fc.string({
      unit: fc.constantFrom(...'{}[]:,"\\ \n-.01eEtrufalsn/*\u00a0\u0000é'),
      minLength: 1,
      maxLength: 20,
    })
    fc.assert(
      fc.property(marks, text => {
        let valid = true
        try {
          JSON.parse(text)
        } catch {
          valid = false
        }
        if (valid || text.trim() === '') return
        expect(refusal(() => json(text)).message).toMatch(/line \d+, column \d+ \(offset \d+\): /)
      }),
      { numRuns: 5000 },
    )
  })
})
