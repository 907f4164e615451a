import type { Schema, ValidationRule } from '@setpoint/controller-runtime/api'
import { beforeAll, describe, expect, it } from 'vitest'
import { celLimits } from './cel/index.ts'
import { loadRules } from './rule-loader.ts'
import { compileSchemas } from './schema-validator.ts'

const withRules = (schema: Schema, ...rules: (string | ValidationRule)[]): Schema => ({
  ...schema,
  'x-kubernetes-validations': rules.map(rule => (typeof rule === 'string' ? { rule } : rule)),
})
const object = (properties: Schema['properties'] = {}): Schema => ({ type: 'object', properties })
const integer: Schema = { type: 'integer' }
const text: Schema = { type: 'string' }
const range = object({ min: integer, max: integer })
/** A list of type map with the key `k`. */
const mapOf = (v: Schema): Schema => ({
  type: 'array',
  'x-kubernetes-list-type': 'map',
  'x-kubernetes-list-map-keys': ['k'],
  items: { ...object({ k: text, v }), required: ['k'] },
})

beforeAll(() => loadRules([{ schema: { spec: withRules(range, 'true') } }]))

/** Returns the violations as `field reason: message`. */
function told(spec: Schema, value: unknown, previous?: unknown): string[] {
  const rules = compileSchemas({ spec }).rules
  const before = previous === undefined ? undefined : { spec: previous }
  const { state = [], transitions = [] } = rules?.validate({ spec: value }, before) ?? {}
  return [...state, ...transitions].map(({ field, reason, message }) => `${field} ${reason}: ${message}`)
}
const fields = (spec: Schema, value: unknown, previous?: unknown) =>
  told(spec, value, previous).map(line => line.split(' ')[0])

