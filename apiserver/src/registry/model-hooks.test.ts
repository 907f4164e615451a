import {
  type AdmitLister,
  ApiError,
  type ApiObject,
  defineModel,
  type Model,
} from '@setpoint/controller-runtime'
import { describe, expect, expectTypeOf, it } from 'vitest'
import { hold, openRooms } from '../../../test/support/rooms.ts'
import { ServedModel } from '../model/index.ts'
import { Registry } from './registry.ts'
import { defaultWriteOptions, type WriteOptions, type WriteResult } from './write-options.ts'

const declaration = {
  group: 'test.example.com',
  version: 'v1',
  kind: 'Range',
  singular: 'range',
  plural: 'ranges',
  schema: {
    spec: {
      type: 'object',
      required: ['min'],
      properties: {
        min: { type: 'integer' },
        max: { type: 'integer' },
        note: { type: 'string', maxLength: 5 },
      },
    },
    status: { type: 'object', properties: { phase: { type: 'string' }, seen: { type: 'integer' } } },
  },
  subresources: { status: true },
} as const

const options: WriteOptions = { ...defaultWriteOptions, user: { name: 'ann', groups: ['a'] } }
const parse = ({ bytes }: WriteResult): ApiObject => JSON.parse(bytes.toString())

/** A model whose hooks TypeScript would not accept. */
function untyped(hooks: { default?: unknown; validate?: unknown }): Model {
  return Reflect.apply(defineModel, undefined, [{ ...declaration, ...hooks }])
}

/** Opens a registry with the model, and functions that write the object `a`. */
async function open(model: Model) {
  const rooms = await openRooms(model)
  const { registry, served } = rooms
  const body = (spec: unknown, more: object = {}) => ({
    apiVersion: model.apiVersion,
    kind: model.kind,
    metadata: { name: 'a', ...more },
    spec,
  })
  return {
    ...rooms,
    [Symbol.asyncDispose]: () => rooms[Symbol.asyncDispose](),
    create: (spec: unknown, given: WriteOptions = options) => registry.create(served, body(spec), given),
    replace: (spec: unknown, more: object = {}) =>
      registry.replace(served, 'a', body(spec, more), 'object', options),
    merge: (document: object) => registry.patch(served, 'a', { type: 'merge', document }, 'object', options),
    mergeStatus: (status: object) =>
      registry.patch(served, 'a', { type: 'merge', document: { status } }, 'status', options),
    read: async () => (await registry.readLive(served, 'a'))?.stored.object,
  }
}

/** Returns the causes of a refused write. */
async function causesOf(write: Promise<unknown>): Promise<unknown> {
  const error = await refusalOf(write)
  expect(error.code).toBe(422)
  return error.details?.causes?.map(({ field, reason, message }) => `${field} ${reason}: ${message}`)
}

async function refusalOf(write: Promise<unknown>): Promise<ApiError> {
  const error = await write.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof ApiError)) throw new Error('the write was not refused', { cause: error })
  return error
}

const bounded = defineModel({
  ...declaration,
  default(draft, { previous, subresource }) {
    if (subresource === 'status') return
    draft.spec.max ??= previous?.spec.max ?? draft.spec.min + 10
  },
  validate({ spec: { min, max = 0 } }) {
    return max < min ? [{ field: 'spec.max', message: `must be at least ${min}` }] : []
  },
})

