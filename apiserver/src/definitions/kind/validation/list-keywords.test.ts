import { expect, test } from 'vitest'
import {
  definitionWith,
  refusals,
  refusalsOfChange,
  stored,
  withField,
} from '../../../testing/test-definition.ts'

const field = 'spec.validation.openAPIV3Schema.properties[spec].properties[field]'
const item = {
  type: 'object',
  required: ['host'],
  properties: {
    host: { type: 'string' },
    port: { type: 'integer', default: 80 },
    path: { type: 'string' },
    options: { type: 'object' },
  },
}
const listOf = (items: object, keywords: object) => ({ type: 'array', items, ...keywords })
const map = (...keys: string[]) => ({ 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': keys })
const set = { 'x-kubernetes-list-type': 'set' }

test.each<[string, object]>([
  ['with keys that are required or have a default', listOf(item, map('host', 'port'))],
  ['of texts as a set', listOf({ type: 'string' }, set)],
  [
    'of objects as a set, each of which is replaced as a whole',
    listOf({ ...item, 'x-kubernetes-map-type': 'atomic' }, set),
  ],
  ['of lists as a set', listOf({ type: 'array', items: { type: 'string' } }, set)],
])('a list %s is accepted', async (_what, schema) => {
  expect(await refusals(definitionWith(withField({ ...schema })))).toEqual([])
})

test.each<[string, object, string[]]>([
  [
    'of an unknown type',
    listOf(item, { 'x-kubernetes-list-type': 'bag' }),
    [`NotSupported ${field}.x-kubernetes-list-type`],
  ],
  [
    'of keys without keys',
    listOf(item, { 'x-kubernetes-list-type': 'map' }),
    [`Required ${field}.x-kubernetes-list-map-keys`],
  ],
  [
    'of a set with keys',
    listOf({ type: 'string' }, { ...map('host'), ...set }),
    [`Invalid ${field}.x-kubernetes-list-type`],
  ],
  [
    'with a key that no item has',
    listOf(item, map('host', 'name')),
    [`Invalid ${field}.x-kubernetes-list-map-keys`],
  ],
  [
    'with a key that is an object',
    listOf(item, map('host', 'options')),
    [
      `Invalid ${field}.items.properties[options].type`,
      `Required ${field}.items.properties[options].default`,
    ],
  ],
  ['with a key twice', listOf(item, map('host', 'host')), [`Invalid ${field}.x-kubernetes-list-map-keys`]],
  [
    'with a key that may be missing',
    listOf(item, map('path')),
    [`Required ${field}.items.properties[path].default`],
  ],
  [
    'with keys of items that are texts',
    listOf({ type: 'string' }, map('host')),
    [`Invalid ${field}.items.type`],
  ],
  [
    'of keys with items that may be null',
    listOf({ ...item, nullable: true }, map('host')),
    [`Forbidden ${field}.items.nullable`],
  ],
  ['as a set of objects', listOf(item, set), [`Invalid ${field}.items.x-kubernetes-map-type`]],
  [
    'as a set of sets',
    listOf({ type: 'array', items: { type: 'string' }, ...set }, set),
    [`Invalid ${field}.items.x-kubernetes-list-type`],
  ],
  [
    'as a set with items that may be null',
    listOf({ type: 'string', nullable: true }, set),
    [`Forbidden ${field}.items.nullable`],
  ],
])('a list %s is refused', async (_what, schema, causes) => {
  expect(await refusals(definitionWith(withField({ ...schema })))).toEqual(causes)
})

test('only lists are sets, and only objects are of a type of maps', async () => {
  const schema = { type: 'object', ...set }
  expect(await refusals(definitionWith(withField(schema)))).toContain(`Invalid ${field}.type`)
  const text = { type: 'string', 'x-kubernetes-map-type': 'shared' }
  expect(await refusals(definitionWith(withField(text)))).toEqual([
    `Invalid ${field}.type`,
    `NotSupported ${field}.x-kubernetes-map-type`,
  ])
})

test('what was stored as a set of objects, or with a key that may be missing, may stay', async () => {
  for (const [before, after] of [
    [listOf(item, set), listOf({ ...item, description: 'x' }, set)],
    [listOf(item, map('path')), listOf({ ...item, description: 'x' }, map('path'))],
  ] as const) {
    const previous = stored(definitionWith(withField(before)))
    expect(await refusalsOfChange(previous, definitionWith(withField(after)))).toEqual([])
    expect(await refusalsOfChange(stored(definitionWith()), definitionWith(withField(after)))).not.toEqual([])
  }
})
