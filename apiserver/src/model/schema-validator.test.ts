import { ModelError, type Schema } from '@setpoint/controller-runtime/api'
import { Ajv } from 'ajv'
import fc from 'fast-check'
import { afterEach, describe, expect, it, vi } from 'vitest'
import {
  compileSchemas,
  compileSchemasWhenUsed,
  remainingViolations,
  type SchemaSubject,
  schemaDefaults,
} from './schema-validator.ts'

const violations = (spec: Schema, value: unknown) => compileSchemas({ spec }).validate({ spec: value })
const told = (spec: Schema, value: unknown) =>
  violations(spec, value).map(({ field, reason, message }) => `${field} ${reason}: ${message}`)

describe('a violation', () => {
  const cases: [Schema, unknown, string][] = [
    [{ type: 'object', required: ['a'] }, {}, 'spec.a FieldValueRequired: is required'],
    [{ type: 'object', required: ['constructor'] }, {}, 'spec.constructor FieldValueRequired: is required'],
    [{ type: 'string' }, 5, 'spec FieldValueTypeInvalid: must be a string, is 5'],
    [{ type: 'integer' }, 1.5, 'spec FieldValueTypeInvalid: must be an integer, is 1.5'],
    [{ type: 'object' }, [], 'spec FieldValueTypeInvalid: must be an object, is an empty array'],
    [{ type: 'object' }, null, 'spec FieldValueTypeInvalid: must be an object, is null'],
    [
      { type: 'string', nullable: true },
      true,
      'spec FieldValueTypeInvalid: must be a string or null, is true',
    ],
    [{ enum: ['a', 'b'] }, 'c', 'spec FieldValueNotSupported: must be one of "a", "b", is "c"'],
    [
      { type: 'string', maxLength: 2 },
      '😀😀😀',
      'spec FieldValueTooLong: must have at most 2 characters, has 3: "😀😀😀"',
    ],
    [{ type: 'string', minLength: 1 }, '', 'spec FieldValueInvalid: must have at least 1 character, is ""'],
    [{ type: 'string', pattern: '^a+$' }, 'b', 'spec FieldValueInvalid: must match the pattern ^a+$, is "b"'],
    [
      { type: 'string', format: 'email' },
      'x',
      'spec FieldValueTypeInvalid: must be in the format "email", is "x"',
    ],
    [{ type: 'integer', minimum: 0 }, -1, 'spec FieldValueInvalid: must be at least 0, is -1'],
    [{ type: 'integer', maximum: 100 }, 101, 'spec FieldValueInvalid: must be at most 100, is 101'],
    [{ minimum: 0, exclusiveMinimum: true }, 0, 'spec FieldValueInvalid: must be greater than 0, is 0'],
    [{ maximum: 1, exclusiveMaximum: true }, 1, 'spec FieldValueInvalid: must be less than 1, is 1'],
    [{ multipleOf: 5 }, 7, 'spec FieldValueInvalid: must be a multiple of 5, is 7'],
    [{ type: 'array', maxItems: 1 }, [1, 2], 'spec FieldValueTooMany: must have at most 1 item, has 2'],
    [{ type: 'array', minItems: 1 }, [], 'spec FieldValueInvalid: must have at least 1 item, has 0'],
    [
      { uniqueItems: true },
      [{ a: 1, b: 2 }, 0, { b: 2, a: 1 }],
      'spec FieldValueInvalid: must not have the same item twice, has at 0 and 2',
    ],
    [{ maxProperties: 1 }, { a: 1, b: 1 }, 'spec FieldValueTooMany: must have at most 1 field, has 2'],
    [{ minProperties: 1 }, {}, 'spec FieldValueInvalid: must have at least 1 field, has 0'],
    [
      { properties: {}, additionalProperties: false },
      { a: 1 },
      'spec.a FieldValueForbidden: is not a field of the schema',
    ],
    [{ not: { enum: [1] } }, 1, 'spec FieldValueInvalid: has a value that is ruled out, is 1'],
    [{ items: { type: 'string' } }, ['a', 2], 'spec[1] FieldValueTypeInvalid: must be a string, is 2'],
    [
      { properties: { '0': { type: 'string' } } },
      { 0: 1 },
      'spec[0] FieldValueTypeInvalid: must be a string, is 1',
    ],
    [
      { additionalProperties: { type: 'string' } },
      { 'a.b/c~d': 1 },
      'spec[a.b/c~d] FieldValueTypeInvalid: must be a string, is 1',
    ],
  ]
  it.each(cases)('of %j by %j is reported as a sentence', (schema, value, sentence) => {
    expect(told(schema, value)).toEqual([sentence])
  })

  it('quotes the beginning of a long value on one line', () => {
    const [violation] = violations({ maxLength: 3 }, `a\n${'x'.repeat(1_000_000)}`)
    expect(violation?.message.length).toBeLessThan(200)
    expect(violation?.message).toContain('has 1000002: "a\\nxxx')
    expect(violation?.message).toContain('…')
  })

  it('has its path as segments', () => {
    const schema: Schema = { properties: { l: { items: { additionalProperties: { type: 'string' } } } } }
    expect(violations(schema, { l: [{}, { '1': 5 }] })[0]?.path).toEqual(['spec', 'l', 1, '1'])
  })

  it('is reported together with all others of spec and status', () => {
    const schemas = compileSchemas({
      spec: {
        type: 'object',
        required: ['a', 'b'],
        properties: { c: { type: 'string', maxLength: 1, pattern: '^x$' }, d: { type: 'integer' } },
      },
      status: { type: 'object', properties: { phase: { type: 'string' } } },
    })
    const fields = schemas
      .validate({ spec: { c: 'y', d: 'z' }, status: { phase: 1 } })
      .map(({ field }) => field)
    expect(fields.sort()).toEqual(['spec.a', 'spec.b', 'spec.c', 'spec.d', 'status.phase'])
  })

  it('is reported for a missing spec, but not for a missing status', () => {
    const schemas = compileSchemas({ spec: {}, status: { type: 'object', required: ['a'] } })
    expect(schemas.validate({ spec: undefined })).toMatchObject([
      { field: 'spec', reason: 'FieldValueRequired' },
    ])
    expect(schemas.validate({ spec: {} })).toEqual([])
    expect(schemas.validate({ spec: {}, status: {} })).toMatchObject([{ field: 'status.a' }])
    expect(schemas.validate({ spec: {}, status: 5 })).toMatchObject([{ field: 'status' }])
  })
})

