import { describe, expectTypeOf, test } from 'vitest'
import type { DesiredObject, MergePatch, NewObjectOf, Patch } from '../client/bodies.ts'
import type { Draft } from '../client/draft.ts'
import { type Condition, conditionsSchema } from '../conditions.ts'
import type { DeepReadonly } from './deep-readonly.ts'
import { defineModel, type ObjectOf } from './model.ts'
import type { FromSchema, Schema } from './schema.ts'

/** Checked by the compiler (`tsc -p test`). */

type Of<S> = FromSchema<S>

const Site = defineModel({
  group: 'demo.example.com',
  version: 'v1',
  kind: 'Site',
  singular: 'site',
  plural: 'sites',
  schema: {
    spec: {
      type: 'object',
      required: ['url', 'routes'],
      properties: {
        url: { type: 'string', format: 'uri' },
        method: { type: 'string', enum: ['GET', 'HEAD'] },
        retries: { type: 'integer', default: 3 },
        note: { type: 'string', nullable: true },
        routes: {
          type: 'array',
          items: {
            type: 'object',
            required: ['path'],
            properties: { path: { type: 'string' }, port: { 'x-kubernetes-int-or-string': true } },
          },
        },
        headers: { type: 'object', additionalProperties: { type: 'string' } },
        limits: {
          type: 'object',
          required: ['cpu'],
          properties: { cpu: { type: 'number' }, memory: { type: 'number' } },
        },
      },
    },
    status: { type: 'object', properties: { ready: { type: 'boolean' }, conditions: conditionsSchema } },
  },
  subresources: { status: true },
})
type SiteObject = ObjectOf<typeof Site>

const Parted = defineModel({
  group: 'demo.example.com',
  version: 'v1',
  kind: 'Parted',
  singular: 'parted',
  plural: 'parteds',
  schema: {
    spec: {
      type: 'object',
      required: ['parts'],
      properties: {
        parts: {
          type: 'array',
          items: { type: 'object', properties: { n: { type: 'integer', default: 0 } } },
        },
      },
    },
    status: { type: 'object', properties: { seen: { type: 'integer', default: 0 } } },
  },
})
type PartedObject = ObjectOf<typeof Parted>

interface SiteSpec {
  url: string
  routes: { path: string; port?: string | number }[]
  method?: 'GET' | 'HEAD'
  retries: number
  note?: string | null
  headers?: Record<string, string>
  limits?: { cpu: number; memory?: number }
}

describe('the type of an object', () => {
  test('follows from the schema: nested, required and optional fields', () => {
    expectTypeOf<SiteObject['spec']>().toEqualTypeOf<SiteSpec>()
    expectTypeOf<NonNullable<SiteObject['status']>>().toEqualTypeOf<{
      ready?: boolean
      conditions?: Condition[]
    }>()
    expectTypeOf<SiteObject['spec']>().not.toHaveProperty('uri')
  })

  test('of a model without a status schema has any status', () => {
    const Plain = defineModel({
      group: 'demo.example.com',
      version: 'v1',
      kind: 'Plain',
      singular: 'plain',
      plural: 'plains',
      schema: { spec: { type: 'object' } },
    })
    expectTypeOf<ObjectOf<typeof Plain>['spec']>().toEqualTypeOf<Record<string, unknown>>()
    expectTypeOf<ObjectOf<typeof Plain>['status']>().toEqualTypeOf<Record<string, unknown> | undefined>()
  })
})

