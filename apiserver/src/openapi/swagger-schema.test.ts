import { describe, expect, it } from 'vitest'
import type { JsonObject } from '../model/index.ts'
import { metaRef } from './meta-schemas.ts'
import { metaName, refTo } from './names.ts'
import { toOpenApiSchema } from './openapi-schema.ts'
import { toSwaggerSchema } from './swagger-schema.ts'

const definition = `#/definitions/${metaName('ObjectMeta')}`
const text = { type: 'string' } as const

describe('a schema in Swagger 2.0', () => {
  it.each<[string, JsonObject, JsonObject]>([
    [
      'keeps what both have',
      { type: 'string', title: 't', minLength: 1, format: 'date', default: 'd', enum: ['d'], 'x-a': [1] },
      { type: 'string', title: 't', minLength: 1, format: 'date', default: 'd', enum: ['d'], 'x-a': [1] },
    ],
    [
      'has no keywords of OpenAPI 3.0',
      { type: 'string', deprecated: true, writeOnly: true, oneOf: [{ minLength: 1 }], not: { maxLength: 2 } },
      { type: 'string' },
    ],
    [
      'has no type, fields and items where null is allowed',
      { type: 'object', nullable: true, description: 'd', properties: { a: text } },
      { description: 'd' },
    ],
    [
      'has no type of a nullable list',
      { type: 'array', nullable: true, items: text, maxItems: 3 },
      { maxItems: 3 },
    ],
    [
      'requires no field that can be null',
      { type: 'object', required: ['a', 'b'], properties: { a: { ...text, nullable: true }, b: text } },
      { type: 'object', required: ['b'], properties: { a: {}, b: text } },
    ],
    [
      'has no fields where unknown ones are kept',
      { type: 'object', properties: { a: text }, 'x-kubernetes-preserve-unknown-fields': true },
      { 'x-kubernetes-preserve-unknown-fields': true },
    ],
    [
      'has no type where integers and strings are allowed',
      { 'x-kubernetes-int-or-string': true },
      { 'x-kubernetes-int-or-string': true },
    ],
    [
      'converts what is nested',
      { type: 'array', items: { type: 'object', additionalProperties: { ...text, nullable: true } } },
      { type: 'array', items: { type: 'object', additionalProperties: {} } },
    ],
    [
      'keeps an object closed',
      { type: 'object', additionalProperties: false },
      { type: 'object', additionalProperties: false },
    ],
    [
      'takes the names of fields for nothing else',
      { type: 'object', properties: { ['__proto__']: text, 'x-a': text, oneOf: text } },
      { type: 'object', properties: { ['__proto__']: text, 'x-a': text, oneOf: text } },
    ],
  ])('%s', (_what, schema, expected) => {
    expect(toSwaggerSchema(toOpenApiSchema(schema))).toEqual(expected)
  })

  it('refers to definitions, with a description beside the reference', () => {
    expect(toSwaggerSchema(refTo('schemas', metaName('ObjectMeta')))).toEqual({ $ref: definition })
    expect(toSwaggerSchema(metaRef('ObjectMeta', 'Who.'))).toEqual({ description: 'Who.', $ref: definition })
  })
})
