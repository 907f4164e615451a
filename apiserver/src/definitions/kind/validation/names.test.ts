import { describe, expect, test } from 'vitest'
import {
  type Change,
  changed,
  definitionWith,
  refusals,
  refusalsOfChange,
  stored,
  withAnnotations,
  withNames,
  withSpec,
} from '../../../testing/test-definition.ts'

const named =
  (name: string): Change =>
  ({ metadata }) => {
    metadata.name = name
  }

test('a definition with a group, a scope and names is accepted', async () => {
  expect(await refusals(definitionWith())).toEqual([])
})

test.each<[string, Change, string[]]>([
  ['a name that is not of the plural and the group', named('x.example.com'), ['Invalid metadata.name']],
  ['no group', withSpec({ group: '' }), ['Invalid metadata.name', 'Required spec.group']],
  [
    'a group with capitals',
    withSpec({ group: 'Example.com' }),
    ['Invalid metadata.name', 'Invalid spec.group'],
  ],
  ['a group without a dot', withSpec({ group: 'example' }), ['Invalid metadata.name', 'Invalid spec.group']],
  ['no scope', withSpec({ scope: '' }), ['Required spec.scope']],
  ['an unknown scope', withSpec({ scope: 'Galaxy' }), ['NotSupported spec.scope']],
  ['no plural', withNames({ plural: '' }), ['Invalid metadata.name', 'Required spec.names.plural']],
  [
    'no kind',
    withNames({ kind: '' }),
    ['Required spec.names.kind', 'Required spec.names.listKind', 'Required spec.names.singular'],
  ],
  [
    'a plural with capitals',
    withNames({ plural: 'Widgets' }),
    ['Invalid metadata.name', 'Invalid spec.names.plural'],
  ],
  ['a singular that begins with a digit', withNames({ singular: '9x' }), ['Invalid spec.names.singular']],
  [
    'a kind with an underscore',
    withNames({ kind: 'Wid_get' }),
    ['Invalid spec.names.kind', 'Invalid spec.names.listKind', 'Invalid spec.names.singular'],
  ],
  ['a kind of lists like the kind', withNames({ listKind: 'Widget' }), ['Invalid spec.names.listKind']],
  [
    'short names and categories with capitals, each of which has its place',
    withNames({ shortNames: ['wd', 'WD'], categories: ['All', 'all'] }),
    ['Invalid spec.names.categories[0]', 'Invalid spec.names.shortNames[1]'],
  ],
])('a definition with %s is refused', async (_what, change, causes) => {
  expect(await refusals(definitionWith(change))).toEqual(causes)
})

describe('the group of a stored definition', () => {
  const established = { conditions: [{ type: 'Established', status: 'True' }] }

  test('cannot change, and neither can its plural', async () => {
    const previous = stored(definitionWith())
    expect(await refusalsOfChange(previous, definitionWith(withSpec({ group: 'other.com' })))).toEqual([
      'Invalid spec.group',
    ])
    expect(await refusalsOfChange(previous, definitionWith(withNames({ plural: 'others' })))).toEqual([
      'Invalid spec.names.plural',
    ])
  })

  test('has a scope and a kind that can change until objects are served', async () => {
    const other = definitionWith(withSpec({ scope: 'Cluster' }), withNames({ kind: 'Other' }))
    expect(await refusalsOfChange(stored(definitionWith()), other)).toEqual([])
    const served = stored(definitionWith(), { status: established })
    expect(await refusalsOfChange(served, other)).toEqual(['Invalid spec.names.kind', 'Invalid spec.scope'])
  })
})

describe('a group of the community of Kubernetes', () => {
  const ofKubernetes = (approval?: string) =>
    definitionWith(
      withSpec({ group: 'x.k8s.io' }),
      named('widgets.x.k8s.io'),
      approval === undefined ? () => {} : withAnnotations({ 'api-approved.kubernetes.io': approval }),
    )

  test.each(['https://github.com/kubernetes/enhancements/pull/1', 'unapproved', 'unapproved, an experiment'])(
    'needs an approval such as %s',
    async approval => {
      expect(await refusals(ofKubernetes(approval))).toEqual([])
    },
  )

  test('is refused without one', async () => {
    expect(await refusals(ofKubernetes())).toEqual([
      'Required metadata.annotations[api-approved.kubernetes.io]',
    ])
    expect(await refusals(ofKubernetes(''))).toEqual([
      'Required metadata.annotations[api-approved.kubernetes.io]',
    ])
  })

  test('is refused with one that is no URL', async () => {
    expect(await refusals(ofKubernetes('yes'))).toEqual([
      'Invalid metadata.annotations[api-approved.kubernetes.io]',
    ])
  })

  test('stays without one if it was stored so, and keeps one that it has', async () => {
    expect(await refusalsOfChange(stored(ofKubernetes()), ofKubernetes())).toEqual([])
    expect(await refusalsOfChange(stored(ofKubernetes('unapproved')), ofKubernetes())).toEqual([
      'Required metadata.annotations[api-approved.kubernetes.io]',
    ])
  })

  test('is one that ends in k8s.io or kubernetes.io, after a dot', async () => {
    const other = definitionWith(withSpec({ group: 'notk8s.io' }), named('widgets.notk8s.io'))
    expect(await refusals(other)).toEqual([])
  })
})

test('names in the status are checked as those in the spec', async () => {
  const previous = stored(definitionWith())
  const acceptedNames = { plural: 'Widgets', kind: 'Widget', singular: 'widget', listKind: 'WidgetList' }
  const status = { acceptedNames, conditions: [], storedVersions: ['v1'] }
  expect(await refusalsOfChange(previous, { ...definitionWith(), status }, 'status')).toEqual([
    'Invalid status.acceptedNames.plural',
  ])
  expect(changed(previous, { ...definitionWith(), status }, 'status')).toMatchObject({ status })
})