describe('single schemas', () => {
  test('of values', () => {
    expectTypeOf<Of<{ type: 'string' }>>().toEqualTypeOf<string>()
    expectTypeOf<Of<{ type: 'integer' }>>().toEqualTypeOf<number>()
    expectTypeOf<Of<{ type: 'boolean'; nullable: true }>>().toEqualTypeOf<boolean | null>()
    expectTypeOf<Of<{ type: 'boolean'; nullable: false }>>().toEqualTypeOf<boolean>()
    expectTypeOf<Of<{ type: 'string'; enum: readonly ['a', 'b'] }>>().toEqualTypeOf<'a' | 'b'>()
    expectTypeOf<Of<{ type: 'string'; nullable: true; enum: readonly ['a', null] }>>().toEqualTypeOf<
      'a' | null
    >()
    expectTypeOf<Of<{ enum: readonly [1, 'two', true] }>>().toEqualTypeOf<1 | 'two' | true>()
  })

  test('of arrays', () => {
    expectTypeOf<Of<{ type: 'array' }>>().toEqualTypeOf<unknown[]>()
    expectTypeOf<Of<{ type: 'array'; items: { type: 'string'; nullable: true } }>>().toEqualTypeOf<
      (string | null)[]
    >()
    expectTypeOf<Of<{ type: 'array'; items: { type: 'array'; items: { type: 'number' } } }>>().toEqualTypeOf<
      number[][]
    >()
  })

  test('of maps, closed objects and objects with additional properties', () => {
    expectTypeOf<Of<{ type: 'object' }>>().toEqualTypeOf<Record<string, unknown>>()
    expectTypeOf<Of<{ type: 'object'; additionalProperties: true }>>().toEqualTypeOf<
      Record<string, unknown>
    >()
    expectTypeOf<Of<{ type: 'object'; additionalProperties: false }>>().toEqualTypeOf<Record<string, never>>()
    expectTypeOf<
      Of<{ type: 'object'; additionalProperties: { type: 'array'; items: { type: 'integer' } } }>
    >().toEqualTypeOf<Record<string, number[]>>()
    type Closed = Of<{ type: 'object'; properties: { a: { type: 'string' } }; additionalProperties: false }>
    expectTypeOf<Closed>().toEqualTypeOf<{ a?: string }>()
    type Open = Of<{
      type: 'object'
      required: readonly ['a']
      properties: { a: { type: 'string' } }
      additionalProperties: { type: 'integer' }
    }>
    expectTypeOf<Open['a']>().toEqualTypeOf<string>()
    expectTypeOf<Open['other']>().toEqualTypeOf<unknown>()
  })

  test('of alternatives and of an integer or string', () => {
    expectTypeOf<Of<{ 'x-kubernetes-int-or-string': true }>>().toEqualTypeOf<number | string>()
    expectTypeOf<Of<{ anyOf: readonly [{ type: 'integer' }, { type: 'string' }] }>>().toEqualTypeOf<
      number | string
    >()
    expectTypeOf<
      Of<{ oneOf: readonly [{ type: 'boolean' }, { type: 'string'; enum: readonly ['auto'] }] }>
    >().toEqualTypeOf<boolean | 'auto'>()
    type Both = Of<{
      allOf: readonly [
        { type: 'object'; required: readonly ['a']; properties: { a: { type: 'string' } } },
        { type: 'object'; properties: { b: { type: 'integer' } } },
      ]
    }>
    expectTypeOf<Both>().toExtend<{ a: string; b?: number }>()
    // Next to a type they only narrow: that either field is required cannot be expressed.
    type Narrowed = Of<{
      type: 'object'
      properties: { a: { type: 'string' }; b: { type: 'string' } }
      anyOf: readonly [{ required: readonly ['a'] }, { required: readonly ['b'] }]
    }>
    expectTypeOf<Narrowed>().toEqualTypeOf<{ a?: string; b?: string }>()
  })

  test('without a type, or known only at run time, are unknown', () => {
    expectTypeOf<Of<{ description: 'whatever' }>>().toEqualTypeOf<unknown>()
    expectTypeOf<Of<Schema>>().toEqualTypeOf<unknown>()
    expectTypeOf<Of<{ properties: { a: { type: 'string' } } }>>().toEqualTypeOf<{ a?: string }>()
  })
})

describe('a field with a default', () => {
  type S = {
    type: 'object'
    required: readonly ['a', 'b', 'parts']
    properties: {
      a: { type: 'string'; default: 'x' }
      b: { type: 'string' }
      c: { type: 'integer'; default: 1 }
      d: { type: 'integer' }
      e: { type: 'string'; nullable: true; default: null }
      parts: { type: 'array'; items: { type: 'object'; properties: { n: { type: 'integer'; default: 0 } } } }
      nested: { type: 'object'; properties: { n: { type: 'integer'; default: 0 } } }
    }
  }

  test('is there for a reader, at any depth', () => {
    expectTypeOf<Of<S>>().toEqualTypeOf<{
      a: string
      b: string
      c: number
      d?: number
      e: string | null
      parts: { n: number }[]
      nested?: { n: number }
    }>()
  })

  test('may be omitted by a writer, even if it is required', () => {
    expectTypeOf<FromSchema<S, 'write'>>().toEqualTypeOf<{
      a?: string
      b: string
      c?: number
      d?: number
      e?: string | null
      parts: { n?: number }[]
      nested?: { n?: number }
    }>()
  })

  test('within anyOf and oneOf is optional, since its default has no effect there', () => {
    type Part = { type: 'object'; properties: { n: { type: 'integer'; default: 0 } } }
    expectTypeOf<Of<{ anyOf: readonly [Part] }>>().toEqualTypeOf<{ n?: number }>()
    expectTypeOf<Of<{ allOf: readonly [Part] }>>().toEqualTypeOf<{ n: number }>()
  })

  test('cannot be told from others if the schema is known only at run time', () => {
    expectTypeOf<Of<{ type: 'object'; properties: { a: Schema } }>>().toEqualTypeOf<{ a?: unknown }>()
  })
})

