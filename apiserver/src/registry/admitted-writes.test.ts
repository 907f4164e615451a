import { ApiError, type ApiObject, defineModel, isRecord } from '@setpoint/controller-runtime/api'
import { expect, test } from 'vitest'
import { openRooms, type Rooms } from '../../../test/support/rooms.ts'
import type { Admission, AdmissionRequest } from './admission.ts'
import { deleteAll } from './delete-all.ts'
import { Registry } from './registry.ts'
import type { AdmittedObject } from './subresource-form.ts'
import { defaultWriteOptions, serverUser, serviceWriteOptions, type WriteResult } from './write-options.ts'

const model = defineModel({
  group: 'test.example.com',
  version: 'v1',
  kind: 'Cup',
  singular: 'cup',
  plural: 'cups',
  schema: {
    spec: {
      type: 'object',
      required: ['color'],
      properties: { color: { type: 'string' }, size: { type: 'string', default: 'small' } },
    },
    status: { type: 'object', properties: { phase: { type: 'string' } } },
  },
  subresources: { status: true },
})

const options = { ...defaultWriteOptions, user: { name: 'ann', groups: [] } }
const parse = ({ bytes }: WriteResult): ApiObject => JSON.parse(bytes.toString())
const cup = (spec: object, metadata: object = {}) => ({
  apiVersion: model.apiVersion,
  kind: model.kind,
  metadata: { name: 'a', ...metadata },
  spec,
})

interface Asked {
  readonly step: 'mutate' | 'validate'
  readonly request: AdmissionRequest
  readonly object: AdmittedObject | undefined
  readonly from: { readonly object: { readonly metadata: object; readonly spec?: unknown } } | undefined
}

/** An admission that notes what it is asked, with a step of the test's own. */
interface TestAdmission extends Admission {
  isActive: boolean
  readonly asked: Asked[]
  readonly words: () => string[]
  onMutate: (object: AdmittedObject | undefined) => AdmittedObject | undefined | Promise<AdmittedObject>
  onValidate: (object: AdmittedObject | undefined) => void
}

function testAdmission(): TestAdmission {
  const asked: Asked[] = []
  return {
    isActive: true,
    asked,
    words: () => asked.map(({ step, request }) => `${request.operation} ${request.scope} ${step}`),
    onMutate: object => object,
    onValidate: () => {},
    begin(request) {
      return {
        mutate: async (object, from) => {
          asked.push({ step: 'mutate', request, object, from })
          return this.onMutate(object)
        },
        validate: async (object, from) => {
          asked.push({ step: 'validate', request, object, from })
          this.onValidate(object)
        },
      }
    },
  }
}

interface World extends AsyncDisposable {
  readonly rooms: Rooms
  readonly admission: TestAdmission
  readonly registry: Registry
  /** Another server, without any configuration. */
  readonly other: Registry
}

async function openWorld(): Promise<World> {
  const rooms = await openRooms(model)
  const { storage, follower } = rooms
  const admission = testAdmission()
  return {
    rooms,
    admission,
    registry: new Registry({
      storage,
      reservedDomain: 'setpoint.dev',
      cached: (kind, key) => follower.entryOf(kind, key),
      admission,
    }),
    other: rooms.registry,
    [Symbol.asyncDispose]: () => rooms[Symbol.asyncDispose](),
  }
}

/** Changes fields of the spec. */
const withSpec = (object: AdmittedObject | undefined, spec: object) =>
  object && { ...object, spec: { ...(isRecord(object.spec) ? object.spec : {}), ...spec } }

const denial = new ApiError('Forbidden', 'denied')
const deny = () => {
  throw denial
}

test('a new object is stored as webhooks have changed it, and validated and asked about after that', async () => {
  await using world = await openWorld()
  const { registry, admission, rooms } = world
  admission.onMutate = object => withSpec(object, { color: 'red' })
  const created = parse(await registry.create(rooms.served, cup({}, { labels: { a: 'b' } }), options))
  expect(created.spec).toEqual({ color: 'red', size: 'small' })
  const [mutate, validate] = admission.asked
  expect(mutate?.object).toEqual(cup({ size: 'small' }, { labels: { a: 'b' } }))
  expect(validate?.object).toMatchObject({ metadata: { uid: created.metadata.uid }, spec: { color: 'red' } })
  admission.onMutate = object => withSpec(object, { color: 1 })
  const write = registry.create(rooms.served, cup({}, { name: 'b' }), options)
  await expect(write).rejects.toMatchObject({ code: 422 })
  expect(admission.words().at(-1)).toBe('CREATE object mutate')
})

