import { describe, expect, test } from 'vitest'
import {
  definitionWith,
  refusals,
  withField,
  withSecond,
  withVersion,
} from '../../../testing/test-definition.ts'

describe('the columns of a version', () => {
  const refusalsOf = (column: object) =>
    refusals(
      definitionWith(
        withVersion({
          additionalPrinterColumns: [{ name: 'A', type: 'string', jsonPath: '.spec.color', ...column }],
        }),
      ),
    )

  test.each<[string, object, string[]]>([
    ['are accepted', { format: 'date', priority: 1, description: 'x' }, []],
    ['have names', { name: '' }, ['Required spec.additionalPrinterColumns[0].name']],
    ['are of five types', { type: 'array' }, ['Invalid spec.additionalPrinterColumns[0].type']],
    ['are of a type', { type: '' }, ['Required spec.additionalPrinterColumns[0].type']],
    ['have formats of OpenAPI', { format: 'email' }, ['Invalid spec.additionalPrinterColumns[0].format']],
    ['have paths', { jsonPath: '' }, ['Required spec.additionalPrinterColumns[0].JSONPath']],
    [
      'have paths that begin with a dot',
      { jsonPath: 'spec' },
      ['Invalid spec.additionalPrinterColumns[0].JSONPath'],
    ],
  ])('%s', async (_what, column, causes) => {
    expect(await refusalsOf(column)).toEqual(causes)
  })
})

describe('the scale of a version', () => {
  const paths = { specReplicasPath: '.spec.size', statusReplicasPath: '.status.replicas' }
  const place = 'spec.subresources.scale'

  test.each<[string, object, string[]]>([
    ['is accepted', { labelSelectorPath: '.status.selector' }, []],
    ['has a path of the wanted number', { specReplicasPath: '' }, [`Required ${place}.specReplicasPath`]],
    ['has it below the spec', { specReplicasPath: '.status.size' }, [`Invalid ${place}.specReplicasPath`]],
    [
      'has the present number below the status',
      { statusReplicasPath: '.spec.size' },
      [`Invalid ${place}.statusReplicasPath`],
    ],
    [
      'has a selector below the spec or the status',
      { labelSelectorPath: '.metadata.x' },
      [`Invalid ${place}.labelSelectorPath`],
    ],
  ])('%s', async (_what, more, causes) => {
    const subresources = { scale: { ...paths, ...more } }
    expect(await refusals(definitionWith(withVersion({ subresources })))).toEqual(causes)
  })
})

describe('the selectable fields of a version', () => {
  const refusalsOf = (...selected: string[]) =>
    refusals(
      definitionWith(
        withField({
          type: 'object',
          properties: {
            flag: { type: 'boolean' },
            list: { type: 'array', items: { type: 'string' } },
            labels: { type: 'object', additionalProperties: { type: 'string' } },
          },
        }),
        withVersion({ selectableFields: selected.map(jsonPath => ({ jsonPath })) }),
      ),
    )
  const first = 'spec.selectableFields[0].jsonPath'

  test('are texts, integers and booleans, also in maps', async () => {
    expect(await refusalsOf('.spec.color', '.spec.size', '.spec.field.flag', '.spec.field.labels.a')).toEqual(
      [],
    )
  })

  test.each<[string, string, string]>([
    ['that is not declared', '.spec.length', 'Invalid'],
    ['that is an object', '.spec', 'Invalid'],
    ['that is a list', '.spec.field.list', 'Invalid'],
    ['of the metadata', '.metadata.name', 'Invalid'],
    ['without a path', '', 'Required'],
    ['whose path has no dot', 'spec.color', 'Invalid'],
  ])('are none %s', async (_what, path, reason) => {
    expect(await refusalsOf(path)).toEqual([`${reason} ${first}`])
  })

  test('are different', async () => {
    expect(await refusalsOf('.spec.color', '.spec.color')).toEqual([
      'Duplicate spec.selectableFields[1].jsonPath',
    ])
  })

  test('are at most eight', async () => {
    const names = Array.from({ length: 9 }, (_, n) => `f${n}`)
    const properties = Object.fromEntries(names.map(name => [name, { type: 'string' }]))
    const selectableFields = names.map(name => ({ jsonPath: `.spec.field.${name}` }))
    const causes = await refusals(
      definitionWith(withField({ type: 'object', properties }), withVersion({ selectableFields })),
    )
    expect(causes).toEqual(['TooMany spec.selectableFields'])
  })

  test('are refused as a whole if versions differ in them', async () => {
    const selectableFields = [{ jsonPath: '.spec.none' }]
    expect(await refusals(definitionWith(withSecond({ selectableFields })))).toEqual([
      'Invalid spec.versions[1].selectableFields',
    ])
  })
})
