import type { Schema } from '@setpoint/controller-runtime/api'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { compileSchemas, remainingViolations } from './schema-validator.ts'

const list = (extensions: object, items: Schema = { type: 'string' }): Schema =>
  Object.assign({ type: 'array', items } as const, extensions)
const set = (items?: Schema) => list({ 'x-kubernetes-list-type': 'set' }, items)
const mapOf = (keys: unknown, properties: Schema['properties'] = {}, required: readonly string[] = []) =>
  list(
    { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': keys },
    { type: 'object', required, properties },
  )
const ports = mapOf(
  ['port', 'protocol'],
  {
    port: { type: 'integer' },
    protocol: { type: 'string', default: 'TCP' },
    name: { type: 'string' },
  },
  ['port'],
)
const told = (spec: Schema, value: unknown) =>
  compileSchemas({ spec })
    .validate({ spec: value })
    .map(({ field, reason, message }) => `${field} ${reason}: ${message}`)

describe('an extension of Kubernetes', () => {
  it.each<[string, Schema, unknown, string[]]>([
    ['a set takes distinct items', set(), ['a', 'b'], []],
    [
      'a set refuses each duplicate at its place',
      set(),
      ['a', 'b', 'a', 'b'],
      [
        'spec[2] FieldValueDuplicate: must not be in the list twice, is also at 0: "a"',
        'spec[3] FieldValueDuplicate: must not be in the list twice, is also at 1: "b"',
      ],
    ],
    [
      'a set of atomic objects compares them whatever the order of their fields',
      set({ type: 'object', 'x-kubernetes-map-type': 'atomic' }),
      [
        { a: 1, b: [2] },
        { b: [2], a: 1 },
      ],
      ['spec[1] FieldValueDuplicate: must not be in the list twice, is also at 0: an object'],
    ],
    [
      'a map takes items that differ in one key',
      ports,
      [
        { port: 1, protocol: 'TCP' },
        { port: 1, protocol: 'UDP' },
      ],
      [],
    ],
    [
      'a map refuses items of the same keys',
      ports,
      [
        { port: 1, protocol: 'TCP' },
        { port: 1, protocol: 'TCP', name: 'b' },
      ],
      [
        'spec[1] FieldValueDuplicate: must not have the same keys as another item, the item at 0 has port 1 and protocol "TCP" too',
      ],
    ],
    [
      'a map requires its keys',
      ports,
      [{ protocol: 'TCP' }],
      ['spec[0].port FieldValueRequired: is required'],
    ],
    ['an atomic list takes duplicates', list({ 'x-kubernetes-list-type': 'atomic' }), ['a', 'a'], []],
    ['int-or-string takes an integer', { 'x-kubernetes-int-or-string': true }, 1, []],
    ['int-or-string takes a string', { 'x-kubernetes-int-or-string': true }, '50%', []],
    [
      'int-or-string refuses everything else',
      { 'x-kubernetes-int-or-string': true },
      1.5,
      ['spec FieldValueTypeInvalid: must be an integer or a string, is 1.5'],
    ],
    [
      'int-or-string takes null only if nullable',
      { 'x-kubernetes-int-or-string': true, nullable: true },
      null,
      [],
    ],
    [
      'an embedded resource has apiVersion and kind',
      { type: 'object', 'x-kubernetes-embedded-resource': true, properties: {} },
      { metadata: { labels: { a: 1 } } },
      [
        'spec.apiVersion FieldValueRequired: is required',
        'spec.kind FieldValueRequired: is required',
        'spec.metadata.labels.a FieldValueTypeInvalid: must be a string, is 1',
      ],
    ],
    [
      'the metadata of an embedded resource follows the rules of metadata',
      { type: 'object', 'x-kubernetes-embedded-resource': true, properties: {} },
      {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: {
          name: 'a/b',
          namespace: 'A',
          generation: -1,
          creationTimestamp: 'today',
          labels: { 'a b': '', 'example.com/team': 'a b', ok: 'a_b.c' },
          annotations: { 'Example.com/a': 'any text', 'a/b/c': '' },
          finalizers: ['example.com/a', 'a b'],
          ownerReferences: [{ apiVersion: 'v1', kind: 'Pod', name: '', uid: '1' }],
        },
      },
      [
        'spec.metadata.generation FieldValueInvalid: must be at least 0, is -1',
        'spec.metadata.creationTimestamp FieldValueTypeInvalid: must be in the format "date-time", is "today"',
        "spec.metadata.name FieldValueInvalid: must not be '.' or '..', and must not have '/' or '%'",
        "spec.metadata.namespace FieldValueInvalid: must consist of lowercase letters, digits and '-', and start and end with a letter or digit",
        "spec.metadata.labels[a b] FieldValueInvalid: label key name must consist of letters, digits, '-', '_' and '.', and start and end with a letter or digit",
        "spec.metadata.labels[example.com/team] FieldValueInvalid: label value must be empty or consist of letters, digits, '-', '_' and '.', and start and end with a letter or digit",
        'spec.metadata.annotations[a/b/c] FieldValueInvalid: must have a key of the form <domain>/<name>, or a name',
        'spec.metadata.finalizers[1] FieldValueInvalid: must be of the form <domain>/<name>, or a name',
        'spec.metadata.ownerReferences[0].name FieldValueInvalid: must not be empty',
      ],
    ],
    [
      'null is an absent field in the metadata of an embedded resource',
      { type: 'object', 'x-kubernetes-embedded-resource': true, properties: {} },
      { apiVersion: 'v1', kind: 'Pod', metadata: { name: null, labels: null, creationTimestamp: null } },
      [],
    ],
    [
      'an embedded resource takes any object of the API',
      {
        type: 'object',
        'x-kubernetes-embedded-resource': true,
        'x-kubernetes-preserve-unknown-fields': true,
      },
      { apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name: 'a' }, spec: { replicas: 1 } },
      [],
    ],
  ])('%s', (_, schema, value, violations) => {
    expect(told(schema, value)).toEqual(violations)
  })

  it('says which fields are unknown', () => {
    const unknown = (spec: Schema, value: object) => compileSchemas({ spec }).unknownFields({ spec: value })
    const resource: Schema = { type: 'object', 'x-kubernetes-embedded-resource': true, properties: {} }
    expect(unknown(resource, { apiVersion: 'v1', kind: 'A', metadata: {}, spec: {} })).toEqual(['spec.spec'])
    expect(unknown({ ...resource, 'x-kubernetes-preserve-unknown-fields': true }, { spec: {} })).toEqual([])
  })

  it.each<[unknown, string]>([
    [
      { 'x-kubernetes-group-version-kind': [] },
      'schema.spec.x-kubernetes-group-version-kind is not enforced',
    ],
    [{ type: 'object', 'x-kubernetes-list-type': 'set' }, 'x-kubernetes-list-type needs the type array'],
    [list({ 'x-kubernetes-list-type': 'bag' }), 'x-kubernetes-list-type must be one of atomic, set, map'],
    [
      { type: 'object', properties: { a: set({ type: 'object' }) } },
      'schema.spec.properties.a.items.x-kubernetes-map-type must be atomic for objects',
    ],
    [
      set({ type: 'array', 'x-kubernetes-list-type': 'set', items: { type: 'string' } }),
      'items.x-kubernetes-list-type must be atomic for lists',
    ],
    [set({ type: 'string', nullable: true }), 'items.nullable must not be true'],
    [list({ 'x-kubernetes-list-map-keys': ['a'] }), 'needs the x-kubernetes-list-type map'],
    [mapOf(undefined, {}), 'x-kubernetes-list-map-keys must have at least one key'],
    [mapOf([], {}), 'x-kubernetes-list-map-keys must have at least one key'],
    [mapOf(['a', 'a'], { a: { type: 'string' } }, ['a']), 'x-kubernetes-list-map-keys must be distinct'],
    [mapOf(['a'], {}), 'has "a", which is not a property of the items'],
    [mapOf(['a'], { a: { type: 'object' } }, ['a']), 'items.properties.a must be a scalar'],
    [mapOf(['a'], { a: { type: 'string' } }), 'items.properties.a must be required or have a default'],
    [mapOf(['a'], { a: { type: 'string', nullable: true } }, ['a']), 'items.properties.a.nullable'],
    [
      list({ 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['a'] }),
      'items.type must be object',
    ],
    [{ type: 'array', 'x-kubernetes-list-type': 'set' }, 'x-kubernetes-list-type set needs items'],
    [{ type: 'object', 'x-kubernetes-map-type': 'set' }, 'x-kubernetes-map-type must be atomic or granular'],
    [{ type: 'array', 'x-kubernetes-map-type': 'atomic' }, 'x-kubernetes-map-type needs the type object'],
    [{ type: 'string', 'x-kubernetes-int-or-string': true }, 'must not stand next to a type'],
    [{ 'x-kubernetes-int-or-string': 'yes' }, 'x-kubernetes-int-or-string must be true or absent'],
    [
      { type: 'array', 'x-kubernetes-preserve-unknown-fields': true },
      'x-kubernetes-preserve-unknown-fields needs the type object',
    ],
    [{ type: 'object', 'x-kubernetes-preserve-unknown-fields': false }, 'must be true or absent'],
    [{ type: 'object', 'x-kubernetes-embedded-resource': true }, 'needs properties or x-kubernetes-preserve'],
    [{ 'x-kubernetes-embedded-resource': true, properties: {} }, 'embedded-resource needs the type object'],
    [
      { anyOf: [{ properties: { a: { 'x-kubernetes-int-or-string': true } } }] },
      'schema.spec.anyOf[0].properties.a.x-kubernetes-int-or-string must not stand inside allOf, anyOf, oneOf or not',
    ],
  ])('%j stops the plugin, and the message has the place', (spec, message) => {
    expect(() => Reflect.apply(compileSchemas, undefined, [{ spec }])).toThrow(
      expect.objectContaining({ name: 'ModelError', message: expect.stringContaining(message) }),
    )
  })
})

