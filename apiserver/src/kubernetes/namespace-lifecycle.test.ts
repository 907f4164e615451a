import { defineModel, silentLogger } from '@setpoint/controller-runtime'
import { ApiError } from '@setpoint/controller-runtime/api'
import { expect, it } from 'vitest'
import { openRooms, testModel } from '../../../test/support/rooms.ts'
import { ModelRegistry, ServedModel } from '../model/index.ts'
import { defaultWriteOptions as options, Registry } from '../registry/index.ts'
import { builtInKinds } from './kinds/index.ts'
import { NamespaceLifecycle } from './namespace-lifecycle.ts'

const namespaced = { version: 'v1', scope: 'Namespaced', schema: { spec: testModel.schema.spec } } as const
const Seat = defineModel({
  ...namespaced,
  ...{ group: 'a.example.com', kind: 'Seat', singular: 'seat', plural: 'seats' },
})
const Desk = defineModel({
  ...namespaced,
  ...{ group: 'b.example.com', kind: 'Desk', singular: 'desk', plural: 'desks' },
})

/** Refuses to delete the objects of a kind. */
class RefusingRegistry extends Registry {
  refused: ServedModel | undefined

  override async delete(...args: Parameters<Registry['delete']>) {
    if (args[0] === this.refused) throw new ApiError('ServiceUnavailable', 'the kind is being changed')
    return super.delete(...args)
  }
}

it('empties a namespace of all other kinds although one cannot be deleted, and says why', async () => {
  await using rooms = await openRooms(Seat)
  const { storage, follower, served: seats } = rooms
  const desks = new ServedModel(Desk)
  const { namespaces: kind } = builtInKinds()
  const registry = new RefusingRegistry({ storage, reservedDomain: 'setpoint.dev' })
  const models = new ModelRegistry()
  for (const each of [kind, seats, desks]) {
    models.add(each)
    await registry.records.establish(each)
  }
  const ended = new AbortController()
  const cache = await follower.add(kind, ended.signal)
  new NamespaceLifecycle({ kind, models, registry, storage, log: silentLogger }).follow(cache, ended.signal)
  await registry.create(kind, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'n' } }, options)
  for (const each of [seats, desks]) {
    const { apiVersion, kind } = each.model
    const object = { apiVersion, kind, metadata: { name: 'x' }, spec: {} }
    await registry.create(each, object, { ...options, namespace: 'n' })
  }
  registry.refused = seats
  await registry.delete(kind, 'n', {}, options)
  const status = async () => (await registry.readLive(kind, 'n'))?.stored.object.status
  await expect.poll(status).toMatchObject({
    conditions: expect.arrayContaining([
      expect.objectContaining({
        ...{ type: 'NamespaceDeletionContentFailure', status: 'True', reason: 'ContentDeletionFailed' },
        message:
          'Failed to delete all resource types, 1 remaining: seats.a.example.com: the kind is being changed',
      }),
    ]),
  })
  expect((await storage.list(desks.keyPrefix)).pairs).toEqual([])
  registry.refused = undefined
  await expect.poll(() => registry.readLive(kind, 'n')).toBeUndefined()
  expect((await storage.list(seats.keyPrefix)).pairs).toEqual([])
  ended.abort()
})

/** Counts the reads of the store. */
class CountingRegistry extends Registry {
  reads = 0

  override async readLive(...args: Parameters<Registry['readLive']>) {
    this.reads++
    return super.readLive(...args)
  }
}

it('deletes nothing of a later namespace of the same name', async () => {
  await using rooms = await openRooms(Seat)
  const { storage, follower, served: seats } = rooms
  const { namespaces: kind } = builtInKinds()
  const other = new Registry({ storage, reservedDomain: 'setpoint.dev' })
  const models = new ModelRegistry()
  for (const each of [kind, seats]) {
    models.add(each)
    await other.records.establish(each)
  }
  const create = async () => {
    await other.create(kind, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'n' } }, options)
    const apiVersion = `${seats.model.group}/${seats.model.version}`
    const object = { apiVersion, kind: 'Seat', metadata: { name: 'x' }, spec: {} }
    await other.create(seats, object, { ...options, namespace: 'n' })
  }
  let wasFaster = false
  let readsBefore = 0
  /** Another server ends the namespace, and a client creates it again. */
  const beFaster = async () => {
    wasFaster = true
    await other.delete(seats, 'n/x', {}, options)
    const document = { spec: { finalizers: [] } }
    await other.patch(kind, 'n', { type: 'merge', document }, 'finalize', options)
    await create()
    readsBefore = registry.reads
  }
  const slow = new Proxy(storage, {
    get(target, name) {
      if (name !== 'list') {
        const value: unknown = Reflect.get(target, name)
        return typeof value === 'function' ? value.bind(target) : value
      }
      return async (...args: Parameters<typeof storage.list>) => {
        if (args[0] === `${seats.keyPrefix}n/` && !wasFaster) await beFaster()
        return target.list(...args)
      }
    },
  })
  const registry = new CountingRegistry({ storage, reservedDomain: 'setpoint.dev' })
  const ended = new AbortController()
  const cache = await follower.add(kind, ended.signal)
  await create()
  const lifecycle = new NamespaceLifecycle({ kind, models, registry, storage: slow, log: silentLogger })
  lifecycle.follow(cache, ended.signal)
  await other.delete(kind, 'n', {}, options)
  // It has looked again, so it has done with what it had read.
  await expect.poll(() => wasFaster && registry.reads > readsBefore + 1).toBe(true)
  expect(await other.readLive(seats, 'n/x')).toBeDefined()
  expect((await other.readLive(kind, 'n'))?.stored.object.metadata.deletionTimestamp).toBeUndefined()
  ended.abort()
})