describe('alternatives', () => {
  const shapes: Schema = {
    oneOf: [
      {
        type: 'object',
        required: ['port'],
        properties: { port: { type: 'integer' } },
        additionalProperties: false,
      },
      { type: 'object', required: ['path', 'mode', 'owner'] },
      { type: 'string' },
    ],
  }

  it('that all fail are one violation with the errors of the closest', () => {
    expect(told(shapes, { port: 'x' })).toEqual([
      'spec FieldValueInvalid: must match exactly one of its alternatives; the closest one fails because spec.port must be an integer, is "x"',
    ])
    expect(told({ anyOf: [{ type: 'string' }, { type: 'integer' }] }, true)).toEqual([
      'spec FieldValueInvalid: must match at least one of its alternatives; it must be a string or an integer, is true',
    ])
  })

  it('of oneOf are one violation if two match', () => {
    expect(told({ oneOf: [{ minimum: 1 }, { maximum: 5 }] }, 3)).toEqual([
      'spec FieldValueInvalid: must match exactly one of its alternatives, matches numbers 1 and 2',
    ])
  })

  it('do not hide other violations, also nested and in lists', () => {
    const schema: Schema = {
      properties: {
        l: {
          items: {
            anyOf: [{ type: 'string' }, { anyOf: [{ minimum: 5 }, { multipleOf: 2 }], type: 'integer' }],
          },
        },
        anyOf: { items: { type: 'string' } },
      },
    }
    expect(violations(schema, { l: ['a', 1, 2, true], anyOf: [5] }).map(({ field }) => field)).toEqual([
      'spec.l[1]',
      'spec.l[3]',
      'spec.anyOf[0]',
    ])
  })
})