test('what is denied is not stored', async () => {
  await using world = await openWorld()
  const { registry, admission, rooms, other } = world
  admission.onValidate = deny
  await expect(registry.create(rooms.served, cup({ color: 'red' }), options)).rejects.toBe(denial)
  await other.create(rooms.served, cup({ color: 'red' }), options)
  const blue = { type: 'merge', document: { spec: { color: 'blue' } } } as const
  await expect(registry.patch(rooms.served, 'a', blue, 'object', options)).rejects.toBe(denial)
  await expect(registry.delete(rooms.served, 'a', {}, options)).rejects.toBe(denial)
  const stored = await other.readLive(rooms.served, 'a')
  expect(stored?.stored.object).toMatchObject({ spec: { color: 'red' } })
  expect(stored?.stored.object.metadata.deletionTimestamp).toBeUndefined()
})

test('an update is asked about with the object before it, in its own part', async () => {
  await using world = await openWorld()
  const { registry, admission, rooms, other } = world
  await other.create(rooms.served, cup({ color: 'red' }), options)
  admission.onMutate = object => withSpec(object, { size: 'large' })
  const put = await registry.replace(rooms.served, 'a', cup({ color: 'blue' }), 'object', options)
  expect(parse(put).spec).toEqual({ color: 'blue', size: 'large' })
  const status = { type: 'merge', document: { status: { phase: 'Full' } } } as const
  const patched = parse(await registry.patch(rooms.served, 'a', status, 'status', options))
  expect(patched).toMatchObject({ spec: { color: 'blue' }, status: { phase: 'Full' } })
  expect(admission.words()).toEqual([
    'UPDATE object mutate',
    'UPDATE object validate',
    'UPDATE status mutate',
    'UPDATE status validate',
  ])
  expect(admission.asked[0]?.from?.object.spec).toEqual({ color: 'red', size: 'small' })
  expect(admission.asked[3]?.object).toMatchObject({ status: { phase: 'Full' } })
})

test('an update that changes nothing is asked about, as in Kubernetes', async () => {
  await using world = await openWorld()
  const { registry, admission, rooms, other } = world
  await other.create(rooms.served, cup({ color: 'red' }), options)
  admission.onValidate = deny
  const put = registry.replace(rooms.served, 'a', cup({ color: 'red' }), 'object', options)
  await expect(put).rejects.toBe(denial)
})

test('nothing refuses a write that only takes away finalizers', async () => {
  await using world = await openWorld()
  const { registry, admission, rooms, other } = world
  const finalizers = ['example.com/x', 'example.com/y']
  await other.create(rooms.served, cup({ color: 'red' }, { finalizers }), options)
  admission.onMutate = deny
  admission.onValidate = deny
  const patch = (metadata: object, more: object = {}) => {
    const document = { metadata, ...more }
    return registry.patch(rooms.served, 'a', { type: 'merge', document }, 'object', options)
  }
  await patch({ finalizers: ['example.com/x'] })
  expect(admission.asked).toEqual([])
  await expect(patch({ finalizers: [] }, { spec: { color: 'blue' } })).rejects.toBe(denial)
  await expect(patch({ finalizers: ['example.com/x', 'example.com/z'] })).rejects.toBe(denial)
  await other.delete(rooms.served, 'a', {}, options)
  expect(await patch({ finalizers: null })).toMatchObject({ isRemoved: true })
})

test('a deletion is asked about without an object, also that of an object that is being deleted', async () => {
  await using world = await openWorld()
  const { registry, admission, rooms } = world
  await registry.create(rooms.served, cup({ color: 'red' }, { finalizers: ['example.com/x'] }), options)
  await registry.delete(rooms.served, 'a', {}, options)
  await registry.delete(rooms.served, 'a', {}, options)
  expect(admission.words().slice(2)).toEqual(
    Array(2).fill(['DELETE object mutate', 'DELETE object validate']).flat(),
  )
  const [deletion] = admission.asked.slice(-1)
  expect(deletion?.object).toBeUndefined()
  expect(deletion?.from?.object).toMatchObject({ metadata: { name: 'a' }, spec: { color: 'red' } })
})

test('each object of a collection is asked about by itself, in a request without a name', async () => {
  await using world = await openWorld()
  const { registry, admission, rooms, other } = world
  const keys = ['a', 'b', 'c']
  for (const name of keys) await other.create(rooms.served, cup({ color: 'red' }, { name }), options)
  await deleteAll({ registry, served: rooms.served, keys, deletion: {}, options, deleted: () => {} })
  const validated = admission.asked.filter(({ step }) => step === 'validate')
  expect(validated.map(({ request }) => request.name)).toEqual([undefined, undefined, undefined])
  expect(new Set(validated.map(({ from }) => from?.object.metadata)).size).toBe(3)
})

