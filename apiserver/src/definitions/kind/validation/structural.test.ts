import { describe, expect, test } from 'vitest'
import {
  definitionWith,
  refusals,
  withField,
  withRoot,
  withSecond,
  withVersion,
} from '../../../testing/test-definition.ts'

const at = 'spec.validation.openAPIV3Schema'
const field = `${at}.properties[spec].properties[field]`

test.each<[string, object]>([
  ['of any value', { 'x-kubernetes-preserve-unknown-fields': true }],
  ['of an integer or a text', { 'x-kubernetes-int-or-string': true }],
  [
    'of an integer or a text, with the two types',
    { 'x-kubernetes-int-or-string': true, anyOf: [{ type: 'integer' }, { type: 'string' }] },
  ],
  [
    'of an integer or a text, with the two types and more',
    {
      'x-kubernetes-int-or-string': true,
      allOf: [{ anyOf: [{ type: 'integer' }, { type: 'string' }] }, { pattern: '^[0-9]+%?$' }],
    },
  ],
  ['of a map', { type: 'object', additionalProperties: { type: 'string' } }],
  ['of an object with any fields', { type: 'object', additionalProperties: true }],
  [
    'of a whole object',
    { type: 'object', 'x-kubernetes-embedded-resource': true, 'x-kubernetes-preserve-unknown-fields': true },
  ],
  [
    'with values that depend on others',
    {
      type: 'object',
      properties: { a: { type: 'string' } },
      anyOf: [{ required: ['a'] }, { not: { properties: { a: { minLength: 3 } } } }],
    },
  ],
])('a schema %s is accepted', async (_what, schema) => {
  expect(await refusals(definitionWith(withField({ ...schema })))).toEqual([])
})

test.each<[string, object, string[]]>([
  ['without a type', { description: 'x' }, [`Required ${field}.type`]],
  ['of null', { type: 'null' }, [`Forbidden ${field}.type`, `NotSupported ${field}.type`]],
  ['of an unknown type', { type: 'text' }, [`NotSupported ${field}.type`]],
  ['of a list without items', { type: 'array' }, [`Required ${field}.items`]],
  ['of items without a type', { type: 'array', items: {} }, [`Required ${field}.items.type`]],
  ['of items one by one', { type: 'array', items: [{ type: 'string' }] }, [`Forbidden ${field}.items`]],
  [
    'of fields and of a map at once',
    { type: 'object', properties: { a: { type: 'string' } }, additionalProperties: { type: 'string' } },
    [`Forbidden ${field}.additionalProperties`],
  ],
  ['with a reference', { type: 'object', $ref: '#/definitions/x' }, [`Forbidden ${field}.$ref`]],
  [
    'with items that are unique',
    { type: 'array', items: { type: 'string' }, uniqueItems: true },
    [`Forbidden ${field}.uniqueItems`],
  ],
  [
    'that keeps no unknown fields',
    { type: 'object', 'x-kubernetes-preserve-unknown-fields': false },
    [`Invalid ${field}.x-kubernetes-preserve-unknown-fields`],
  ],
  ['with a pattern that does not compile', { type: 'string', pattern: '(' }, [`Invalid ${field}.pattern`]],
  [
    'with a pattern that Go does not have',
    { type: 'string', pattern: '(?=a)' },
    [`Invalid ${field}.pattern`],
  ],
  [
    'of the two types, without saying so',
    { anyOf: [{ type: 'integer' }, { type: 'string' }] },
    [`Required ${field}.type`],
  ],
  [
    'of a whole object without fields',
    { type: 'object', 'x-kubernetes-embedded-resource': true },
    [`Required ${field}.properties`],
  ],
  [
    'of a whole object that is a text',
    { type: 'string', 'x-kubernetes-embedded-resource': true, 'x-kubernetes-preserve-unknown-fields': true },
    [`Invalid ${field}.type`],
  ],
])('a schema %s is refused', async (_what, schema, causes) => {
  expect(await refusals(definitionWith(withField({ ...schema })))).toEqual(causes)
})

describe('a part that values are also checked by', () => {
  test.each(['allOf', 'anyOf', 'oneOf'])('of %s declares nothing', async keyword => {
    const part = {
      title: 'x',
      description: 'x',
      default: {},
      nullable: true,
      'x-kubernetes-preserve-unknown-fields': true,
      'x-kubernetes-list-type': 'atomic',
      'x-kubernetes-map-type': 'atomic',
      'x-kubernetes-validations': [{ rule: 'true' }],
    }
    const causes = await refusals(definitionWith(withField({ type: 'object', [keyword]: [part] })))
    expect(causes.filter(cause => !cause.endsWith('.type'))).toEqual(
      Object.keys(part)
        .map(name => `Forbidden ${field}.${keyword}[0].${name}`)
        .sort(),
    )
  })

  test('has only fields that whole objects have', async () => {
    const anyOf = [
      { properties: { spec: { required: ['size'] } } },
      { properties: { other: { minLength: 1 } } },
    ]
    expect(await refusals(definitionWith(withRoot({ anyOf })))).toEqual([`Required ${at}.properties[other]`])
  })
})

describe('the schema of whole objects', () => {
  test('is of the type object', async () => {
    expect(await refusals(definitionWith(withRoot({ type: 'string' })))).toContain(`Invalid ${at}.type`)
  })

  test('declares the metadata with its names only', async () => {
    const properties = { name: { type: 'string', maxLength: 9 }, generateName: { type: 'string' } }
    const metadata = { type: 'object', properties }
    expect(await refusals(definitionWith(withRoot({ properties: { metadata } })))).toEqual([])
    const more = { ...metadata, properties: { ...properties, labels: { type: 'object' } } }
    expect(await refusals(definitionWith(withRoot({ properties: { metadata: more } })))).toEqual([
      `Forbidden ${at}.properties[metadata]`,
    ])
  })

  test('has a kind and a version that are texts', async () => {
    const properties = { kind: { type: 'integer' }, apiVersion: { type: 'object' } }
    expect(await refusals(definitionWith(withRoot({ properties })))).toEqual([
      `Invalid ${at}.properties[apiVersion].type`,
      `Invalid ${at}.properties[kind].type`,
    ])
  })

  test('has few keywords beside a status of its own', async () => {
    const status = { subresources: { status: {} } }
    expect(await refusals(definitionWith(withVersion(status), withRoot({ minProperties: 1 })))).toEqual([
      `Invalid ${at}`,
    ])
  })
})

test('places name the version if its schema differs from those of others', async () => {
  const schema = { openAPIV3Schema: { type: 'object', properties: { a: {} } } }
  expect(await refusals(definitionWith(withSecond({ schema })))).toEqual([
    'Required spec.versions[1].schema.openAPIV3Schema.properties[a].type',
  ])
})
