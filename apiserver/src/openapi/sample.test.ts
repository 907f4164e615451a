import type { Schema } from '@setpoint/controller-runtime'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { compileSchemas } from '../model/index.ts'
import { toOpenApiSchema } from './openapi-schema.ts'
import { sampleOf } from './sample.ts'

const sample = (schema: Schema) => sampleOf(toOpenApiSchema(schema))

describe('a sample', () => {
  it.each<[Schema, unknown]>([
    [{ type: 'string' }, 'example'],
    [{ type: 'string', maxLength: 3 }, 'exa'],
    [{ type: 'string', minLength: 9 }, 'examplexx'],
    [{ type: 'string', format: 'email' }, 'ann@example.com'],
    [{ type: 'string', format: 'email', maxLength: 4 }, undefined],
    [{ type: 'string', pattern: '^a$' }, undefined],
    [{ type: 'string', pattern: '^a$', example: 'a' }, 'a'],
    [{ type: 'string', enum: ['x', 'y'] }, 'x'],
    [{ type: 'string', default: 'd' }, 'd'],
    [{ type: 'integer' }, 1],
    [{ type: 'integer', minimum: 5 }, 5],
    [{ type: 'integer', maximum: -3 }, -3],
    [{ type: 'integer', minimum: 5, exclusiveMinimum: true, multipleOf: 5 }, 10],
    [{ type: 'integer', minimum: 2, maximum: 3, multipleOf: 5 }, undefined],
    [{ type: 'boolean' }, true],
    [{ type: 'array', items: { type: 'string' } }, ['example']],
    [{ type: 'array', items: { type: 'string' }, minItems: 2 }, undefined],
    [{ type: 'object', required: ['a'], properties: { a: { type: 'string', pattern: 'a' } } }, undefined],
    [
      { type: 'object', properties: { a: { type: 'string', pattern: 'a' }, b: { type: 'integer' } } },
      { b: 1 },
    ],
    [{ type: 'object', required: ['a'], additionalProperties: { type: 'integer' } }, { a: 1 }],
    [{ 'x-kubernetes-int-or-string': true }, 1],
  ])('of %j is %j', (schema, expected) => {
    expect(sample(schema)).toEqual(expected)
  })

  it('is valid, if there is one', () => {
    let made = 0
    fc.assert(
      fc.property(objects, schema => {
        const value = sample(schema)
        if (value === undefined) return
        made++
        expect(compileSchemas({ spec: schema }).validate({ spec: value })).toEqual([])
      }),
      { numRuns: 60 },
    )
    expect(made).toBeGreaterThan(10)
  })
})

const bound = fc.option(fc.integer({ min: -20, max: 20 }), { nil: undefined })
const size = fc.option(fc.integer({ min: 0, max: 12 }), { nil: undefined })
const scalars: fc.Arbitrary<Schema> = fc.oneof(
  fc.record({
    type: fc.constant('string' as const),
    minLength: size,
    maxLength: size,
    format: fc.constantFrom(undefined, 'email', 'date-time', 'uri', 'ipv4', 'uuid', 'duration', 'hostname'),
  }),
  fc.record({
    type: fc.constantFrom('integer' as const, 'number' as const),
    minimum: bound,
    maximum: bound,
    multipleOf: fc.constantFrom(undefined, 1, 3, 7),
  }),
  fc.record({ type: fc.constant('boolean' as const), nullable: fc.boolean() }),
)
const { schema: objects } = fc.letrec<{ schema: Schema; value: Schema }>(tie => ({
  value: fc.oneof(
    { maxDepth: 3 },
    scalars,
    fc.record({ type: fc.constant('array' as const), items: tie('value'), minItems: size, maxItems: size }),
    tie('schema'),
  ),
  schema: fc.record({
    type: fc.constant('object' as const),
    properties: fc.dictionary(fc.constantFrom('a', 'b', 'c'), tie('value')),
    required: fc.uniqueArray(fc.constantFrom('a', 'b', 'c', 'd'), { maxLength: 2 }),
    additionalProperties: fc.option(scalars, { nil: undefined }),
    minProperties: fc.constantFrom(undefined, 1, 2),
    maxProperties: fc.constantFrom(undefined, 1, 3),
  }),
}))