describe('a rule', () => {
  it('sees the declared fields, and reports its text or its message', () => {
    expect(told(withRules(range, 'self.min <= self.max'), { min: 1, max: 2 })).toEqual([])
    expect(told(withRules(range, 'self.min <= self.max'), { min: 3, max: 2 })).toEqual([
      'spec FieldValueInvalid: failed rule: self.min <= self.max',
    ])
    const rule = { rule: 'self.min <= self.max', message: 'min must not exceed max' }
    expect(told(withRules(range, rule), { min: 3, max: 2 })).toEqual([
      'spec FieldValueInvalid: min must not exceed max',
    ])
  })

  it('stands anywhere in spec and status, and reports the place of its value', () => {
    const positive = withRules(integer, 'self > 0')
    const spec = object({
      deep: object({ n: positive }),
      list: { type: 'array', items: positive },
      map: { type: 'object', additionalProperties: positive },
      mixed: { type: 'object', properties: { a: integer }, additionalProperties: positive },
    })
    const value = {
      deep: { n: 0 },
      list: [1, 0, -1],
      map: { ok: 1, 'a.b': 0 },
      mixed: { a: 0, b: 0 },
    }
    expect(fields(spec, value)).toEqual([
      'spec.deep.n',
      'spec.list[1]',
      'spec.list[2]',
      'spec.map[a.b]',
      'spec.mixed.b',
    ])
    const { rules } = compileSchemas({
      spec: object(),
      status: withRules(object({ n: integer }), 'self.n > 0'),
    })
    expect(rules?.validate({ spec: {}, status: { n: 0 } }, undefined).state).toMatchObject([
      { field: 'status' },
    ])
    expect(rules?.validate({ spec: {} }, undefined).state).toEqual([])
  })

  it('is one of several, which are all reported', () => {
    expect(fields(withRules(range, 'self.min > 0', 'self.max > 0', 'true'), { min: 0, max: 0 })).toEqual([
      'spec',
      'spec',
    ])
  })

  it('has a reason, a field and a message of its own', () => {
    const spec = withRules(object({ limits: object({ max: integer, 'a-b': integer }) }), {
      rule: 'self.limits.max < 5',
      messageExpression: '"max is %d, at most 4".format([self.limits.max])',
      reason: 'FieldValueForbidden',
      fieldPath: ".limits['a-b']",
    })
    expect(told(spec, { limits: { max: 7 } })).toEqual([
      'spec.limits.a-b FieldValueForbidden: max is 7, at most 4',
    ])
  })

  it.each([
    ['cannot be evaluated', '"a".substring(9)'],
    ['uses oldSelf and its rule does not', '"was " + string(oldSelf.min)'],
    ['is empty', '" "'],
    ['has several lines', '"a\\nb"'],
  ])('falls back to the message if the message expression %s', (_, messageExpression) => {
    const rule = { rule: 'false', message: 'never', messageExpression }
    expect(told(withRules(range, rule), {})).toEqual(['spec FieldValueInvalid: never'])
  })

  it('that cannot be evaluated is a violation that says why', () => {
    expect(told(withRules(range, 'self.min > 0'), {})).toEqual([
      'spec FieldValueInvalid: failed rule: self.min > 0 (the rule cannot be evaluated: no such key: min)',
    ])
    expect(told(withRules(range, '!has(self.min) || self.min > 0'), {})).toEqual([])
  })

  it('that cannot be evaluated has neither its field nor its reason, as in Kubernetes', () => {
    const rule = {
      rule: 'self.min > 0',
      message: 'wrong',
      reason: 'FieldValueForbidden',
      fieldPath: '.min',
    } as const
    expect(told(withRules(range, rule), {})).toEqual([
      'spec FieldValueInvalid: wrong (the rule cannot be evaluated: no such key: min)',
    ])
  })

  it('is not evaluated for null and for absent values', () => {
    const spec = object({ a: withRules({ ...text, nullable: true }, 'self != ""') })
    expect(fields(spec, { a: null })).toEqual([])
    expect(fields(spec, {})).toEqual([])
    expect(fields(spec, { a: '' })).toEqual(['spec.a'])
  })

  it.each<[string, Schema, unknown]>([
    ['self.n == 3 && self.r == 2.0', object({ n: integer, r: { type: 'number' } }), { n: 3, r: 2 }],
    [
      'self.a__dash__b == 1 && self.__namespace__ == 2',
      object({ 'a-b': integer, namespace: integer }),
      { 'a-b': 1, namespace: 2 },
    ],
    [
      'self.a__dot__b == 1 && self.a__underscores__b == 2',
      object({ 'a.b': integer, a__b: integer }),
      { 'a.b': 1, a__b: 2 },
    ],
    [
      'self.constructor == "x" && !has(self.toString)',
      object({ constructor: text, toString: text }),
      { constructor: 'x' },
    ],
    [
      'self.at < timestamp("2025-01-01T00:00:00Z")',
      object({ at: { type: 'string', format: 'date-time' } }),
      { at: '2024-01-01T00:00:00Z' },
    ],
    [
      'self.at.getFullYear() == 2024',
      object({ at: { type: 'string', format: 'date' } }),
      { at: '2024-01-01' },
    ],
    ['self.raw == b"hi"', object({ raw: { type: 'string', format: 'byte' } }), { raw: 'aGk=' }],
    [
      'type(self.p) == string && self.p.endsWith("%")',
      object({ p: { 'x-kubernetes-int-or-string': true } }),
      { p: '5%' },
    ],
    ['type(self.p) == int && self.p < 10', object({ p: { 'x-kubernetes-int-or-string': true } }), { p: 5 }],
    ['!has(self.x)', object({ x: { ...integer, nullable: true } }), { x: null }],
    ['self.?x.orValue(3) == 3', object({ x: { ...integer, nullable: true } }), { x: null }],
    ['self.x + 1 == 2', object({ x: { ...integer, nullable: true } }), { x: 1 }],
    ['dyn(self[0]) == null', { type: 'array', items: { ...text, nullable: true } }, [null]],
    [
      'dyn(self["a"]) == null && "a" in self',
      { type: 'object', additionalProperties: { ...text, nullable: true } },
      { a: null },
    ],
    ['self["b"] == 2 && self.size() == 2', { type: 'object', additionalProperties: integer }, { a: 1, b: 2 }],
    [
      'self.o.kind == "A" && self.o.metadata.name == "b"',
      object({ o: { type: 'object', 'x-kubernetes-embedded-resource': true, properties: {} } }),
      { o: { apiVersion: 'v1', kind: 'A', metadata: { name: 'b' } } },
    ],
    [
      'self.s == ["b", "a"]',
      object({ s: { type: 'array', 'x-kubernetes-list-type': 'set', items: text } }),
      { s: ['a', 'b'] },
    ],
  ])('%s reads values as Kubernetes does', (rule, schema, value) => {
    expect(told(withRules(schema, rule), value)).toEqual([])
  })

  it.each(['["a", "a"]', '["a", "c"]', '["a"]'])('%s is not the set of a and b', other => {
    const set: Schema = { type: 'array', 'x-kubernetes-list-type': 'set', items: text }
    const rule = `self.s != ${other} && ${other} != self.s`
    expect(told(withRules(object({ s: set }), rule), { s: ['a', 'b'] })).toEqual([])
  })

  it('compares and joins sets and maps without regard to the order', () => {
    const set: Schema = { type: 'array', 'x-kubernetes-list-type': 'set', items: text }
    const map = mapOf(integer)
    const spec = object({ a: set, b: set, c: map, d: map })
    const value = {
      a: ['x', 'y'],
      b: ['y', 'x'],
      c: [{ k: '1', v: 1 }, { k: '2' }],
      d: [{ k: '2' }, { k: '1', v: 1 }],
    }
    expect(told(withRules(spec, 'self.a == self.b && self.c == self.d'), value)).toEqual([])
    expect(
      told(withRules(spec, '(self.a + self.b).size() == 2 && (self.c + self.d).size() == 2'), value),
    ).toEqual([])
    expect(fields(withRules(spec, 'self.c == self.d'), { ...value, d: [{ k: '2' }, { k: '1' }] })).toEqual([
      'spec',
    ])
  })
})