describe('the default hook', () => {
  it('completes objects after the defaults of the schema, and knows the stored one', async () => {
    await using ranges = await open(bounded)
    expect(parse(await ranges.create({ min: 1 })).spec).toEqual({ min: 1, max: 11 })
    expect(parse(await ranges.replace({ min: 2 })).spec).toEqual({ min: 2, max: 11 })
    expect((await ranges.read())?.spec).toEqual({ min: 2, max: 11 })
  })

  it('may replace the whole spec, and its result is ignored', async () => {
    const model = untyped({
      default(draft: { spec: object }) {
        draft.spec = { min: 7, note: undefined }
        return { spec: { min: 8 } }
      },
    })
    await using ranges = await open(model)
    expect(parse(await ranges.create({ min: 1 })).spec).toEqual({ min: 7 })
  })

  it('completes the status of a status write', async () => {
    const model = defineModel({
      ...declaration,
      default(draft, { subresource }) {
        if (subresource === 'status') draft.status = { seen: 1, ...draft.status }
      },
    })
    await using ranges = await open(model)
    expect(parse(await ranges.create({ min: 1 })).status).toBeUndefined()
    expect(parse(await ranges.mergeStatus({ phase: 'Up' })).status).toEqual({ phase: 'Up', seen: 1 })
  })

  it('makes an update without a change of its own no write', async () => {
    await using ranges = await open(bounded)
    const { version } = parse(await ranges.create({ min: 1 })).metadata
    expect(parse(await ranges.replace({ min: 1 })).metadata.version).toBe(version)
  })

  const spoil = (change: (draft: Record<string, unknown>) => unknown) => untyped({ default: change })
  it.each<[string, Model]>([
    ['changes the metadata', spoil(draft => Object.assign(Object(draft.metadata), { labels: { a: 'b' } }))],
    ['changes the kind', spoil(draft => Object.assign(draft, { kind: 'Other' }))],
    ['adds a field', spoil(draft => Object.assign(draft, { data: 1 }))],
    ['changes the status in a write to the object', spoil(draft => Object.assign(draft, { status: {} }))],
    ['throws', spoil(() => JSON.parse('{'))],
    ['returns a promise', spoil(() => Promise.reject(new Error('later')))],
    [
      'makes a value that JSON cannot hold',
      spoil(draft => Object.assign(Object(draft.spec), { min: BigInt(1) })),
    ],
  ])('that %s refuses the write with 500, and nothing is stored', async (_, model) => {
    await using ranges = await open(model)
    const refusal = await refusalOf(ranges.create({ min: 1 }))
    expect(refusal).toMatchObject({ code: 500, reason: 'InternalError' })
    expect(refusal.message).toContain('the default hook of the model Range failed')
    expect(refusal.cause).toBeInstanceOf(Error)
    expect(await ranges.read()).toBeUndefined()
  })

  it('that throws for an object that breaks the schema leaves the refusal to the schema', async () => {
    await using ranges = await open(bounded)
    expect(await causesOf(ranges.create(null))).toEqual([
      'spec FieldValueTypeInvalid: must be an object, is null',
    ])
  })
})

describe('the validate hook', () => {
  it('refuses creates and updates, with its violations as causes', async () => {
    await using ranges = await open(bounded)
    const refused = ['spec.max FieldValueInvalid: must be at least 5']
    expect(await causesOf(ranges.create({ min: 5, max: 1 }))).toEqual(refused)
    expect(await ranges.read()).toBeUndefined()
    await ranges.create({ min: 1, max: 1 })
    expect(await causesOf(ranges.replace({ min: 5, max: 1 }))).toEqual(refused)
    expect(await causesOf(ranges.merge({ spec: { min: 5 } }))).toEqual(refused)
    expect((await ranges.read())?.spec).toEqual({ min: 1, max: 1 })
  })

  it('refuses dry runs too', async () => {
    await using ranges = await open(bounded)
    expect(await causesOf(ranges.create({ min: 5, max: 1 }, { ...options, dryRun: true }))).toHaveLength(1)
  })

  it('reports its violations together with those of the schema', async () => {
    await using ranges = await open(bounded)
    expect(await causesOf(ranges.create({ min: 5, max: 1, note: 'too long' }))).toEqual([
      'spec.note FieldValueTooLong: must have at most 5 characters, has 8: "too long"',
      'spec.max FieldValueInvalid: must be at least 5',
    ])
  })

  it('receives the stored object, the user and the subresource, and a frozen object', async () => {
    const calls: unknown[] = []
    const model = defineModel({
      ...declaration,
      validate(object, { previous, user, subresource }) {
        expectTypeOf(object.spec.min).toEqualTypeOf<number>()
        expectTypeOf(previous?.status?.phase).toEqualTypeOf<string | undefined>()
        calls.push([object.spec, previous?.spec, user.name, subresource, Object.isFrozen(object.spec)])
      },
    })
    await using ranges = await open(model)
    await ranges.create({ min: 1 })
    await ranges.replace({ min: 2 })
    await ranges.mergeStatus({ phase: 'Up' })
    const distinct = [...new Set(calls.map(call => JSON.stringify(call)))]
    expect(distinct.map(call => JSON.parse(call))).toEqual([
      [{ min: 1 }, null, 'ann', null, true],
      [{ min: 2 }, { min: 1 }, 'ann', null, true],
      [{ min: 2 }, { min: 2 }, 'ann', 'status', true],
    ])
  })

  it('has reasons of its own, and at most a hundred violations are reported', async () => {
    const many = Array.from({ length: 5000 }, (_, n) => ({
      field: `spec.a${n}`,
      message: 'is forbidden',
      reason: 'FieldValueForbidden' as const,
    }))
    await using ranges = await open(defineModel({ ...declaration, validate: () => many }))
    const refusal = await refusalOf(ranges.create({ min: 1 }))
    expect(refusal.details?.causes).toHaveLength(100)
    expect(refusal.details?.causes?.[0]).toEqual(many[0])
    expect(refusal.message).toContain('more than 92 more')
  })

  it.each<[string, unknown]>([
    ['returns a promise', () => Promise.resolve([])],
    ['returns something else', () => 'no'],
    ['returns a violation without a message', () => [{ field: 'spec' }]],
    ['returns an unknown key', () => [{ field: 'spec', message: 'm', resaon: 'FieldValueRequired' }]],
    ['returns an unknown reason', () => [{ field: 'spec', message: 'x', reason: 'Bad' }]],
    [
      'changes the object',
      (object: { spec: { min: number } }) => {
        object.spec.min = 3
      },
    ],
    [
      'throws',
      () => {
        throw new Error('the secret')
      },
    ],
  ])('that %s refuses the write with 500, and nothing is stored', async (_, validate) => {
    await using ranges = await open(untyped({ validate }))
    const refusal = await refusalOf(ranges.create({ min: 1 }))
    expect(refusal.code).toBe(500)
    expect(refusal.message).toContain('the validate hook of the model Range failed')
    expect(refusal.message).not.toContain('secret')
    expect(await ranges.read()).toBeUndefined()
  })

  it('is not called for a write that only takes away finalizers, nor for a deletion', async () => {
    let strict = false
    const model = untyped({
      validate: () => (strict ? [{ field: 'spec', message: 'never again' }] : []),
      default: () => {
        if (strict) throw new Error('never again')
      },
    })
    await using ranges = await open(model)
    const { registry, served } = ranges
    const finalizers = ['test.example.com/one', 'test.example.com/two']
    await ranges.create({ min: 1 })
    await ranges.replace({ min: 1 }, { finalizers })
    strict = true
    await ranges.merge({ metadata: { finalizers: finalizers.slice(1) } })
    await registry.delete(served, 'a', {}, options)
    await ranges.merge({ metadata: { finalizers: null } })
    expect(await ranges.read()).toBeUndefined()
  })

  it('that a stored object violates does not block a write that leaves the field as it was', async () => {
    let strict = false
    const model = defineModel({
      ...declaration,
      validate: ({ spec }) =>
        strict && spec.note !== undefined ? [{ field: 'spec.note', message: 'is obsolete' }] : [],
    })
    await using ranges = await open(model)
    await ranges.create({ min: 1, note: 'old' })
    strict = true
    expect(parse(await ranges.merge({ spec: { min: 2 } })).spec).toEqual({ min: 2, note: 'old' })
    expect(parse(await ranges.mergeStatus({ phase: 'Up' })).status).toEqual({ phase: 'Up' })
    expect(await causesOf(ranges.merge({ spec: { note: 'new' } }))).toEqual([
      'spec.note FieldValueInvalid: is obsolete',
    ])
    await ranges.merge({ spec: { note: null } })
    expect(await causesOf(ranges.merge({ spec: { note: 'old' } }))).toHaveLength(1)
  })
})