describe('the duplicates of a list', () => {
  const scalar = fc.oneof(fc.constantFrom('a', 'b', '1'), fc.nat(2), fc.boolean(), fc.constant('__proto__'))
  const untyped = set({})
  const keyed = mapOf(['a', 'b'], { a: { 'x-kubernetes-int-or-string': true }, b: { type: 'string' } }, [
    'a',
    'b',
  ])

  it('are the items that a set has already', () => {
    fc.assert(
      fc.property(fc.array(scalar), items => {
        const duplicates = items.flatMap((item, index) =>
          items.indexOf(item) < index ? [`spec[${index}]`] : [],
        )
        expect(
          compileSchemas({ spec: untyped })
            .validate({ spec: items })
            .map(violation => violation.field),
        ).toEqual(duplicates)
      }),
    )
  })

  it('are the items whose keys a map has already', () => {
    const item = fc.record({
      a: fc.oneof(fc.nat(1), fc.constantFrom('0', '1', '0,0')),
      b: fc.constantFrom('', '0', ',0'),
      c: fc.nat(),
    })
    fc.assert(
      fc.property(fc.array(item), items => {
        const duplicates = items.flatMap((next, index) =>
          items.slice(0, index).some(({ a, b }) => a === next.a && b === next.b) ? [`spec[${index}]`] : [],
        )
        expect(
          compileSchemas({ spec: keyed })
            .validate({ spec: items })
            .map(violation => violation.field),
        ).toEqual(duplicates)
      }),
    )
  })

  it('that are stored do not block a write that adds none', () => {
    const schemas = compileSchemas({ spec: set() })
    const remaining = (before: string[], after: string[]) =>
      remainingViolations(
        schemas.validate({ spec: after }),
        schemas.validate({ spec: before }),
        { spec: after },
        { spec: before },
      ).map(({ field }) => field)
    expect(remaining(['a', 'a'], ['a', 'a', 'b'])).toEqual([])
    expect(remaining(['a', 'a'], ['b', 'a', 'a'])).toEqual([])
    expect(remaining(['a', 'a'], ['a', 'a', 'a'])).toEqual(['spec[2]'])
    expect(remaining(['a', 'a'], ['a', 'a', 'b', 'b'])).toEqual(['spec[3]'])
  })
})
