import { describe, expect, expectTypeOf, test } from 'vitest'
import { defineModel, type Model, ModelError } from './model.ts'
import { compareApiVersions } from './model-version.ts'

const gadget = {
  group: 'demo.example.com',
  version: 'v1',
  kind: 'Gadget',
  singular: 'gadget',
  plural: 'gadgets',
  schema: { spec: { type: 'object', required: ['size'], properties: { size: { type: 'integer' } } } },
} as const

const v1beta1 = {
  name: 'v1beta1',
  schema: { spec: { type: 'object' } },
  toHub: () => ({ spec: { size: 1 } }),
  fromHub: () => ({ spec: {} }),
} as const

/** Declares a model with properties that the types do not allow. */
function declare(changes: Record<string, unknown>): Model {
  return Reflect.apply(defineModel, undefined, [{ ...gadget, ...changes }])
}

describe('the versions of a model', () => {
  test('are the hub alone by default', () => {
    expect(defineModel(gadget).versions).toEqual([])
  })

  test('type the objects of their conversions by their schemas', () => {
    const model = defineModel({
      ...gadget,
      versions: [
        {
          name: 'v1beta1',
          schema: { spec: { type: 'object', required: ['text'], properties: { text: { type: 'string' } } } },
          deprecated: 'use v1',
          toHub: (old, { previous }) => {
            expectTypeOf(old.spec).toEqualTypeOf<{ text: string }>()
            expectTypeOf(previous?.spec).toEqualTypeOf<{ size: number } | undefined>()
            return { spec: { size: Number(old.spec.text) }, status: old.status }
          },
          fromHub: hub => {
            expectTypeOf(hub.spec).toEqualTypeOf<{ size: number }>()
            return { spec: { text: String(hub.spec.size) } }
          },
        },
        {
          name: 'v1alpha1',
          schema: { spec: { type: 'object', properties: { n: { type: 'integer' } } } },
          // @ts-expect-error: the hub requires a size
          toHub: old => ({ spec: { amount: old.spec.n } }),
          fromHub: ({ spec }) => ({ spec: { n: spec.size } }),
        },
      ],
      storedVersion: 'v1beta1',
    })
    expect(model.versions.map(({ apiVersion, deprecated }) => [apiVersion, deprecated])).toEqual([
      ['demo.example.com/v1beta1', 'use v1'],
      ['demo.example.com/v1alpha1', undefined],
    ])
    expect(model.storedVersion).toBe('v1beta1')
  })

  test('can be taken from another model', () => {
    const model = defineModel({ ...gadget, versions: [v1beta1], storedVersion: 'v1beta1' })
    expect(defineModel({ ...model })).toEqual(model)
  })

  test.each([
    ['versions must be an array', { versions: {} }],
    ['each of versions must be an object', { versions: ['v1beta1'] }],
    ['version v1 is declared twice', { versions: [{ ...v1beta1, name: 'v1' }] }],
    ['version v1beta1 is declared twice', { versions: [v1beta1, v1beta1] }],
    ['the name of a version must', { versions: [{ ...v1beta1, name: 'V 1' }] }],
    ['schema.spec must be', { versions: [{ ...v1beta1, schema: {} }] }],
    ['toHub must be a function', { versions: [{ ...v1beta1, toHub: undefined }] }],
    ['fromHub must be a function', { versions: [{ ...v1beta1, fromHub: 'spec' }] }],
    [
      'toHub must be synchronous: neither async nor a generator',
      { versions: [{ ...v1beta1, toHub: async () => ({ spec: {} }) }] },
    ],
    ['deprecated must be the text', { versions: [{ ...v1beta1, deprecated: true }] }],
    [
      'version "v1beta1": printerColumns[0].jsonPath',
      { versions: [{ ...v1beta1, printerColumns: [{ name: 'N', type: 'string', jsonPath: 'n' }] }] },
    ],
    [
      'unknown key tohub in version "v1beta1", did you mean toHub?',
      { versions: [{ ...v1beta1, tohub: v1beta1.toHub }] },
    ],
    [
      'unknown key staus in schema of version "v1beta1", did you mean status?',
      { versions: [{ ...v1beta1, schema: { ...v1beta1.schema, staus: {} } }] },
    ],
    [
      'storedVersion "v2" is not a version of the model: it has v1, v1beta1',
      { versions: [v1beta1], storedVersion: 'v2' },
    ],
  ])('are refused with %j', (message, changes) => {
    expect(() => declare(changes)).toThrow(ModelError)
    expect(() => declare(changes)).toThrow(message)
  })
})

test('API versions sort in the order of Kubernetes', () => {
  const sorted = [
    'v10',
    'v2',
    'v1',
    'v11beta2',
    'v10beta3',
    'v3beta1',
    'v12alpha1',
    'v11alpha2',
    'foo1',
    'foo10',
  ]
  expect(sorted.toReversed().sort(compareApiVersions)).toEqual(sorted)
})