it.each(['default', 'validate'])('a %s that is no function is a problem of the model', hook => {
  expect(() => untyped({ [hook]: 5 })).toThrow(`${hook} must be a function`)
})

describe('the admit hook', () => {
  const admitted = defineModel({ ...declaration, admit: () => [{ field: 'spec.min', message: 'too many' }] })
  const nothing: AdmitLister = { get: () => undefined, list: () => [] }
  const metadata = { name: 'a', finalizers: ['test.example.com/a'] }
  const body = { apiVersion: admitted.apiVersion, kind: admitted.kind, metadata, spec: { min: 1 } }

  it('runs once the caches have the writes that were acknowledged before', async () => {
    await using rooms = await openRooms(admitted)
    const { held, release } = hold()
    const served = new ServedModel(admitted, undefined, { listerOf: () => nothing })
    const registry = new Registry({
      storage: rooms.storage,
      reservedDomain: 'setpoint.dev',
      catchUp: () => held,
    })
    let isOver = false
    const write = registry.create(served, body, options).finally(() => {
      isOver = true
    })
    await Promise.all([rooms.gate.pass(), refusalOf(rooms.registry.create(rooms.served, {}, options))])
    expect(isOver).toBe(false)
    release()
    expect(await causesOf(write)).toEqual(['spec.min FieldValueInvalid: too many'])
  })

  it('never blocks the removal of finalizers, also while the caches cannot catch up', async () => {
    await using rooms = await openRooms(admitted)
    const served = new ServedModel(admitted, undefined, {
      listerOf: () => {
        throw new ApiError('ServiceUnavailable', 'not ready')
      },
    })
    const catchUp = () => Promise.reject(new Error('the store is away'))
    const registry = new Registry({ storage: rooms.storage, reservedDomain: 'setpoint.dev', catchUp })
    // This registry has no lister, so it does not run the hook.
    await rooms.registry.create(rooms.served, body, options)
    const merge = (document: object) =>
      registry.patch(served, 'a', { type: 'merge', document }, 'object', options)
    expect((await refusalOf(merge({ spec: { min: 2 } }))).code).toBe(503)
    const { bytes } = await merge({ metadata: { finalizers: [] } })
    expect(JSON.parse(bytes.toString()).metadata.finalizers).toBeUndefined()
  })
})
