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
