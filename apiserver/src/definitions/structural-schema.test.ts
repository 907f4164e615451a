import { expect, test } from 'vitest'
import { toStructuralSchema } from './structural-schema.ts'

const preserve = { 'x-kubernetes-preserve-unknown-fields': true }

/** Returns the structural schema, and what is left out of it. */
function structural(schema: object, keepsUnknown = false) {
  const notes: string[] = []
  const leftOut = (place: string, why: string) => notes.push(`${place}: ${why}`)
  return { schema: toStructuralSchema(schema, 'spec', { keepsUnknown, leftOut }), notes }
}

test.each<[string, object, object]>([
  ['a value of any type', {}, preserve],
  ['an object of any fields', { type: 'object' }, { type: 'object', ...preserve }],
  ['an array without a schema of its items', { type: 'array' }, { type: 'array', items: preserve }],
  [
    'a map',
    { type: 'object', additionalProperties: { type: 'string' } },
    { type: 'object', additionalProperties: { type: 'string' } },
  ],
  [
    'an integer or a string',
    { 'x-kubernetes-int-or-string': true, default: 1 },
    { 'x-kubernetes-int-or-string': true, default: 1 },
  ],
  [
    'an exclusive bound as a number',
    { type: 'integer', exclusiveMinimum: 3 },
    { type: 'integer', minimum: 3, exclusiveMinimum: true },
  ],
  [
    'annotations that Kubernetes does not have',
    { type: 'string', readOnly: true, deprecated: true, $comment: 'x', 'x-mine': 1, description: 'd' },
    { type: 'string', description: 'd' },
  ],
  [
    'closed objects, which prune',
    { type: 'object', properties: { a: { type: 'string' } }, additionalProperties: false },
    { type: 'object', properties: { a: { type: 'string' } } },
  ],
  [
    'logic about declared fields',
    {
      type: 'object',
      properties: { a: { type: 'string' }, b: { type: 'integer' } },
      oneOf: [{ type: 'object', required: ['a'], title: 'first' }, { properties: { b: { minimum: 2 } } }],
    },
    {
      type: 'object',
      properties: { a: { type: 'string' }, b: { type: 'integer' } },
      oneOf: [{ required: ['a'] }, { properties: { b: { minimum: 2 } } }],
    },
  ],
])('%s is said as Kubernetes says it', (_, schema, expected) => {
  expect(structural(schema)).toEqual({ schema: expected, notes: [] })
})

test('a default has the defaults of its fields, because Kubernetes checks it as it stands', () => {
  const backOff = {
    type: 'object',
    default: {},
    properties: { from: { type: 'integer', default: 1 }, to: { type: 'integer', default: 60 } },
  }
  expect(structural(backOff).schema.default).toEqual({ from: 1, to: 60 })
  expect(backOff.default).toEqual({})
})

test('objects of a model that does not prune keep unknown fields at every depth', () => {
  const inner = { type: 'object', properties: { b: { type: 'string' } } }
  const schema = { type: 'object', properties: { a: inner } }
  expect(structural(schema, true).schema).toEqual({
    type: 'object',
    properties: { a: { ...inner, ...preserve } },
    ...preserve,
  })
  expect(structural(schema).schema).toEqual(schema)
})

test.each<[object, string]>([
  [
    { type: 'array', items: { type: 'string' }, uniqueItems: true },
    'spec: uniqueItems: use x-kubernetes-list-type set',
  ],
  [
    { anyOf: [{ type: 'string' }, { type: 'integer' }] },
    'spec: anyOf, which has a type or a field that is not declared outside of it',
  ],
  [
    {
      type: 'object',
      properties: { a: { type: 'string' } },
      allOf: [{ properties: { z: { minLength: 1 } } }],
    },
    'spec: allOf, which has a type or a field that is not declared outside of it',
  ],
  [
    { type: 'object', properties: { a: { type: 'string' } }, additionalProperties: { type: 'string' } },
    'spec: additionalProperties, because it has properties too',
  ],
])('%j loses a constraint, and a note says so', (schema, note) => {
  const result = structural(schema)
  expect(result.notes).toEqual([note])
  for (const keyword of ['uniqueItems', 'anyOf', 'allOf']) expect(result.schema).not.toHaveProperty(keyword)
})
