import { ApiError, type ApiObject, type ModelSchema } from '@setpoint/controller-runtime/api'
import { describe, expect, it } from 'vitest'
import { openRooms, testModel } from '../../../test/support/rooms.ts'
import { loadRules, ServedModel } from '../model/index.ts'
import { defaultWriteOptions as options, type WriteResult } from './write-options.ts'

const limits: ModelSchema = {
  spec: {
    type: 'object',
    required: ['n'],
    properties: {
      n: { type: 'integer', minimum: 0 },
      max: { type: 'integer', default: 10 },
      serial: {
        type: 'integer',
        'x-kubernetes-validations': [{ rule: 'self > oldSelf', message: 'must rise' }],
      },
      owner: {
        type: 'string',
        'x-kubernetes-validations': [{ rule: 'self == oldSelf', message: 'is immutable' }],
      },
      tags: {
        type: 'array',
        items: {
          type: 'string',
          'x-kubernetes-validations': [{ rule: '!self.startsWith("x-")', message: 'is reserved' }],
        },
      },
    },
    'x-kubernetes-validations': [
      { rule: 'self.n <= self.max', message: 'n must not exceed max', fieldPath: '.n' },
    ],
  },
  status: { type: 'object', properties: { phase: { type: 'string' } } },
}
/** The same kind before it had rules. */
const lax: ModelSchema = {
  spec: { type: 'object', properties: { max: { type: 'integer', default: 10 } } },
}

/** Opens a registry whose object `a` was stored before the kind had rules. */
async function open(stored: object, metadata: object = {}) {
  const rooms = await openRooms({ ...testModel, indexes: [], schema: limits })
  const { registry, served } = rooms
  const before = new ServedModel({ ...testModel, indexes: [], schema: lax })
  const body = (spec: unknown, more: object = {}) => ({
    apiVersion: testModel.apiVersion,
    kind: testModel.kind,
    metadata: { name: 'a', ...more },
    spec,
  })
  await registry.create(before, body(stored, metadata), options)
  return {
    [Symbol.asyncDispose]: () => rooms[Symbol.asyncDispose](),
    create: (spec: unknown) => registry.create(served, body(spec, { name: 'b' }), options),
    merge: (document: object) => registry.patch(served, 'a', { type: 'merge', document }, 'object', options),
    mergeStatus: (document: object) =>
      registry.patch(served, 'a', { type: 'merge', document }, 'status', options),
    delete: () => registry.delete(served, 'a', {}, options),
    exists: async () => (await registry.readLive(served, 'a')) !== undefined,
  }
}

const specOf = ({ bytes }: WriteResult): unknown => {
  const object: ApiObject = JSON.parse(bytes.toString())
  return object.spec
}

async function causesOf(write: Promise<unknown>): Promise<unknown> {
  const error = await write.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof ApiError)) throw new Error('the write was not refused', { cause: error })
  expect(error.code).toBe(422)
  return error.details?.causes?.map(({ field, message }) => `${field}: ${message}`)
}

describe('a rule', () => {
  it('refuses creates and updates after the defaults, with all violations at once', async () => {
    await using things = await open({ n: 1, owner: 'ann' })
    expect(await causesOf(things.create({ n: 11, tags: ['x-a', 'y', 'x-b'] }))).toEqual([
      'spec.n: n must not exceed max',
      'spec.tags[0]: is reserved',
      'spec.tags[2]: is reserved',
    ])
    expect(await causesOf(things.merge({ spec: { n: 11, owner: 'bob' } }))).toEqual([
      'spec.n: n must not exceed max',
      'spec.owner: is immutable',
    ])
    expect(specOf(await things.create({ n: 10 }))).toEqual({ n: 10, max: 10 })
  })

  it('is reported with the violations of the schema that leave the types alone', async () => {
    await using things = await open({})
    expect(await causesOf(things.create({ n: -1, max: -2 }))).toEqual([
      'spec.n: must be at least 0, is -1',
      'spec.n: n must not exceed max',
    ])
  })

  it('is not evaluated on values of other types, which the response says', async () => {
    await using things = await open({})
    expect(await causesOf(things.create({ n: '1', tags: ['x-a'] }))).toEqual([
      'spec.n: must be an integer, is "1"',
      ': some validation rules were not checked because the object was invalid; correct the existing errors to complete validation',
    ])
  })
})

describe('a violation of a rule that was stored before', () => {
  it('does not block a write that leaves its value as it was', async () => {
    await using things = await open({ n: 1, tags: ['x-old', 'b'] })
    expect(specOf(await things.merge({ spec: { n: 2 } }))).toEqual({ n: 2, max: 10, tags: ['x-old', 'b'] })
    await things.mergeStatus({ status: { phase: 'Up' } })
    // The item has moved.
    await things.merge({ spec: { tags: ['a', 'x-old'] } })
    expect(await causesOf(things.merge({ spec: { tags: ['x-new', 'x-old'] } }))).toEqual([
      'spec.tags[0]: is reserved',
    ])
    await things.merge({ spec: { tags: ['a'] } })
    expect(await causesOf(things.merge({ spec: { tags: ['x-old'] } }))).toHaveLength(1)
  })

  it('blocks a write that changes its value to another invalid one', async () => {
    await using things = await open({ n: 20 })
    await things.merge({ metadata: { annotations: { a: 'b' } } })
    expect(await causesOf(things.merge({ spec: { n: 21 } }))).toEqual(['spec.n: n must not exceed max'])
    expect(specOf(await things.merge({ spec: { n: 9 } }))).toEqual({ n: 9, max: 10 })
  })

  it('does not excuse a violation of a transition rule', async () => {
    await using things = await open({ n: 20, owner: 'ann' })
    expect(await causesOf(things.merge({ spec: { owner: 'bob' } }))).toEqual([
      'spec.n: n must not exceed max',
      'spec.owner: is immutable',
    ])
  })

  it('does not excuse a value that a transition rule refuses to leave as it was', async () => {
    await using things = await open({ n: 1, serial: 1 })
    expect(await causesOf(things.merge({ spec: { n: 2 } }))).toEqual(['spec.serial: must rise'])
    expect(specOf(await things.merge({ spec: { n: 2, serial: 2 } }))).toEqual({ n: 2, serial: 2, max: 10 })
  })

  it('blocks neither a deletion nor the removal of finalizers', async () => {
    await using things = await open({ n: 20, tags: ['x-a'] }, { finalizers: ['test.example.com/a'] })
    await things.delete()
    expect(await things.exists()).toBe(true)
    await things.merge({ metadata: { finalizers: null } })
    expect(await things.exists()).toBe(false)
  })
})

it('kinds without rules load nothing for them', () => {
  expect(loadRules([testModel, { schema: lax }])).toBeUndefined()
  expect(new ServedModel(testModel).schemas.rules).toBeUndefined()
})
