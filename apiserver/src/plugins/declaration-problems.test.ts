import { defineModel, type ModelDeclaration, singleValueIndex } from '@setpoint/controller-runtime/api'
import { describe, expect, it } from 'vitest'
import { declarationProblems } from './declaration-problems.ts'

const spec = {
  type: 'object',
  required: ['size'],
  properties: {
    size: { type: 'integer' },
    tags: { type: 'array', items: { type: 'string' } },
    limits: {
      type: 'object',
      additionalProperties: { type: 'object', properties: { max: { type: 'integer' } } },
    },
    free: { type: 'object' },
    port: { 'x-kubernetes-int-or-string': true },
    parts: { type: 'array', items: { type: 'object', properties: { name: { type: 'string' } } } },
    target: {
      type: 'object',
      properties: { kind: { type: 'string' } },
      oneOf: [{ required: ['url'], properties: { url: { type: 'string' } } }],
    },
  },
} as const

function problemsOf(parts: Partial<ModelDeclaration>): string[] {
  const model = defineModel({
    group: 'demo.example.com',
    version: 'v1',
    kind: 'Gadget',
    singular: 'gadget',
    plural: 'gadgets',
    schema: { spec },
    ...parts,
  } satisfies ModelDeclaration)
  return declarationProblems(model).map(({ message }) => message)
}

const column = (jsonPath: string) => ({ name: 'Column', type: 'string', jsonPath }) as const
const index = (name: string) => singleValueIndex({ name, indexFunc: () => 'x' })

describe('a declaration is probably wrong if', () => {
  it.each<[what: string, parts: Partial<ModelDeclaration>, problem: string]>([
    [
      'a required property is not declared',
      { schema: { spec: { ...spec, required: ['sizee'] } } },
      'v1: schema.spec requires "sizee", which it does not declare, did you mean size?',
    ],
    [
      'a property has no type',
      { schema: { spec, status: { type: 'object', properties: { phase: { description: 'How it is.' } } } } },
      'v1: schema.status.properties.phase has no type, so that any value is valid',
    ],
    [
      'a printer column shows an undeclared field',
      { printerColumns: [column('.spec.sise')] },
      'v1: the printer column "Column" shows .spec.sise, and the schema does not declare "sise", did you mean size?',
    ],
    [
      'a printer column shows a field that objects do not have',
      { printerColumns: [column('.data.x')] },
      'v1: the printer column "Column" shows .data.x, and the schema does not declare "data"',
    ],
    [
      'an index has the name of a misspelled field',
      { indexes: [index('spec.sise')] },
      'the index "spec.sise" names "sise", which the schema does not declare, did you mean size?',
    ],
    [
      'a further version has such a mistake',
      {
        versions: [
          {
            name: 'v1beta1',
            schema: { spec: { type: 'object', properties: { old: {} } } },
            toHub: ({ spec }) => ({ spec }),
            fromHub: ({ spec }) => ({ spec }),
          },
        ],
      },
      'v1beta1: schema.spec.properties.old has no type, so that any value is valid',
    ],
  ])('%s', (_what, parts, problem) => {
    expect(problemsOf(parts)).toEqual([problem])
  })
})

describe('a declaration is right if', () => {
  it('its names are those of the metadata, of fields below open objects, in branches or items, or computed', () => {
    const columns = [
      '.metadata.creationTimestamp',
      '.spec.limits.cpu.max',
      '.spec.free.anything',
      '.spec.parts[0].name',
      '.spec.target.url',
      '.status.conditions[?(@.type=="Ready")].status',
    ]
    const indexes = ['spec.tags', 'spec.parts.name', 'spec.holders', 'by-owner'].map(index)
    expect(problemsOf({ printerColumns: columns.map(column), indexes })).toEqual([])
  })
})