describe('the dialect', () => {
  const accepts = (schema: Schema, value: unknown) => violations(schema, value).length === 0

  it.each<[Schema, unknown[], unknown[]]>([
    [{ type: 'string', nullable: true }, ['a', null], [1]],
    [{ type: 'string', enum: ['a'], nullable: true }, ['a', null], ['b']],
    [{ nullable: true }, [null, 1, {}], []],
    [{ type: 'number', minimum: 0, exclusiveMinimum: false }, [0], [-1]],
    [{ type: 'integer', format: 'int32' }, [2 ** 31 - 1, -(2 ** 31)], [2 ** 31]],
    [{ type: 'integer', format: 'int64' }, [2 ** 53], []],
    [{ type: 'number', format: 'float' }, [1.5], []],
    [
      { type: 'string', format: 'date-time' },
      ['2026-11-18T10:00:00Z'],
      ['2026-11-18', 'x', '2026-13-18T10:00:00Z'],
    ],
    [{ type: 'string', format: 'date' }, ['2026-11-18'], ['2026-02-30']],
    [{ type: 'string', format: 'email' }, ['a@example.com'], ['a', 'a@', `${'a'.repeat(3000)}@example.com`]],
    [{ type: 'string', format: 'uri' }, ['http://example.com/a?b#c'], ['a b', '/a']],
    [{ type: 'string', format: 'uuid' }, ['123e4567-e89b-12d3-a456-426614174000'], ['x']],
    [{ type: 'string', format: 'ipv4' }, ['127.0.0.1'], ['256.0.0.1']],
    [{ type: 'string', format: 'ipv6' }, ['::1'], ['127.0.0.1']],
    [{ type: 'string', format: 'hostname' }, ['a.example.com'], ['-a']],
    [{ type: 'string', format: 'byte' }, ['aGk=', 'a'.repeat(4000)], ['a']],
    [{ type: 'string', format: 'password' }, ['anything'], []],
    [{ type: 'string', format: 'no-such-format' }, ['anything'], []],
    [{ type: 'string', pattern: '^[\\w\\-]+$' }, ['a-b'], ['a b']],
    [{ type: 'string', pattern: '^\\p{Lu}$' }, ['Ä'], ['ä']],
    [{ type: 'string', pattern: '^.$', maxLength: 5 }, ['😀'], ['ab']],
    [{ 'x-anything': { type: 'nonsense' }, description: 'd', example: 5, default: 1 }, [1], []],
    [{ allOf: [{ minimum: 1 }, { maximum: 3 }] }, [1, 3], [0, 4]],
  ])('%j', (schema, good, bad) => {
    for (const value of good) expect([value, accepts(schema, value)]).toEqual([value, true])
    for (const value of bad) expect([value, accepts(schema, value)]).toEqual([value, false])
  })

  it.each([
    [{ type: 'strin' }, 'schema.spec.type must be one of'],
    [{ type: ['string', 'null'] }, 'schema.spec.type must be one of'],
    [
      { properties: { a: { items: { $ref: '#/x' } } } },
      'schema.spec.properties.a.items.$ref is not a keyword',
    ],
    [
      { maxlength: 5 },
      'schema.spec.maxlength is not a keyword of OpenAPI 3.0 schemas that this server enforces, did you mean maxLength?',
    ],
    [{ requird: ['a'] }, 'did you mean required?'],
    [
      { properties: { port: { 'x-kubernetes-group-version-kind': [] } } },
      'schema.spec.properties.port.x-kubernetes-group-version-kind is not enforced by this server',
    ],
    [
      { 'x-kubernetes-preserve-unknown-field': true },
      'schema.spec.x-kubernetes-preserve-unknown-field is not enforced by this server, did you mean x-kubernetes-preserve-unknown-fields?',
    ],
    [
      { properties: { a: { pattern: '(?=a)' } } },
      'schema.spec.properties.a.pattern is not a regular expression of RE2: invalid or unsupported Perl syntax: `(?=`',
    ],
    [
      { items: { allOf: [{ pattern: '((a{1000}){1000})' }] } },
      'schema.spec.items.allOf[0].pattern is not a regular expression of RE2: invalid repeat count: `{1000}`',
    ],
    [{ minLength: -1 }, 'schema.spec.minLength must be an integer of at least 0, is -1'],
    [{ properties: { a: { required: 'x' } } }, 'schema.spec.properties.a.required must be an array'],
    [{ required: ['a', 'a'] }, 'schema.spec.required must be an array of distinct strings'],
    [{ enum: [] }, 'schema.spec.enum must be an array of at least one value, is []'],
    [{ multipleOf: 0 }, 'schema.spec.multipleOf must be a number above 0, is 0'],
    [{ maximum: '5' }, 'schema.spec.maximum must be a number, is "5"'],
    [{ exclusiveMaximum: Number.NaN }, 'schema.spec.exclusiveMaximum must be a number'],
    [{ uniqueItems: 'yes' }, 'schema.spec.uniqueItems must be true or false, is "yes"'],
    [{ format: 5 }, 'schema.spec.format must be a string, is 5'],
    [{ oneOf: [] }, 'schema.spec.oneOf must be a list of schemas, at least one'],
    [{ properties: [] }, 'schema.spec.properties must be an object of schemas'],
    [{ items: 5 }, 'schema.spec.items must be a schema'],
    [{ anyOf: {} }, 'schema.spec.anyOf must be a list'],
    [{ exclusiveMinimum: true }, 'needs a minimum'],
    [
      { properties: { n: { type: 'integer', default: 'x' } } },
      'the default in schema.spec.n breaks its own schema',
    ],
    [
      {
        properties: {
          list: {
            items: { properties: { o: { properties: { a: { type: 'string' } }, default: { b: 'x' } } } },
          },
        },
      },
      'the default in schema.spec.list[].o has a field that its schema does not declare: default.b',
    ],
    [null, 'schema.spec must be a schema'],
  ])('%j is rejected when the model is loaded, with the field', (schema, why) => {
    expect(() => Reflect.apply(compileSchemas, undefined, [{ spec: schema }])).toThrow(
      expect.objectContaining({ name: 'ModelError', message: expect.stringContaining(why) }),
    )
    expect(() => Reflect.apply(compileSchemas, undefined, [{ spec: {}, status: schema }])).toThrow(ModelError)
  })

  it('compiles every schema that is accepted when the model is loaded', () => {
    const value = fc.oneof(
      fc.jsonValue({ maxDepth: 2 }),
      fc.nat(3),
      fc.array(fc.constantFrom('a', 'b')),
      fc.constantFrom('email', 'int32', 'nonesuch', 'object', 'string', 'integer', '^a$', '(', -1, 0.5),
    )
    const keywords =
      'type nullable enum format minLength maxLength pattern minimum exclusiveMinimum multipleOf \
minItems uniqueItems required maxProperties default'.split(/\s+/)
    const { schema } = fc.letrec(tie => {
      const part = fc.oneof({ weight: 3, arbitrary: tie('schema') }, { weight: 1, arbitrary: value })
      const pair = fc.oneof(
        fc.tuple(fc.constantFrom(...keywords), value),
        fc.tuple(fc.constantFrom('items', 'additionalProperties', 'not'), part),
        fc.tuple(fc.constantFrom('allOf', 'anyOf', 'oneOf'), fc.array(part, { maxLength: 2 })),
        fc.tuple(fc.constant('properties'), fc.dictionary(fc.constantFrom('a', 'constructor'), part)),
      )
      return { schema: fc.array(pair, { maxLength: 3 }).map(pairs => Object.fromEntries(pairs)) }
    })
    let accepted = 0
    fc.assert(
      fc.property(schema, fc.jsonValue(), (spec, subject) => {
        let schemas: ReturnType<typeof compileSchemas>
        try {
          schemas = Reflect.apply(compileSchemas, undefined, [{ spec }])
        } catch (error) {
          expect(error).toBeInstanceOf(ModelError)
          return
        }
        accepted++
        schemas.validate({ spec: subject })
      }),
      { numRuns: 200 },
    )
    expect(accepted).toBeGreaterThan(10)
  })

  it('does not match a pattern against a string longer than maxLength', () => {
    const schema: Schema = { type: 'string', maxLength: 20, pattern: '^(a+)+$' }
    expect(violations(schema, `${'a'.repeat(100)}b`).map(({ reason }) => reason)).toEqual([
      'FieldValueTooLong',
    ])
    expect(violations(schema, 'ab').map(({ reason }) => reason)).toEqual(['FieldValueInvalid'])
  })
})