describe('a transition rule', () => {
  const immutable = withRules(text, { rule: 'self == oldSelf', message: 'is immutable' })

  it('is skipped on create, and without an old value', () => {
    const spec = object({ a: immutable })
    expect(told(spec, { a: 'x' })).toEqual([])
    expect(told(spec, { a: 'x' }, {})).toEqual([])
    expect(told(spec, { a: 'x' }, { a: null })).toEqual([])
    expect(told(spec, { a: 'x' }, { a: 'x' })).toEqual([])
    expect(told(spec, {}, { a: 'x' })).toEqual([])
    expect(told(spec, { a: 'x' }, { a: 'y' })).toEqual(['spec.a FieldValueInvalid: is immutable'])
  })

  it('finds the old values of maps by key, and of lists of type map by their keys', () => {
    const items: Schema = {
      ...object({ name: text, size: withRules(integer, 'self >= oldSelf') }),
      required: ['name'],
    }
    const spec = object({
      map: { type: 'object', additionalProperties: immutable },
      list: {
        type: 'array',
        'x-kubernetes-list-type': 'map',
        'x-kubernetes-list-map-keys': ['name'],
        items,
      },
    })
    const previous = {
      map: { a: '1', b: '2' },
      list: [
        { name: 'x', size: 5 },
        { name: 'y', size: 1 },
      ],
    }
    const next = {
      map: { b: '3', c: '9' },
      list: [
        { name: 'y', size: 2 },
        { name: 'x', size: 4 },
        { name: 'z', size: 0 },
      ],
    }
    expect(fields(spec, next, previous)).toEqual(['spec.map.b', 'spec.list[1].size'])
  })

  it('stands in atomic and granular objects, and in a list of type map inside another one', () => {
    const atomic: Schema = { ...object({ a: immutable }), 'x-kubernetes-map-type': 'atomic' }
    const spec = object({ atomic, list: mapOf(mapOf(immutable)) })
    const value = (text: string) => ({ atomic: { a: text }, list: [{ k: '1', v: [{ k: '2', v: text }] }] })
    expect(fields(spec, value('x'), value('y'))).toEqual(['spec.atomic.a', 'spec.list[0].v[0].v'])
    expect(fields(spec, value('x'), value('x'))).toEqual([])
  })

  it('with an optional old value is evaluated always', () => {
    const spec = object({
      a: withRules(text, {
        rule: 'oldSelf.hasValue() ? self == oldSelf.value() : self == "first"',
        optionalOldSelf: true,
      }),
    })
    expect(fields(spec, { a: 'first' })).toEqual([])
    expect(fields(spec, { a: 'second' })).toEqual(['spec.a'])
    expect(fields(spec, { a: 'second' }, { a: 'second' })).toEqual([])
    expect(fields(spec, { a: 'third' }, { a: 'second' })).toEqual(['spec.a'])
    const orValue = withRules(text, {
      rule: 'oldSelf.orValue("") == "" || self == oldSelf.orValue("")',
      optionalOldSelf: true,
    })
    expect(fields(object({ a: orValue }), { a: 'x' }, { a: 'y' })).toEqual(['spec.a'])
  })
})

