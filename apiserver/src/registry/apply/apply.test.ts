import { defineModel, parseRevision } from '@setpoint/controller-runtime/api'
import { FakeClock } from '@setpoint/controller-runtime/testing'
import { expect, test, vi } from 'vitest'
import { openRooms, type Rooms } from '../../../../test/support/rooms.ts'
import { defaultWriteOptions, Registry } from '../index.ts'

const model = defineModel({
  group: 'test.example.com',
  version: 'v1',
  kind: 'Thing',
  singular: 'thing',
  plural: 'things',
  schema: { spec: { type: 'object', properties: { title: { type: 'string' }, n: { type: 'integer' } } } },
  default: thing => {
    if (thing.spec.title !== undefined) thing.spec.title = thing.spec.title.trim()
  },
})

const setModel = defineModel({
  group: 'test.example.com',
  version: 'v1',
  kind: 'Thing',
  singular: 'thing',
  plural: 'things',
  schema: {
    spec: {
      type: 'object',
      properties: { tags: { type: 'array', items: { type: 'string' }, 'x-kubernetes-list-type': 'set' } },
    },
  },
})

/** A registry whose clock the test sets. */
function setUp({ storage, served }: Rooms) {
  const clock = new FakeClock(0)
  const registry = new Registry({ storage, reservedDomain: 'setpoint.dev', clock })
  const apply = async (spec: object, manager = 'one') => {
    const document = { apiVersion: 'test.example.com/v1', kind: 'Thing', metadata: { name: 'a' }, spec }
    const options = { ...defaultWriteOptions, manager: () => manager }
    const { bytes } = await registry.apply(served, 'a', { document, force: false }, 'object', options)
    const { metadata } = JSON.parse(bytes.toString())
    const times = Object.fromEntries(
      metadata.managedFields.map((entry: { manager: string; time: string }) => [entry.manager, entry.time]),
    )
    return { version: metadata.version, times }
  }
  return { clock, apply }
}

test('an apply that changes nothing keeps version and times, also if a hook changes what is applied', async () => {
  await using rooms = await openRooms(model)
  const { clock, apply } = setUp(rooms)
  const first = await apply({ title: ' x ', n: 1 })
  clock.jump(60_000)
  expect(await apply({ title: ' x ', n: 1 })).toEqual(first)
})

test('an entry has the time when its manager last changed a value or its fields', async () => {
  await using rooms = await openRooms(model)
  const { clock, apply } = setUp(rooms)
  await apply({ n: 1 })
  clock.jump(60_500)
  const changed = await apply({ n: 2 })
  expect(changed.times).toEqual({ one: '1970-01-01T00:01:00Z' })
  clock.jump(59_500)
  const shared = await apply({ n: 2 }, 'two')
  expect(shared.times).toEqual({ one: '1970-01-01T00:01:00Z', two: '1970-01-01T00:02:00Z' })
})

test('an apply that is refused on a stale cached object is decided again, with the causes of the live one only', async () => {
  await using rooms = await openRooms(setModel)
  const { storage, served, registry } = rooms
  const body = (tags: string[]) => ({
    apiVersion: 'test.example.com/v1',
    kind: 'Thing',
    metadata: { name: 'a' },
    spec: { tags },
  })
  const { bytes } = await registry.create(served, body(['x']), defaultWriteOptions)
  const revision = parseRevision(JSON.parse(bytes.toString()).metadata.version)
  await registry.replace(served, 'a', body(['y']), 'object', defaultWriteOptions)
  const cached = () => ({ revision, bytes, values: [] })
  const behind = new Registry({ storage, reservedDomain: 'setpoint.dev', cached })
  const patch = { document: body(['z', 'z']), force: false }
  const refused = behind.apply(served, 'a', patch, 'object', defaultWriteOptions)
  await expect(refused).rejects.toMatchObject({ details: { causes: [{ field: 'spec.tags[1]' }] } })
})

test('the name of the writer is asked for when the object is tracked, and not before', async () => {
  await using rooms = await openRooms(model)
  const { served, registry } = rooms
  const manager = vi.fn(() => 'two')
  const options = { ...defaultWriteOptions, manager }
  const body = (n: number) => ({
    apiVersion: 'test.example.com/v1',
    kind: 'Thing',
    metadata: { name: 'a' },
    spec: { n },
  })
  const merge = (n: number) =>
    registry.patch(served, 'a', { type: 'merge', document: { spec: { n } } }, 'object', options)
  await registry.create(served, body(1), options)
  await registry.replace(served, 'a', body(2), 'object', options)
  await merge(3)
  expect(manager).not.toHaveBeenCalled()

  const one = { ...defaultWriteOptions, manager: () => 'one' }
  await registry.apply(served, 'a', { document: body(3), force: false }, 'object', one)
  const { bytes } = await merge(4)
  expect(manager).toHaveBeenCalledTimes(1)
  const { managedFields } = JSON.parse(bytes.toString()).metadata
  expect(managedFields).toContainEqual(expect.objectContaining({ manager: 'two' }))
})