describe('a pattern', () => {
  it('that backtracks in JavaScript is checked in linear time', () => {
    const schema: Schema = { type: 'string', pattern: '^(([a-z0-9]+-?)+\\.?)+$' }
    expect(told(schema, `${'a'.repeat(28)}!`)).toEqual([
      `spec FieldValueInvalid: must match the pattern ^(([a-z0-9]+-?)+\\.?)+$, is "${'a'.repeat(28)}!"`,
    ])
    expect(violations(schema, `${'a'.repeat(1_000_000)}!`)).toHaveLength(1)
    expect(violations(schema, 'a'.repeat(1_000_000))).toEqual([])
  })

  const text = 'a'.repeat(1_000_000)
  const costly = expect.stringContaining('takes too many steps to match the pattern b*c?a$')
  const list: Schema = { type: 'array', items: { type: 'string', pattern: 'b*c?a$' } }

  it('is refused with the place once the patterns of an object have taken too many steps', () => {
    expect(violations(list, [text])).toEqual([])
    expect(violations(list, [text, text])).toEqual([
      { field: 'spec[1]', path: [], reason: 'FieldValueTooLong', message: costly },
    ])
  })

  it('that takes too many steps is refused also where no match is wanted', () => {
    const schema: Schema = { type: 'array', items: { not: { pattern: 'b*c?d$' } } }
    expect(violations(schema, [text, text])).toMatchObject([{ field: 'spec[1]' }])
  })

  it('that takes too many steps does not block a write that changes nothing', () => {
    const schemas = compileSchemas({ spec: list })
    const [object, other] = [{ spec: [text, text] }, { spec: [text, text, 'b'] }]
    const stored = schemas.validate(object)
    expect(remainingViolations(schemas.validate(object), stored, object, object)).toEqual([])
    expect(remainingViolations(schemas.validate(other), stored, other, object)).toHaveLength(1)
  })
})