describe('a wrong rule stops the plugin', () => {
  const at = 'schema.spec.x-kubernetes-validations[0]'
  it.each<[string, Schema, string]>([
    [
      'a syntax error',
      withRules(range, 'self.min <'),
      `${at}.rule does not compile: Unexpected token: EOF (line 1, column 11), in "self.min <"`,
    ],
    [
      'an undeclared field',
      withRules(range, 'self.mn > 0'),
      `${at}.rule does not compile: undefined field "mn" (line 1, column 6)`,
    ],
    ['an undeclared field in has', withRules(range, 'has(self.mn)'), 'undefined field "mn"'],
    [
      'an unknown function',
      withRules(range, 'self.min.isPrime()'),
      'undeclared reference to the function isPrime',
    ],
    ['a field of an undeclared object', withRules({ type: 'object' }, 'self.a == 1'), 'undefined field "a"'],
    ['a comparison of types', withRules(range, 'self.min == "1"'), 'no overload of == for (int, string)'],
    [
      'a nullable field compared with null, which makes it absent',
      withRules(object({ x: { ...integer, nullable: true } }), 'self.x == null'),
      'no overload of == for (int, null)',
    ],
    ['no bool', withRules(range, 'self.min'), 'it must be a bool, is of type int'],
    [
      'a message that is no string',
      withRules(range, { rule: 'true', messageExpression: 'self.min' }),
      `${at}.messageExpression does not compile: it must be a string`,
    ],
    [
      'a nested place',
      object({ a: { type: 'array', items: withRules(range, 'x') } }),
      'schema.spec.properties.a.items.x-kubernetes-validations[0].rule does not compile',
    ],
    [
      'oldSelf in an atomic list',
      object({ a: { type: 'array', items: withRules(text, 'self == oldSelf') } }),
      'schema.spec.properties.a.items.x-kubernetes-validations[0].rule: oldSelf cannot be used on the uncorrelatable portion of the schema within schema.spec.properties.a;',
    ],
    [
      'oldSelf in a set',
      object({
        a: { type: 'array', 'x-kubernetes-list-type': 'set', items: withRules(text, 'self == oldSelf') },
      }),
      'uncorrelatable portion of the schema within schema.spec.properties.a;',
    ],
    [
      'oldSelf in a list of type map inside an atomic list',
      { type: 'array', items: mapOf(withRules(text, 'self == oldSelf')) },
      'schema.spec.items.items.properties.v.x-kubernetes-validations[0].rule: oldSelf cannot be used on the uncorrelatable portion of the schema within schema.spec;',
    ],
    [
      'an optional oldSelf in an atomic list',
      { type: 'array', items: withRules(text, { rule: 'oldSelf.hasValue()', optionalOldSelf: true }) },
      'uncorrelatable portion of the schema within schema.spec;',
    ],
    [
      'optionalOldSelf without oldSelf',
      withRules(range, { rule: 'true', optionalOldSelf: true }),
      `${at}.optionalOldSelf needs a rule that uses oldSelf`,
    ],
    [
      'an optional used as a value',
      withRules(text, { rule: 'self == oldSelf', optionalOldSelf: true }),
      'no overload of == for (string, optional(string))',
    ],
    [
      'a field path that is not declared',
      withRules(range, { rule: 'true', fieldPath: '.mx' }),
      `${at}.fieldPath leads to "mx"`,
    ],
    [
      'a field path into a list',
      withRules(range, { rule: 'true', fieldPath: '.min[0]' }),
      `${at}.fieldPath must be a path`,
    ],
    [
      'a message of two lines',
      withRules(range, { rule: 'true', message: 'a\nb' }),
      `${at}.message must be one line`,
    ],
    ['a rule of two lines without a message', withRules(range, 'true\n&& true'), `${at}.message is required`],
    [
      'an empty message',
      withRules(range, { rule: 'true', message: ' ' }),
      `${at}.message must be a string that is not empty`,
    ],
    ['an empty rule', withRules(range, ''), `${at}.rule must be a string that is not empty`],
    [
      'a rule in a branch',
      { ...range, anyOf: [withRules(object(), 'true')] },
      'must not stand inside allOf, anyOf, oneOf or not',
    ],
  ])('%s', (_, spec, message) => {
    expect(() => compileSchemas({ spec })).toThrow(
      expect.objectContaining({ name: 'ModelError', message: expect.stringContaining(message) }),
    )
  })

  it.each<[unknown, string]>([
    ['true', 'must be a list of rules'],
    [['true'], '[0] must be an object with a rule'],
    [[{}], '[0].rule is missing'],
    [[{ rule: 5 }], '[0].rule must be a string'],
    [[{ rule: 'true', reason: 'Bad' }], '[0].reason must be one of FieldValueInvalid'],
    [[{ rule: 'true', mesage: 'x' }], '[0].mesage is not a key of a rule, which has rule, message'],
    [[{ rule: 'true', optionalOldSelf: 'yes' }], '[0].optionalOldSelf must be true or false'],
  ])('%j', (rules, message) => {
    const spec = { ...range, 'x-kubernetes-validations': rules }
    expect(() => Reflect.apply(compileSchemas, undefined, [{ spec }])).toThrow(message)
  })
})

