import { describe, expect, test } from 'vitest'
import { defineModel, type Model } from '../../api/model.ts'
import type { VersionDeclaration } from '../../api/model-version.ts'
import { checkConversions } from './check-conversions.ts'
import { seededRandom } from './random.ts'
import { sampleOf } from './sample.ts'

const schema = {
  spec: {
    type: 'object',
    required: ['size'],
    properties: {
      size: { type: 'integer', minimum: 0 },
      unit: { type: 'string' },
      tags: { type: 'array', items: { type: 'string' } },
    },
  },
  status: { type: 'object', properties: { ready: { type: 'boolean' } } },
} as const

type Conversions = Pick<VersionDeclaration<typeof schema, typeof schema>, 'toHub' | 'fromHub'>

/** Both versions have the same form. */
const honest: Conversions = {
  toHub: ({ spec, status }) => ({ spec, status }),
  fromHub: ({ spec, status }) => ({ spec, status }),
}

function modelWith(conversions: Partial<Conversions>, storedVersion = 'v1'): Model {
  return defineModel({
    group: 'demo.example.com',
    version: 'v1',
    kind: 'Gadget',
    singular: 'gadget',
    plural: 'gadgets',
    schema,
    versions: [{ name: 'v1beta1', schema, ...honest, ...conversions }],
    storedVersion,
  })
}

describe('conversions', () => {
  test('that lose nothing pass', () => {
    checkConversions(modelWith({}))
    checkConversions(modelWith({}, 'v1beta1'))
  })

  test.each<[string, Partial<Conversions>]>([
    ['fromHub(toHub(old)) is another object', { toHub: ({ spec: { size } }) => ({ spec: { size } }) }],
    ['is another object', { fromHub: ({ spec }) => ({ spec }) }],
    [
      'it changes its argument',
      { toHub: old => ({ ...honest.toHub(Object.assign(old, { kind: 'x' }), { previous: undefined }) }) },
    ],
    [
      'no such thing',
      {
        fromHub: () => {
          throw new Error('no such thing')
        },
      },
    ],
    ['and then', { fromHub: ({ spec }) => ({ spec: { ...spec, unit: `${Math.random()}` } }) }],
  ])('fail with "%s"', (message, conversions) => {
    expect(() => checkConversions(modelWith(conversions))).toThrow(message)
  })

  test('of the stored version must do without the previous object', () => {
    const narrow = {
      spec: { type: 'object', required: ['size'], properties: { size: { type: 'integer' } } },
    } as const
    const model = (storedVersion: string) =>
      defineModel({
        ...modelWith({}),
        schema,
        versions: [
          {
            name: 'v1beta1',
            schema: narrow,
            toHub: ({ spec }, { previous }) => ({
              spec: { ...previous?.spec, size: spec.size },
              status: previous?.status,
            }),
            fromHub: ({ spec: { size } }) => ({ spec: { size } }),
          },
        ],
        storedVersion,
      })
    checkConversions(model('v1'))
    expect(() => checkConversions(model('v1beta1'))).toThrow('of the stored version is another object')
  })

  test('get the values that the test gives for loosely described fields', () => {
    const text = {
      spec: { type: 'object', required: ['size'], properties: { size: { type: 'string' } } },
    } as const
    const size = {
      spec: { type: 'object', required: ['size'], properties: { size: { type: 'integer' } } },
    } as const
    const model = defineModel({
      ...modelWith({}),
      schema: size,
      indexes: [],
      versions: [
        {
          name: 'v1beta1',
          schema: text,
          toHub: ({ spec }) => ({ spec: { size: Number(spec.size) } }),
          fromHub: ({ spec }) => ({ spec: { size: String(spec.size) } }),
        },
      ],
    })
    expect(() => checkConversions(model)).toThrow('fromHub(toHub(old))')
    checkConversions(model, { values: { v1beta1: { 'spec.size': random => `${random.integer(0, 99)}` } } })
  })
})

describe('a generated object', () => {
  test('is the same for the same seed', () => {
    const make = (seed: number) => sampleOf(schema.spec, 'spec', seededRandom(seed), {})
    expect(make(3)).toEqual(make(3))
    expect([1, 2, 3, 4].map(make)).not.toEqual([1, 1, 1, 1].map(make))
  })

  test('without a value for a pattern names the field', () => {
    const coded = { type: 'string', pattern: '^[0-9]{40}$' }
    expect(() => sampleOf(coded, 'spec.code', seededRandom(1), {})).toThrow(
      'spec.code: no generated text matches',
    )
  })
})
