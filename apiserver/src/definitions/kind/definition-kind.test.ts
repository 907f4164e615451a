import { describe, expect, test } from 'vitest'
import {
  changed,
  definitionWith,
  stored,
  withField,
  withNames,
  withSecond,
  withSpec,
  withVersion,
} from '../../testing/test-definition.ts'
import { definitionKind } from './definition-kind.ts'

const kind = definitionKind()

describe('a new definition', () => {
  test('has the names that Kubernetes makes of the kind', () => {
    expect(stored(definitionWith()).spec).toMatchObject({
      names: { singular: 'widget', listKind: 'WidgetList', plural: 'widgets', kind: 'Widget' },
      conversion: { strategy: 'None' },
    })
  })

  test('keeps the names that it has', () => {
    const { spec } = stored(definitionWith(withNames({ singular: 'gadget', listKind: 'Gadgets' })))
    expect(spec).toMatchObject({ names: { singular: 'gadget', listKind: 'Gadgets' } })
  })

  test('has the port 443 for a webhook of a service', () => {
    const webhook = { clientConfig: { service: { name: 'a', namespace: 'b' } } }
    const { spec } = stored(definitionWith(withSpec({ conversion: { strategy: 'Webhook', webhook } })))
    expect(spec).toMatchObject({ conversion: { webhook: { clientConfig: { service: { port: 443 } } } } })
  })

  test('has no status but the version that objects are stored in', () => {
    const sent = definitionWith(withSecond(), definition => {
      definition.status = { storedVersions: ['v7'], conditions: [{ type: 'Established', status: 'True' }] }
    })
    expect(stored(sent).status).toEqual({
      storedVersions: ['v1'],
      acceptedNames: { plural: '', kind: '' },
    })
  })
})

describe('a changed definition', () => {
  const status = { storedVersions: ['v1'], conditions: [{ type: 'Established', status: 'True' }] }

  test('keeps its status, and adds a new version that objects are stored in', () => {
    const previous = stored(definitionWith(), { status })
    const next = definitionWith(withVersion({ storage: false }), withSecond({ storage: true }))
    expect(changed(previous, next).status).toMatchObject({ ...status, storedVersions: ['v1', 'v2'] })
    expect(changed(previous, definitionWith()).status).toMatchObject(status)
  })

  test('has a status of its own, where a version can be removed', () => {
    const both = definitionWith(withSecond())
    const previous = stored(both, { status: { ...status, storedVersions: ['v1', 'v2'] } })
    const next = changed(previous, { ...both, status }, 'status')
    expect(next.status).toMatchObject({ storedVersions: ['v1'] })
    expect(next.spec).toEqual(previous.spec)
  })
})

describe('fields that Kubernetes does not have', () => {
  const subject = (version: object) =>
    Object.assign(definitionWith(withVersion({ ...version })), { apiVersion: 'x', kind: 'y' })
  const schema = { openAPIV3Schema: { type: 'object', maximal: 3, properties: { a: { typ: 'string' } } } }

  test('are removed at any depth, also from schemas', () => {
    const [version] = Object(stored(definitionWith(withVersion({ schema, servd: true }))).spec).versions
    expect(version).not.toHaveProperty('servd')
    expect(version.schema).toEqual({ openAPIV3Schema: { type: 'object', properties: { a: {} } } })
  })

  test('are named for warnings', () => {
    expect(kind.schemas.unknownFields(Object(subject({ schema, servd: true })))).toEqual([
      'spec.versions[0].schema.openAPIV3Schema.maximal',
      'spec.versions[0].schema.openAPIV3Schema.properties.a.typ',
      'spec.versions[0].servd',
    ])
  })

  test('are kept in values: defaults, examples and lists of allowed ones', () => {
    const field = { type: 'object', default: { x: 1 }, example: { y: 2 }, enum: [{ z: 3 }] }
    const [version] = Object(stored(definitionWith(withField(field))).spec).versions
    expect(version.schema.openAPIV3Schema.properties.spec.properties.field).toEqual(field)
  })
})

test('fields with the value that Go has for an absent one are written as Go writes them', () => {
  const column = { name: 'A', type: 'string', jsonPath: '.a', priority: 0, description: '' }
  const sent = definitionWith(
    withSpec({ preserveUnknownFields: false }),
    withVersion({ served: undefined, deprecated: false, additionalPrinterColumns: [column] }),
  )
  const { spec } = stored(sent)
  expect(spec).not.toHaveProperty('preserveUnknownFields')
  const [version] = Object(spec).versions
  expect(version).toMatchObject({ served: false })
  expect(version).not.toHaveProperty('deprecated')
  expect(version.additionalPrinterColumns).toEqual([{ name: 'A', type: 'string', jsonPath: '.a' }])
})

describe('a format that is not checked', () => {
  const withFormat = (format: string, type = 'string') => stored(definitionWith(withField({ type, format })))
  const warnings = (...args: Parameters<NonNullable<NonNullable<typeof kind.rules>['warningsOf']>>) =>
    kind.rules?.warningsOf?.(...args)

  test('gets a warning, once for each format', () => {
    const items = { type: 'string', format: 'colour' }
    const properties = { a: items, b: { type: 'array', items }, c: { type: 'string', format: 'shape' } }
    const definition = stored(definitionWith(withField({ type: 'object', properties })))
    expect(warnings(definition, undefined, 'object')).toEqual([
      'unrecognized format "colour"',
      'unrecognized format "shape"',
    ])
  })

  test('gets none if it is stored, is known or is of numbers', () => {
    expect(warnings(withFormat('colour'), withFormat('colour'), 'object')).toEqual([])
    expect(warnings(withFormat('date-time'), undefined, 'object')).toEqual([])
    expect(warnings(withFormat('huge', 'integer'), undefined, 'object')).toEqual([])
  })

  test('gets none in a write of the status', () => {
    expect(warnings(withFormat('colour'), undefined, 'status')).toEqual([])
  })
})