describe('a default that breaks a rule stops the plugin', () => {
  const positive = withRules(integer, { rule: 'self > 0', message: 'must be positive' })
  it.each<[string, Schema, string]>([
    [
      'of its own schema',
      object({ n: { ...positive, default: 0 } }),
      'the default in schema.spec.n breaks a rule: default: must be positive',
    ],
    [
      'of a part, with the defaults inside it',
      object({ o: { ...object({ n: { ...positive, default: 1 }, m: positive }), default: { m: -1 } } }),
      'the default in schema.spec.o breaks a rule: default.m: must be positive',
    ],
    [
      'in the items of a list, with a field path',
      {
        type: 'array',
        items: object({
          r: {
            ...withRules(range, { rule: 'self.min < self.max', fieldPath: '.max' }),
            default: { min: 1, max: 1 },
          },
        }),
      },
      'the default in schema.spec[].r breaks a rule: default.max: failed rule',
    ],
  ])('%s', (_, spec, message) => {
    expect(() => compileSchemas({ spec })).toThrow(
      expect.objectContaining({ name: 'ModelError', message: expect.stringContaining(message) }),
    )
    expect(() => compileSchemas({ spec: {}, status: spec })).toThrow(message.replace('spec', 'status'))
  })

  it('but not one of a rule about changes, or of the object around it', () => {
    const grows = withRules(integer, 'self > oldSelf')
    const spec = withRules(
      object({ a: { ...positive, default: 1 }, b: { ...grows, default: 1 } }),
      'self.a > 5',
    )
    expect(() => compileSchemas({ spec })).not.toThrow()
  })
})

describe('the cost of rules', () => {
  const list = (items: Schema): Schema => ({ type: 'array', items })

  it('has a bound for all rules of an object together', () => {
    const spec = object({
      a: withRules(list(integer), { rule: 'self.all(x, self.all(y, x <= y || y <= x))', message: 'a' }),
    })
    expect(told(spec, { a: Array.from({ length: 100 }, () => 1) })).toEqual([])
    const [violation] = told(spec, { a: Array.from({ length: 5000 }, () => 1) })
    expect(violation).toContain(`the validation rules take more than ${celLimits.steps} steps on this object`)
  })

  it('can be bounded further for the state of an object, and tells that the rest was not evaluated', () => {
    const spec = object({
      a: withRules(list(integer), 'self.all(x, x > 0)'),
      b: withRules(text, 'self == "b"', 'self == oldSelf'),
    })
    const rules = compileSchemas({ spec }).rules
    const value = { spec: { b: 'c', a: Array.from({ length: 100 }, () => 1) } }
    expect(rules?.validateState(value, 10_000)).toMatchObject({
      state: [{ field: 'spec.b' }],
      isComplete: true,
    })
    expect(rules?.validateState(value, 50)).toMatchObject({ state: [{ field: 'spec.b' }], isComplete: false })
  })

  it('counts the items that have rules of their own', () => {
    const spec = list(withRules(text, 'self.matches("^(a|aa)+$")'))
    const items = Array.from({ length: 2000 }, () => 'a'.repeat(20_000))
    expect(told(spec, items).at(-1)).toContain('steps on this object')
  })
})
