import { defineModel } from '@setpoint/controller-runtime'
import { expect, it } from 'vitest'
import { openRooms, testModel } from '../../../test/support/rooms.ts'
import { decodeEntry } from '../cache/entry-codec.ts'
import type { Entry } from '../cache/index.ts'
import { defaultWriteOptions as options, Registry } from '../registry/index.ts'
import { builtInKinds } from './kinds/index.ts'
import { KnownNamespaces } from './known-namespaces.ts'

const Seat = defineModel({
  group: 'seats.example.com',
  version: 'v1',
  kind: 'Seat',
  singular: 'seat',
  plural: 'seats',
  scope: 'Namespaced',
  schema: { spec: testModel.schema.spec },
})

/** A server whose cache of namespaces does not move by itself. */
async function world() {
  const rooms = await openRooms(Seat)
  const { storage, served } = rooms
  const { namespaces: kind } = builtInKinds()
  const admin = new Registry({ storage, reservedDomain: 'setpoint.dev' })
  await admin.records.establish(kind)
  let cached: Entry | undefined
  const follower = { entryOf: () => cached }
  const namespaces = new KnownNamespaces({ kind, storage, follower })
  const registry = new Registry({ storage, reservedDomain: 'setpoint.dev', namespaces })
  await registry.records.check(served)
  const look = async () => {
    const { pair } = await storage.get(kind.keyOf('n'))
    cached = pair && decodeEntry(kind, 'n', pair.value, pair.modRevision).entry
  }
  const seat = (name: string) =>
    registry.create(
      served,
      { apiVersion: Seat.apiVersion, kind: Seat.kind, metadata: { name } },
      { ...options, namespace: 'n' },
    )
  const namespace = (metadata: object = {}) =>
    admin.create(kind, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'n', ...metadata } }, options)
  const seats = async () => (await storage.list(served.keyPrefix)).pairs.map(({ key }) => key)
  return { rooms, kind, admin, look, seat, namespace, seats, served }
}

it('an object is not created in a namespace that was deleted after the cache was read', async () => {
  const { rooms, kind, admin, look, seat, namespace, seats, served } = await world()
  await using _ = rooms
  await namespace({ finalizers: ['example.com/hold'] })
  await look()
  await seat('first')
  await admin.delete(kind, 'n', {}, options)
  // The cache still has the active namespace.
  await expect(seat('late')).rejects.toMatchObject({ code: 403, reason: 'Forbidden' })
  const finalizers = { type: 'merge', document: { metadata: { finalizers: null } } } as const
  await admin.patch(kind, 'n', finalizers, 'object', options)
  await admin.patch(kind, 'n', { type: 'merge', document: { spec: { finalizers: [] } } }, 'finalize', options)
  await expect(seat('later')).rejects.toMatchObject({ code: 404, details: { kind: 'namespaces', name: 'n' } })
  expect(await seats()).toEqual([served.keyOf('n/first')])
})

it('an object is created in a namespace that has changed since the cache was read', async () => {
  const { rooms, kind, admin, look, seat, namespace, seats, served } = await world()
  await using _ = rooms
  await namespace()
  await look()
  const labels = { type: 'merge', document: { metadata: { labels: { a: 'b' } } } } as const
  await admin.patch(kind, 'n', labels, 'object', options)
  await seat('one')
  expect(await seats()).toEqual([served.keyOf('n/one')])
})

it('an object is created in a namespace that the cache does not have yet', async () => {
  const { rooms, seat, namespace, seats, served } = await world()
  await using _ = rooms
  await expect(seat('early')).rejects.toMatchObject({ code: 404 })
  await namespace()
  await seat('one')
  expect(await seats()).toEqual([served.keyOf('n/one')])
})