test('a generated name is known to those who validate', async () => {
  await using world = await openWorld()
  const { registry, admission, rooms } = world
  const body = cup({ color: 'red' }, { name: undefined, generateName: 'x-' })
  const created = parse(await registry.create(rooms.served, body, options))
  const [mutate, validate] = admission.asked
  expect(mutate?.object?.metadata).toEqual({ generateName: 'x-' })
  expect(validate?.object?.metadata.name).toBe(created.metadata.name)
})

test('the writes of the server itself are not asked about, and nobody is if nothing is configured', async () => {
  await using world = await openWorld()
  const { registry, admission, rooms } = world
  admission.onMutate = deny
  const create = (name: string, write: typeof options | typeof serviceWriteOptions) =>
    registry.create(rooms.served, cup({ color: 'red' }, { name }), write)
  await create('a', serviceWriteOptions)
  await create('b', { ...options, user: serverUser })
  admission.isActive = false
  await create('c', options)
  admission.isActive = true
  await expect(create('d', options)).rejects.toBe(denial)
})

test('after another write came first, webhooks are asked about the newer state', async () => {
  await using world = await openWorld()
  const { registry, admission, rooms, other } = world
  await other.create(rooms.served, cup({ color: 'red' }), options)
  let isFirst = true
  admission.onMutate = async object => {
    const merge = { type: 'merge', document: { spec: { size: 'large' } } } as const
    if (isFirst) await other.patch(rooms.served, 'a', merge, 'object', options)
    isFirst = false
    return withSpec(object, { color: 'green' }) ?? deny()
  }
  const labels = { type: 'merge', document: { metadata: { labels: { x: 'y' } } } } as const
  const patched = parse(await registry.patch(rooms.served, 'a', labels, 'object', options))
  expect(patched.spec).toEqual({ color: 'green', size: 'large' })
  const seen = admission.asked.filter(({ step }) => step === 'mutate').map(({ object }) => object?.spec)
  expect(seen).toEqual([
    { color: 'red', size: 'small' },
    { color: 'red', size: 'large' },
  ])
})

test('a webhook cannot change the identity of an object, and its version is a precondition', async () => {
  await using world = await openWorld()
  const { registry, admission, rooms } = world
  const created = parse(await registry.create(rooms.served, cup({ color: 'red' }), options))
  const withMeta = (metadata: object) => (object: AdmittedObject | undefined) =>
    object && { ...object, metadata: { ...object.metadata, ...metadata } }
  const write = (document: object) =>
    registry.patch(rooms.served, 'a', { type: 'merge', document }, 'object', options)
  admission.onMutate = withMeta({ uid: 'other', version: '1', generation: 7 })
  const patched = parse(await write({ spec: { color: 'blue' } }))
  expect(patched.metadata).toMatchObject({ uid: created.metadata.uid, generation: 2 })
  const stale = { metadata: { resourceVersion: created.metadata.resourceVersion }, spec: { color: 'green' } }
  await expect(write(stale)).rejects.toMatchObject({ code: 409 })
  admission.onMutate = withMeta({ resourceVersion: '1' })
  await expect(write({ spec: { color: 'green' } })).rejects.toMatchObject({ code: 409 })
  admission.onMutate = withMeta({ name: 'b' })
  await expect(write({ spec: { color: 'green' } })).rejects.toMatchObject({ code: 400 })
})

test('the fields that webhooks set have no owner', async () => {
  await using world = await openWorld()
  const { registry, admission, rooms } = world
  admission.onMutate = object => withSpec(object, { size: 'large' })
  const apply = (spec: object, manager: string) => {
    const patch = { document: cup(spec), force: false }
    return registry.apply(rooms.served, 'a', patch, 'object', { ...options, manager: () => manager })
  }
  const fieldsOf = (result: WriteResult) =>
    parse(result).metadata.managedFields?.map(({ manager, fieldsV1 }) => [manager, fieldsV1])
  const expected = ['ann', { 'f:spec': { 'f:color': {} } }]
  expect(fieldsOf(await apply({ color: 'red' }, 'ann'))).toEqual([expected])
  // The webhook's value stays, though the manager does not name the field.
  const again = await apply({ color: 'red' }, 'ann')
  expect(parse(again).spec).toEqual({ color: 'red', size: 'large' })
  admission.onMutate = object => withSpec(object, { size: 'huge' })
  const merge = { type: 'merge', document: { metadata: { labels: { x: 'y' } } } } as const
  const patched = await registry.patch(rooms.served, 'a', merge, 'object', {
    ...options,
    manager: () => 'bob',
  })
  expect(parse(patched).spec).toEqual({ color: 'red', size: 'huge' })
  expect(fieldsOf(patched)).toEqual([
    expected,
    ['bob', { 'f:metadata': { 'f:labels': { '.': {}, 'f:x': {} } } }],
  ])
})
