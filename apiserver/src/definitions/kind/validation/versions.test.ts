import { describe, expect, test } from 'vitest'
import {
  type Change,
  definitionWith,
  refusals,
  refusalsOfChange,
  stored,
  withSecond,
  withSpec,
  withVersion,
} from '../../../testing/test-definition.ts'

test('a definition with two versions, one of them stored, is accepted', async () => {
  expect(await refusals(definitionWith(withSecond()))).toEqual([])
})

test.each<[string, Change[], string[]]>([
  ['no versions', [withSpec({ versions: [] })], ['Invalid spec.versions', 'Invalid status.storedVersions']],
  [
    'no version that is stored',
    [withVersion({ storage: false })],
    ['Invalid spec.versions', 'Invalid status.storedVersions'],
  ],
  [
    'two versions that are stored',
    [withSecond({ storage: true })],
    ['Invalid spec.versions', 'Invalid status.storedVersions'],
  ],
  ['two versions of one name', [withSecond({ name: 'v1' })], ['Invalid spec.versions']],
  [
    'a name of a version with capitals',
    [withVersion({ name: 'V1' })],
    ['Invalid spec.version', 'Invalid spec.versions[0].name'],
  ],
  [
    'a version without a schema',
    [withVersion({ schema: undefined })],
    ['Required spec.versions[0].schema.openAPIV3Schema'],
  ],
  [
    'one version of two without a schema',
    [withSecond({ schema: undefined })],
    ['Required spec.versions[1].schema.openAPIV3Schema'],
  ],
])('a definition with %s is refused', async (_what, changes, causes) => {
  expect(await refusals(definitionWith(...changes))).toEqual(causes)
})

describe('the warning of a version', () => {
  test.each<[string, object, string[]]>([
    [
      'belongs to a deprecated one',
      { deprecationWarning: 'x' },
      ['Invalid spec.versions[0].deprecationWarning'],
    ],
    ['may have any letters', { deprecated: true, deprecationWarning: 'ünï cödé 🙂' }, []],
    [
      'has at most 256 bytes',
      { deprecated: true, deprecationWarning: 'x'.repeat(257) },
      ['Invalid spec.versions[0].deprecationWarning'],
    ],
    [
      'is not empty',
      { deprecated: true, deprecationWarning: '' },
      ['Invalid spec.versions[0].deprecationWarning'],
    ],
    [
      'is one line',
      { deprecated: true, deprecationWarning: 'a\nb' },
      ['Invalid spec.versions[0].deprecationWarning'],
    ],
  ])('%s', async (_what, version, causes) => {
    expect(await refusals(definitionWith(withVersion({ ...version })))).toEqual(causes)
  })
})

describe('a version that objects were stored in', () => {
  test('cannot be removed while the status names it', async () => {
    const previous = stored(definitionWith())
    expect(await refusalsOfChange(previous, definitionWith(withVersion({ name: 'v2' })))).toEqual([
      'Invalid status.storedVersions[0]',
    ])
  })

  test('can be removed when the status no longer names it', async () => {
    const both = definitionWith(withVersion({ storage: false }), withSecond({ storage: true }))
    const previous = stored(both)
    expect(previous.status).toMatchObject({ storedVersions: ['v2'] })
    expect(await refusalsOfChange(previous, definitionWith(withVersion({ name: 'v2' })))).toEqual([])
  })
})

test('the status names a version of the spec, and one of them is the stored one', async () => {
  const previous = stored(definitionWith(), { status: { storedVersions: ['v0', 'v1'] } })
  expect(await refusalsOfChange(previous, definitionWith())).toEqual(['Invalid status.storedVersions[0]'])
})

test('places are those of the only version, or of the version', async () => {
  const broken = { subresources: { scale: {} } }
  const [alone] = await refusals(definitionWith(withVersion(broken)))
  expect(alone).toBe('Required spec.subresources.scale.specReplicasPath')
  const [second] = await refusals(definitionWith(withSecond(broken)))
  expect(second).toBe('Required spec.versions[1].subresources.scale.specReplicasPath')
})
