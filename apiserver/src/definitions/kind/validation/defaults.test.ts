import { describe, expect, test } from 'vitest'
import {
  definitionWith,
  refusals,
  refusalsOfChange,
  stored,
  withField,
  withRoot,
} from '../../../testing/test-definition.ts'
import { checkWorkDefaults } from './check-work.ts'

const at = 'spec.validation.openAPIV3Schema'
const field = `${at}.properties[spec].properties[field]`
const whole = { type: 'object', 'x-kubernetes-embedded-resource': true }
const object = (properties: object, more: object = {}) => ({ type: 'object', properties, ...more })
const text = { type: 'string' }

test.each<[string, object]>([
  ['of its type', { ...text, default: 'x' }],
  ['that is null where it may be', object({ a: { ...text, nullable: true } }, { default: { a: null } })],
  ['that is null, which is no default', { ...text, default: null }],
  [
    'with any fields where they are kept',
    object({}, { default: { a: 1 }, 'x-kubernetes-preserve-unknown-fields': true }),
  ],
  [
    'that is a whole object',
    {
      ...whole,
      'x-kubernetes-preserve-unknown-fields': true,
      default: { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'a' } },
    },
  ],
])('a default %s is accepted', async (_what, schema) => {
  expect(await refusals(definitionWith(withField({ ...schema })))).toEqual([])
})

test.each<[string, object, string[]]>([
  ['of another type', { ...text, default: 1 }, [`TypeInvalid ${field}.default`]],
  [
    'with a field that is not declared',
    object({ a: text }, { default: { b: 1 } }),
    [`Invalid ${field}.default`],
  ],
  ['that is not in the list', { ...text, enum: ['a'], default: 'b' }, [`NotSupported ${field}.default`]],
  ['that is too short', { ...text, minLength: 2, default: 'x' }, [`Invalid ${field}.default`]],
  ['that does not match', { ...text, pattern: '^a', default: 'x' }, [`Invalid ${field}.default`]],
  [
    'without a field that is required',
    object({ a: text }, { required: ['a'], default: {} }),
    [`Required ${field}.default.a`],
  ],
  [
    'that one of the parts refuses',
    { ...text, not: { maxLength: 1 }, default: 'x' },
    [`Invalid ${field}.default`],
  ],
  [
    'that a rule refuses',
    object(
      { n: { type: 'integer' } },
      { default: { n: 1 }, 'x-kubernetes-validations': [{ rule: 'self.n > 5' }] },
    ),
    [`Invalid ${field}.default`],
  ],
  [
    'that is a whole object without a kind',
    { ...whole, 'x-kubernetes-preserve-unknown-fields': true, default: { a: 1 } },
    [`Required ${field}.default.apiVersion`, `Required ${field}.default.kind`],
  ],
])('a default %s is refused', async (_what, schema, causes) => {
  expect(await refusals(definitionWith(withField({ ...schema })))).toEqual(causes)
})

test('a default has the places that the value at fault has in it', async () => {
  const schema = { type: 'array', items: object({ a: text }), default: [{ a: 'x' }, { a: 1 }] }
  expect(await refusals(definitionWith(withField(schema)))).toEqual([`TypeInvalid ${field}.default.[1].a`])
})

test('a rule that does not compile is a violation of the default, and one that is malformed otherwise is not', async () => {
  const malformed = (rule: object) =>
    object({ n: { type: 'integer' } }, { default: { n: 1 }, 'x-kubernetes-validations': [rule] })
  const place = `${field}.x-kubernetes-validations[0]`
  expect(await refusals(definitionWith(withField(malformed({ rule: 'no' }))))).toEqual([
    `Invalid ${field}.default`,
  ])
  for (const [part, value] of Object.entries({ fieldPath: 'n', messageExpression: 'no' })) {
    const other = malformed({ rule: 'self.n > 0', [part]: value })
    expect(await refusals(definitionWith(withField(other)))).toEqual([`Invalid ${place}.${part}`])
  }
})

test('the metadata, the kind and the version of whole objects have no defaults', async () => {
  const withDefault = { ...text, default: 'x' }
  const metadata = object({ name: withDefault })
  expect(await refusals(definitionWith(withRoot({ properties: { metadata, kind: withDefault } })))).toEqual([
    `Forbidden ${at}.properties[kind].default`,
    `Forbidden ${at}.properties[metadata].properties[name].default`,
  ])
})

test('a default inside a part that values are also checked by is refused once', async () => {
  const not = { properties: { a: { default: 'x' } } }
  expect(await refusals(definitionWith(withField(object({ a: text }, { not }))))).toEqual([
    `Forbidden ${field}.not.properties[a].default`,
  ])
})

test('a stored default with a field that is not declared may stay', async () => {
  const broken = object({ a: text }, { default: { b: 1 } })
  const previous = stored(definitionWith(withField(broken)))
  const next = definitionWith(withField({ ...broken, description: 'x' }))
  expect(await refusalsOfChange(previous, next)).toEqual([])
})

describe('the work of checking defaults is bounded', () => {
  test('in a schema, whose other defaults are refused', async () => {
    const value = Array.from({ length: 900 }, () => ({}))
    const schema = { type: 'array', items: object({ a: text, b: text, c: text }), default: value }
    const fields = Object.fromEntries(Array.from({ length: 60 }, (_, n) => [`f${n}`, schema]))
    const causes = await refusals(definitionWith(withField(object(fields))))
    expect(causes.length).toBeGreaterThan(1)
    expect(causes.length).toBeLessThan(60)
    expect(causes).toContain(`TooMany ${field}.properties[f59].default`)
  })

  test('in one default', async () => {
    const value = Array.from({ length: checkWorkDefaults.stepsAtOnce }, () => 'x')
    const causes = await refusals(definitionWith(withField({ type: 'array', items: text, default: value })))
    expect(causes).toEqual([`TooMany ${field}.default`])
  })
})
