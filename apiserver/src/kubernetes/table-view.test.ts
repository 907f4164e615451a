import { defineModel } from '@setpoint/controller-runtime'
import { describe, expect, it } from 'vitest'
import { ServedModel } from '../model/served-model.ts'
import { TableColumns } from './table-columns.ts'
import { type IncludeObject, TableView } from './table-view.ts'

const now = Date.parse('2026-01-31T12:00:00Z')

const { hub } = new ServedModel(
  defineModel({
    group: 'demo.example.com',
    version: 'v1',
    kind: 'Gadget',
    singular: 'gadget',
    plural: 'gadgets',
    schema: { spec: { type: 'object' } },
  }),
)

function wireOf(metadata: object, content: object = {}): Buffer {
  const { apiVersion, kind } = hub
  return Buffer.from(JSON.stringify({ apiVersion, kind, metadata, ...content }))
}

const metadata = {
  name: 'a',
  version: '7',
  resourceVersion: '7',
  creationTimestamp: '2026-01-31T11:55:00.000Z',
  annotations: { quoted: 'a "}" and a \\' },
}

function viewOf(
  columns: ConstructorParameters<typeof TableColumns>[0],
  includeObject: IncludeObject = 'None',
) {
  return new TableView(hub, new TableColumns(columns), { metaVersion: 'v1', includeObject, now: () => now })
}

const parse = (bytes: Buffer) => JSON.parse(bytes.toString())

/** The cell of one column for an object with this spec. */
function cellFor(type: 'string' | 'integer' | 'number' | 'boolean' | 'date', x: unknown): unknown {
  const view = viewOf([{ name: 'X', type, jsonPath: '.spec.x' }])
  return parse(view.list.item(wireOf(metadata, { spec: { x } }))).cells[1]
}

describe('a Table', () => {
  it('of a kind without columns has name and age', () => {
    expect(parse(viewOf([]).object(wireOf(metadata)))).toEqual({
      kind: 'Table',
      apiVersion: 'meta.k8s.io/v1',
      metadata: { resourceVersion: '7' },
      columnDefinitions: [
        { name: 'Name', type: 'string', format: 'name', description: expect.any(String), priority: 0 },
        { name: 'Age', type: 'date', format: '', description: expect.any(String), priority: 0 },
      ],
      rows: [{ cells: ['a', '5m'], object: null }],
    })
  })

  it('has the declared columns instead of the age', () => {
    const view = viewOf([
      { name: 'Email', type: 'string', jsonPath: '.spec.email' },
      {
        name: 'N',
        type: 'integer',
        format: 'int32',
        jsonPath: '.spec.n',
        description: 'How many.',
        priority: 1,
      },
    ])
    const { columnDefinitions, rows } = parse(view.object(wireOf(metadata, { spec: { email: 'e', n: 3 } })))
    expect(columnDefinitions.slice(1)).toEqual([
      { name: 'Email', type: 'string', format: '', description: 'The value at .spec.email.', priority: 0 },
      { name: 'N', type: 'integer', format: 'int32', description: 'How many.', priority: 1 },
    ])
    expect(rows[0].cells).toEqual(['a', 'e', 3])
  })

  it('shows ages between other cells, as of the moment of the response', () => {
    const view = viewOf([
      { name: 'Since', type: 'date', jsonPath: '.spec.since' },
      { name: 'Word', type: 'string', jsonPath: '.spec.word' },
      { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
    ])
    const wire = wireOf(metadata, { spec: { since: '2026-01-29T11:00:00+00:00', word: '"quoted"' } })
    expect(parse(view.list.item(wire)).cells).toEqual(['a', '2d1h', '"quoted"', '5m'])
  })

  it('describes its columns in the first event of a watch only', () => {
    expect(parse(viewOf([]).event(wireOf(metadata)))).toMatchObject({
      columnDefinitions: null,
      rows: [{ cells: ['a', '5m'] }],
    })
  })

  it.each<[IncludeObject, unknown]>([
    ['None', null],
    ['Metadata', { kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1', metadata }],
    ['Object', { apiVersion: hub.apiVersion, kind: hub.kind, metadata, spec: { x: '}' } }],
  ])('with includeObject %s has rows with the object %j', (includeObject, object) => {
    const view = viewOf([], includeObject)
    expect(parse(view.list.item(wireOf(metadata, { spec: { x: '}' } }))).object).toEqual(object)
  })

  it('shows the metadata of an object whose fields are in another order', () => {
    const wire = Buffer.from(JSON.stringify({ metadata, kind: hub.kind, apiVersion: hub.apiVersion }))
    expect(parse(viewOf([], 'Metadata').list.item(wire)).object.metadata).toEqual(metadata)
  })

  it('of an object without a version, as of a dry run, has none', () => {
    expect(parse(viewOf([]).object(wireOf({ name: 'a' }))).metadata).toEqual({})
  })
})

describe('a cell', () => {
  it.each([
    ['string', 'text', 'text'],
    ['string', 7, '7'],
    ['string', true, 'true'],
    ['string', { a: [1] }, '{"a":[1]}'],
    ['integer', 7, 7],
    ['integer', 7.9, 7],
    ['integer', '7', null],
    ['number', 7.9, 7.9],
    ['number', '7', null],
    ['boolean', false, false],
    ['boolean', 'false', null],
    ['date', '2026-01-31T11:59:00Z', '60s'],
    ['date', '2026-02-01T00:00:00Z', '<invalid>'],
    ['date', '2026-01-31', '<invalid>'],
    ['date', '2026-01-31T25:00:00Z', '<invalid>'],
    ['date', '0001-01-01T00:00:00Z', '<unknown>'],
    ['date', '', '<unknown>'],
    ['date', 7, null],
    ['string', null, null],
    ['string', undefined, null],
  ] as const)('of type %s shows %j as %j', (type, value, cell) => {
    expect(cellFor(type, value)).toBe(cell)
  })
})