describe('many violations', () => {
  const wrong = Array.from({ length: 500_000 }, () => 1)

  it('are reported up to about a thousand, with a note that there are more', () => {
    const found = violations({ items: { type: 'string' } }, wrong)
    expect(found.length).toBeGreaterThan(900)
    expect(found.length).toBeLessThan(1100)
    expect(found.at(-1)).toMatchObject({ field: '', reason: 'FieldValueTooMany' })
  })

  it('in one alternative are ignored if another one matches', () => {
    expect(
      violations({ anyOf: [{ items: { type: 'string' } }, { items: { type: 'integer' } }] }, wrong),
    ).toEqual([])
    expect(
      violations({ anyOf: [{ items: { type: 'string' } }, { items: { type: 'object' } }] }, wrong),
    ).not.toEqual([])
  })

  it('by unknown fields of a closed object are reported up to about a thousand', () => {
    const fields = Object.fromEntries(wrong.slice(0, 300_000).map((_, at) => [`f${at}`, 1]))
    const found = violations({ properties: {}, additionalProperties: false }, fields)
    expect(found.length).toBeLessThan(1100)
    expect(found.at(-1)).toMatchObject({ field: '', reason: 'FieldValueTooMany' })
  })

  let compared = 0
  /** Objects that count how often their fields are listed. */
  const counting = (size: number, offset = 0) =>
    Array.from(
      { length: size },
      (_, at) =>
        new Proxy(
          { at: at + offset },
          {
            ownKeys(target) {
              compared++
              return Reflect.ownKeys(target)
            },
          },
        ),
    )

  it('that have moved are compared with the stored ones in linear time', () => {
    const size = 900
    const { validate } = compileSchemas({ spec: { items: { type: 'string' } } })
    const [previous, next] = [{ spec: counting(size) }, { spec: counting(size, 1) }]
    const [stored, found] = [validate(previous), validate(next)]
    compared = 0
    const left = remainingViolations(found, stored, next, previous)
    expect(left.map(({ field }) => field)).toEqual([`spec[${size - 1}]`])
    expect(compared).toBeLessThan(20 * size)
  })

  it('that were stored before block a write that changes something', () => {
    const { validate } = compileSchemas({
      spec: { properties: { l: { items: { type: 'string' } }, n: { type: 'integer' } } },
    })
    const previous = { spec: { l: wrong } }
    const next = { spec: { l: wrong, n: 'bad' } }
    expect(remainingViolations(validate(next), validate(previous), next, previous)).not.toEqual([])
  })

  it('of uniqueItems are found without comparing each pair', () => {
    const size = 20_000
    const list = counting(size)
    compared = 0
    expect(violations({ uniqueItems: true }, list)).toEqual([])
    expect(violations({ uniqueItems: true }, [...list, { at: 7 }])).toHaveLength(1)
    expect(compared).toBeLessThan(20 * size)
  })
})