describe('types for writing', () => {
  test('a new object needs the required fields, and none that the server sets', () => {
    expectTypeOf<{ metadata: { name: string }; spec: { url: string; routes: [] } }>().toExtend<
      NewObjectOf<SiteObject>
    >()
    // A stored object can be sent back.
    expectTypeOf<SiteObject>().toExtend<NewObjectOf<SiteObject>>()
    expectTypeOf<NewObjectOf<SiteObject>['spec']['retries']>().toEqualTypeOf<number | undefined>()
    expectTypeOf<{ metadata: object; spec: { url: string } }>().not.toExtend<NewObjectOf<SiteObject>>()
    expectTypeOf<{ metadata: object; spec: { url: number; routes: [] } }>().not.toExtend<
      NewObjectOf<SiteObject>
    >()
  })

  test('a merge patch may have any part, null removes, arrays are replaced', () => {
    type SpecPatch = NonNullable<MergePatch<SiteObject>['spec']>
    expectTypeOf<SpecPatch['url']>().toEqualTypeOf<string | null | undefined>()
    expectTypeOf<SpecPatch['method']>().toEqualTypeOf<'GET' | 'HEAD' | null | undefined>()
    expectTypeOf<SpecPatch['routes']>().toEqualTypeOf<DeepReadonly<SiteSpec['routes']> | null | undefined>()
    expectTypeOf<NonNullable<SpecPatch['limits']>['cpu']>().toEqualTypeOf<number | null | undefined>()
    expectTypeOf<NonNullable<SpecPatch['headers']>>().toEqualTypeOf<{
      readonly [x: string]: string | null | undefined
    }>()
    expectTypeOf<SpecPatch>().not.toHaveProperty('uri')
  })

  test('items with defaults may be incomplete in whatever a writer sends', () => {
    expectTypeOf<{ spec: { parts: [{ n: 1 }, object] } }>().toExtend<Patch<PartedObject>>()
    expectTypeOf<NonNullable<DesiredObject<PartedObject>['spec']>>().toEqualTypeOf<{
      readonly parts?: readonly { readonly n?: number }[]
    }>()
    expectTypeOf<NonNullable<NewObjectOf<PartedObject>['status']>>().toEqualTypeOf<{
      readonly seen?: number
    }>()
    expectTypeOf<NonNullable<PartedObject['status']>>().toEqualTypeOf<{ seen: number }>()
  })

  test('a draft is writable except server-managed fields and the status; its spec is partial', () => {
    type SiteDraft = Draft<SiteObject>
    expectTypeOf<SiteDraft['spec']>().toEqualTypeOf<Partial<SiteSpec>>()
    expectTypeOf<Draft<PartedObject>['spec']['parts']>().toEqualTypeOf<{ n?: number }[] | undefined>()
    expectTypeOf<Pick<SiteDraft['metadata'], 'labels'>>().toEqualTypeOf<{ labels?: Record<string, string> }>()
    expectTypeOf<Pick<SiteDraft['metadata'], 'uid'>>().toEqualTypeOf<{ readonly uid?: string }>()
    expectTypeOf<Pick<SiteDraft, 'apiVersion'>>().toEqualTypeOf<{ readonly apiVersion: string }>()
    expectTypeOf<NonNullable<SiteDraft['status']>>().toEqualTypeOf<
      Readonly<NonNullable<SiteObject['status']>>
    >()
  })

  test('apply accepts any part except null', () => {
    type Desired = DesiredObject<SiteObject>
    expectTypeOf<{ metadata: { name: string }; spec: { limits: { memory: number } } }>().toExtend<Desired>()
    expectTypeOf<{ metadata: { name: string }; spec: { url: null } }>().not.toExtend<Desired>()
    expectTypeOf<{ metadata: { name: string }; spec: { note: null } }>().toExtend<Desired>()
    expectTypeOf<{ metadata: { name: string }; status: { unknown: 1 } }>().not.toExtend<Desired>()
  })
})

test('objects that keep unknown fields, and embedded resources, have the types of these', () => {
  type Kept = FromSchema<{
    type: 'object'
    properties: { a: { type: 'string' } }
    'x-kubernetes-preserve-unknown-fields': true
  }>
  expectTypeOf<Kept['a']>().toEqualTypeOf<string | undefined>()
  expectTypeOf<Kept['other']>().toEqualTypeOf<unknown>()
  type Template = FromSchema<{
    type: 'object'
    'x-kubernetes-embedded-resource': true
    required: ['spec']
    properties: { spec: { type: 'object'; properties: { n: { type: 'integer' } } } }
  }>
  expectTypeOf<Template['kind']>().toEqualTypeOf<string>()
  expectTypeOf<Template['spec']>().toEqualTypeOf<{ n?: number }>()
  expectTypeOf<NonNullable<Template['metadata']>['labels']>().toEqualTypeOf<
    Record<string, string> | undefined
  >()
})