describe('defaults', () => {
  const filled = (spec: Schema, value: unknown): unknown => {
    const object: SchemaSubject = { spec: value }
    compileSchemas({ spec }).applyDefaults(object)
    return object.spec
  }

  it.each<[Schema, unknown, unknown]>([
    [{ properties: { a: { default: 1 } } }, {}, { a: 1 }],
    [{ properties: { a: { default: 1 } } }, { a: 0 }, { a: 0 }],
    [{ properties: { a: { type: 'integer', default: 1 } } }, { a: null }, { a: 1 }],
    [{ properties: { a: { type: 'integer', nullable: true, default: 1 } } }, { a: null }, { a: null }],
    [{ properties: { a: { properties: { b: { default: 1 } } } } }, {}, {}],
    [{ properties: { a: { default: {}, properties: { b: { default: 1 } } } } }, {}, { a: { b: 1 } }],
    [{ items: { properties: { a: { default: 1 } } } }, [{}, { a: 2 }, 5], [{ a: 1 }, { a: 2 }, 5]],
    [{ additionalProperties: { properties: { a: { default: 1 } } } }, { x: {} }, { x: { a: 1 } }],
    [{ allOf: [{ properties: { a: { default: 1 } } }] }, {}, { a: 1 }],
    [{ anyOf: [{ properties: { a: { default: 1 } } }] }, {}, {}],
    [{ properties: { constructor: { default: 1 } } }, {}, { constructor: 1 }],
    [{ default: { a: 1 } }, undefined, { a: 1 }],
    [{ properties: { a: { default: 1 } } }, 'no object', 'no object'],
  ])('of %j in %j give %j', (schema, value, result) => {
    expect(filled(schema, value)).toEqual(result)
  })

  it('are copies that objects do not share', () => {
    const schemas = compileSchemas({ spec: { properties: { a: { type: 'array', default: [{}] } } } })
    const objects: SchemaSubject[] = [{ spec: {} }, { spec: {} }]
    for (const object of objects) schemas.applyDefaults(object)
    const [first, second] = objects.map(({ spec }) => spec)
    if (typeof first !== 'object' || first === null || !('a' in first) || !Array.isArray(first.a))
      throw new Error('no list')
    first.a.push(1)
    expect(second).toEqual({ a: [{}] })
  })

  it('do not create a status', () => {
    const schemas = compileSchemas({
      spec: {},
      status: { type: 'object', properties: { phase: { default: 'New' } } },
    })
    const [without, having]: SchemaSubject[] = [{ spec: {} }, { spec: {}, status: {} }]
    schemas.applyDefaults(without ?? {})
    schemas.applyDefaults(having ?? {})
    expect(without).toEqual({ spec: {} })
    expect(having).toEqual({ spec: {}, status: { phase: 'New' } })
  })

  it('are filled in a copy, unless there are none', () => {
    const object = Object.freeze({ spec: Object.freeze({}), status: Object.freeze({}) })
    const status: Schema = { type: 'object', properties: { phase: { default: 'New' } } }
    const completed = compileSchemas({ spec: {}, status }).withDefaults(object)
    expect(completed).toEqual({ spec: {}, status: { phase: 'New' } })
    expect(compileSchemas({ spec: {} }).withDefaults(object)).toBe(object)
  })
})

describe('unknown fields', () => {
  it.each<[Schema, unknown, string[]]>([
    [{ properties: { a: {} } }, { a: 1, b: 2, 'c.d': 3 }, ['spec.b', 'spec[c.d]']],
    [{ properties: { a: {} } }, { toString: 1, constructor: 2 }, ['spec.toString', 'spec.constructor']],
    [{ type: 'object' }, { a: { b: 1 } }, []],
    [{ properties: { a: {} }, additionalProperties: true }, { b: { c: 1 } }, []],
    [
      { properties: { a: {} }, additionalProperties: { properties: { x: {} } } },
      { b: { x: 1, y: 1 } },
      ['spec.b.y'],
    ],
    [{ properties: { a: {} }, additionalProperties: false }, { b: 1 }, []],
    [
      { properties: { a: { properties: {} } }, 'x-kubernetes-preserve-unknown-fields': true },
      { a: { c: 1 }, b: 1 },
      ['spec.a.c'],
    ],
    [
      { properties: { l: { items: { properties: { a: {} } } } } },
      { l: [{ a: 1 }, { b: 1 }] },
      ['spec.l[1].b'],
    ],
    [
      {
        properties: { a: {} },
        allOf: [{ properties: { b: {} } }],
        anyOf: [{ properties: { c: {} } }, { oneOf: [{ properties: { d: {} } }] }],
      },
      { a: 1, b: 1, c: 1, d: 1, e: 1 },
      ['spec.e'],
    ],
    [{ properties: { a: {} }, anyOf: [{ required: ['a'] }] }, { b: 1 }, ['spec.b']],
    [
      {
        anyOf: [
          { properties: { a: { properties: { x: {} } } } },
          { properties: { a: { properties: { y: {} } } } },
        ],
      },
      { a: { x: 1, y: 1, z: 1 } },
      ['spec.a.z'],
    ],
    [{ properties: { a: { properties: {} } } }, { a: 'text' }, []],
  ])('of %j in %j are %j', (spec, value, fields) => {
    expect(compileSchemas({ spec }).unknownFields({ spec: value })).toEqual(fields)
  })

  it('are found in the status too, and are bounded', () => {
    const schemas = compileSchemas({ spec: { properties: {} }, status: { type: 'object', properties: {} } })
    expect(schemas.unknownFields({ spec: { a: 1 }, status: { b: 1 } })).toEqual(['spec.a', 'status.b'])
    const spec = Object.fromEntries(Array.from({ length: 5000 }, (_, index) => [`f${index}`, 1]))
    expect(schemas.unknownFields({ spec, status: { b: 1 } })).toHaveLength(schemaDefaults.maxUnknownFields)
  })
})

describe('a schema', () => {
  it('of 3,000 fields in one object is checked like a small one', () => {
    const names = Array.from({ length: 3000 }, (_, n) => `f${n}`)
    const spec: Schema = {
      type: 'object',
      properties: Object.fromEntries(names.map(name => [name, { type: 'string' }])),
    }
    expect(told(spec, { f0: 'a', f2999: 'b' })).toEqual([])
    expect(told(spec, { f0: 1, f2999: 2 })).toEqual([
      'spec.f0 FieldValueTypeInvalid: must be a string, is 1',
      'spec.f2999 FieldValueTypeInvalid: must be a string, is 2',
    ])
  })

  it('of too many alternatives refuses objects in words', () => {
    const spec: Schema = {
      oneOf: Array.from({ length: 20_000 }, (_, n) => ({ type: 'string', minLength: n })),
    }
    expect(told(spec, 'a')).toEqual([
      ' FieldValueInvalid: cannot be checked: the schema of the kind combines too many schemas in one place',
    ])
  })
})

describe('a violation that was stored before', () => {
  const { validate } = compileSchemas({
    spec: {
      type: 'object',
      required: ['email'],
      properties: {
        email: { type: 'string', maxLength: 5 },
        n: { type: 'integer', maximum: 10 },
        tags: { type: 'array', maxItems: 3, items: { type: 'string', maxLength: 2 } },
        parts: { type: 'array', items: { type: 'object', required: ['id'] } },
      },
    },
  })
  const remaining = (previousSpec: unknown, nextSpec: unknown) => {
    const previous = { spec: previousSpec }
    const next = { spec: nextSpec }
    return remainingViolations(validate(next), validate(previous), next, previous).map(({ field }) => field)
  }

  it.each<[string, unknown, unknown, string[]]>([
    ['does not block while it is left', { email: 'too long' }, { email: 'too long', n: 1 }, []],
    ['does not block while what is missing stays missing', { n: 1 }, { n: 2 }, []],
    [
      'blocks when its value changes to another bad one',
      { email: 'too long' },
      { email: 'longer still' },
      ['spec.email'],
    ],
    ['blocks when its kind changes', { email: 'too long' }, { email: 5 }, ['spec.email']],
    ['blocks when it is removed and required', { email: 'too long' }, {}, ['spec.email']],
    ['does not excuse a new one', { email: 'too long' }, { email: 'too long', n: 11 }, ['spec.n']],
    [
      'does not block when it moves in its list',
      { email: 'a', tags: ['a', 'bad'] },
      { email: 'a', tags: ['bad'] },
      [],
    ],
    [
      'does not excuse a second one of its kind',
      { email: 'a', tags: ['bad'] },
      { email: 'a', tags: ['bad', 'bad'] },
      ['spec.tags[1]'],
    ],
    [
      'of a list blocks when the list changes',
      { email: 'a', tags: ['a', 'b', 'c', 'd'] },
      { email: 'a', tags: ['a', 'b', 'c', 'e'] },
      ['spec.tags'],
    ],
    [
      'does not block when its item moves',
      { email: 'a', parts: [{ id: 1 }, { x: 1 }] },
      { email: 'a', parts: [{ x: 1 }] },
      [],
    ],
    [
      'of one item does not excuse another',
      { email: 'a', parts: [{ id: 1 }, { x: 1 }] },
      { email: 'a', parts: [{ y: 1 }] },
      ['spec.parts[0].id'],
    ],
  ])('%s', (_name, previous, next, fields) => {
    expect(remaining(previous, next)).toEqual(fields)
  })

  it('does not block a write that changes nothing', () => {
    fc.assert(
      fc.property(fc.jsonValue(), spec => {
        expect(remaining(spec, JSON.parse(JSON.stringify(spec)))).toEqual([])
      }),
    )
  })
})

describe('items that must be distinct', () => {
  const unique: Schema = { type: 'array', uniqueItems: true }

  it('are compared by type and value', () => {
    const schema: Schema = { ...unique, items: {} }
    expect(violations(schema, [1, '1', true, 'true', null, 'null', [1], ['1'], {}, []])).toEqual([])
    for (const value of [0, 'a', null, false, [1, { a: 2 }]])
      expect(violations(schema, [value, 'x', structuredClone(value)])).toHaveLength(1)
    expect(violations(schema, [0, -0])).toHaveLength(1)
  })
})

describe('any value', () => {
  afterEach(() => {
    vi.restoreAllMocks()
  })

  it('is validated without an exception, output or change', () => {
    const output = vi.spyOn(process.stderr, 'write')
    const limited: Schema = { type: 'string', maxLength: 2, pattern: '^a' }
    const schemas = compileSchemas({
      spec: {
        type: 'object',
        properties: {
          a: { anyOf: [{ type: 'string' }, { type: 'array', items: { type: 'integer', minimum: 3 } }] },
          b: {
            type: 'array',
            uniqueItems: true,
            items: {
              oneOf: [
                { type: 'string', format: 'uri' },
                { type: 'object', required: ['x'] },
              ],
            },
          },
          constructor: limited,
        },
        additionalProperties: { type: 'string', format: 'unheard-of' },
      },
    })
    const spec = fc.oneof(
      fc.jsonValue(),
      fc.dictionary(
        fc.constantFrom('a', 'b', 'constructor', 'toString', '0', 'c.d/~'),
        fc.jsonValue({ maxDepth: 3 }),
        { noNullPrototype: true },
      ),
    )
    fc.assert(
      fc.property(spec, value => {
        const before = JSON.stringify(value)
        for (const violation of schemas.validate({ spec: value })) {
          expect(violation.field).not.toBe('')
          expect(violation.message).not.toContain('undefined')
        }
        schemas.unknownFields({ spec: value })
        expect(JSON.stringify(value)).toBe(before)
      }),
      { numRuns: 1000 },
    )
    expect(output).not.toHaveBeenCalled()
  })
})

describe('a schema of a built-in kind', () => {
  const schema = {
    spec: { type: 'object', properties: { n: { type: 'integer', default: 1 } } } satisfies Schema,
  }

  it('is compiled when an object is first read or written, and once', () => {
    const compile = vi.spyOn(Ajv.prototype, 'compile').mockClear()
    compileSchemas(schema)
    // Checks the default.
    expect(compile).toHaveBeenCalledTimes(1)
    compile.mockClear()

    const validator = compileSchemasWhenUsed(schema)
    expect(compile).not.toHaveBeenCalled()
    const object = { spec: {} }
    expect(validator.applyDefaults(object)).toBe(true)
    expect(compile).toHaveBeenCalledTimes(1)
    expect(validator.validate(object)).toEqual([])
    expect(validator.validate({ spec: { n: 'x' } })).toHaveLength(1)
    expect(validator.withDefaults({ spec: {} })).toEqual(object)
    expect(validator.unknownFields({ spec: { m: 1 } })).toEqual(['spec.m'])
    // The default, the decision, and the list of violations.
    expect(compile).toHaveBeenCalledTimes(3)
    vi.restoreAllMocks()
  })
})
