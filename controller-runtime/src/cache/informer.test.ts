import { afterEach, describe, expect, test } from 'vitest'
import { eventually } from '../../../test/support/sdk/eventually.ts'
import { MemoryServer } from '../../../test/support/sdk/memory-server.ts'
import { Gadget } from '../../../test/support/sdk/sample-models.ts'
import type { ObjectOf } from '../api/model.ts'
import type { Client } from '../client/client.ts'
import { createClient } from '../client/create-client.ts'
import { Lease } from '../kinds/lease.ts'
import { Watcher } from '../watch/watcher.ts'
import type { InformerHandler } from './delivery.ts'
import { Informer } from './informer.ts'

type GadgetObject = ObjectOf<typeof Gadget>

const cleanUps: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0)) await cleanUp()
})

function setUp() {
  const server = new MemoryServer()
  const client = createClient(server)
  const informer = new Informer(Gadget, { client, watcher: { backoffBaseMs: 2, backoffMaxMs: 5 } })
  cleanUps.push(() => informer.stop())
  return { server, client, informer }
}

function create(client: Client, name: string, size = 1, colour?: string): Promise<GadgetObject> {
  return client.create(Gadget, { metadata: { name }, spec: { size, ...(colour && { colour }) } })
}

function recorder() {
  const told: string[] = []
  const handler: InformerHandler<GadgetObject> = {
    onAdd: (object, { initial }) =>
      void told.push(`add ${object.metadata.name}${initial ? ' (initial)' : ''}`),
    onUpdate: (before, after) =>
      void told.push(`update ${after.metadata.name} ${before.spec.size}->${after.spec.size}`),
    onDelete: object => void told.push(`delete ${object.metadata.name}`),
  }
  return { told, handler }
}

const names = (objects: readonly GadgetObject[]) => objects.map(object => object.metadata.name).sort()

describe('the copy', () => {
  test('is complete once synced, and follows every change', async () => {
    const { client, informer } = setUp()
    await create(client, 'a')
    expect(informer.hasSynced).toBe(false)
    informer.start()
    await informer.synced
    expect(names(informer.list())).toEqual(['a'])
    const b = await create(client, 'b', 1)
    await client.update(Gadget, { ...b, spec: { size: 2 } })
    await client.delete(Gadget, 'a')
    await eventually(() => informer.size === 1 && informer.get('b')?.spec.size === 2)
    expect(informer.get('a')).toBeUndefined()
  })

  test('refuses a name without its namespace, and options of list', async () => {
    const { client, informer } = setUp()
    const leases = new Informer(Lease, { client })
    expect(() => leases.get('a')).toThrow(
      new TypeError(
        'leases.coordination.k8s.io are in namespaces: give the key <namespace>/<name> instead of "a"',
      ),
    )
    expect(leases.get('default/a')).toBeUndefined()
    expect(informer.get('a')).toBeUndefined()
    expect(() => Reflect.apply(leases.list, leases, [{ namespace: 'a' }])).toThrow(
      /takes no options: use byIndex/,
    )
  })

  test('is refused without a client, and with arguments in another order', () => {
    const { client } = setUp()
    for (const given of [
      [Gadget, client],
      [Gadget, {}],
    ])
      expect(() => Reflect.construct(Informer, given)).toThrow(
        'an informer needs a client: new Informer(model, { client })',
      )
    expect(() => Reflect.construct(Watcher, [Gadget, client])).toThrow(
      'expected a model, which defineModel returns, but got TransportClient',
    )
    expect(() => Reflect.construct(Watcher, [undefined, Gadget])).toThrow('expected a client')
  })

  test('is frozen at any depth', async () => {
    const { client, informer } = setUp()
    await create(client, 'a')
    informer.start()
    await informer.synced
    const object = informer.get('a')
    expect(() => {
      if (object) Object.assign(object.spec, { size: 5 })
    }).toThrow(TypeError)
    expect(() => {
      // @ts-expect-error: it is read-only for the compiler too
      if (object) object.metadata.labels = {}
    }).toThrow(TypeError)
  })

  test('returns the current objects by index', async () => {
    const { client, informer } = setUp()
    const a = await create(client, 'a', 1, 'red')
    await create(client, 'b', 1, 'red')
    await create(client, 'c', 1, 'blue')
    await create(client, 'd')
    informer.start()
    await informer.synced
    expect(names(informer.byIndex('spec.colour', 'red'))).toEqual(['a', 'b'])
    await client.update(Gadget, { ...a, spec: { size: 1, colour: 'blue' } })
    await client.delete(Gadget, 'c')
    await eventually(() => informer.get('c') === undefined)
    expect(names(informer.byIndex('spec.colour', 'red'))).toEqual(['b'])
    expect(names(informer.byIndex('spec.colour', 'blue'))).toEqual(['a'])
    expect(() => informer.byIndex('spec.nothing', 'x')).toThrow(/no index/)
  })

  test('synced rejects if the informer is stopped first', async () => {
    const { server, informer } = setUp()
    server.watch = () => Promise.reject(new Error('away'))
    informer.start()
    await informer.stop()
    await expect(informer.synced).rejects.toMatchObject({ name: 'AbortError' })
  })
})

describe('while the server cannot be reached', () => {
  test('objects that were deleted meanwhile are reported as deleted once', async () => {
    const { server, client, informer } = setUp()
    for (const name of ['a', 'b', 'c']) await create(client, name)
    const { told, handler } = recorder()
    const registration = informer.addHandler(handler)
    informer.start()
    await registration.synced
    told.length = 0
    server.holdWatches()
    await client.delete(Gadget, 'b')
    server.compact()
    await create(client, 'd')
    server.cutWatches()
    server.releaseWatches()
    server.compact()
    // Handlers run after the copy has changed.
    await eventually(() => told.length >= 2)
    expect(told).toEqual(['delete b', 'add d'])
    expect(names(informer.list())).toEqual(['a', 'c', 'd'])
  })

  test('a recreated object is reported as deleted and added', async () => {
    const { server, client, informer } = setUp()
    await create(client, 'a')
    const { told, handler } = recorder()
    const registration = informer.addHandler(handler)
    informer.start()
    await registration.synced
    told.length = 0
    server.holdWatches()
    await client.delete(Gadget, 'a')
    await create(client, 'a', 9)
    server.compact()
    server.cutWatches()
    server.releaseWatches()
    await eventually(() => told.length >= 2)
    expect(told).toEqual(['delete a', 'add a'])
  })

  test('a new list without changes reports nothing', async () => {
    const { server, client, informer } = setUp()
    await create(client, 'a')
    await create(client, 'b')
    const { told, handler } = recorder()
    const registration = informer.addHandler(handler)
    informer.start()
    await registration.synced
    told.length = 0
    const before = informer.get('a')
    const listedAt = informer.listedAt
    server.holdWatches()
    await client.create(Gadget, { metadata: { name: 'c' }, spec: { size: 1 } })
    await client.delete(Gadget, 'c')
    server.compact()
    server.cutWatches()
    server.releaseWatches()
    await eventually(() => informer.listedAt > listedAt)
    expect(told).toEqual([])
    expect(informer.get('a')).toBe(before)
  })

  test('all objects are replaced before any handler runs', async () => {
    const { server, client, informer } = setUp()
    await create(client, 'a')
    await create(client, 'b')
    const seen: string[][] = []
    informer.start()
    await informer.synced
    const look = () => void seen.push(names(informer.list()))
    await informer.addHandler({
      onDelete: look,
      onUpdate: look,
      onAdd: (_object, { initial }) => void (initial || look()),
    }).synced
    server.holdWatches()
    await client.delete(Gadget, 'a')
    await client.patch(Gadget, 'b', { spec: { size: 7 } })
    await create(client, 'c')
    server.compact()
    server.cutWatches()
    server.releaseWatches()
    await eventually(() => seen.length === 3)
    expect(seen).toEqual([
      ['b', 'c'],
      ['b', 'c'],
      ['b', 'c'],
    ])
  })
})

describe('handlers', () => {
  test('a handler that is added late sees all objects, then every change, none twice', async () => {
    const { client, informer } = setUp()
    for (const name of ['a', 'b']) await create(client, name)
    informer.start()
    await informer.synced
    const { told, handler } = recorder()
    await informer.addHandler(handler).synced
    await create(client, 'c')
    await eventually(() => told.length >= 3)
    expect(told).toEqual(['add a (initial)', 'add b (initial)', 'add c'])
  })

  test('a handler that throws or rejects receives the next event', async () => {
    const { client, informer } = setUp()
    const told: string[] = []
    informer.addHandler({
      onAdd: ({ metadata: { name } }) => {
        told.push(name)
        if (name === 'a') throw new Error('thrown')
        return name === 'b' ? Promise.reject(new Error('rejected')) : undefined
      },
    })
    informer.start()
    await informer.synced
    for (const name of ['a', 'b', 'c']) await create(client, name)
    await eventually(() => told.length === 3)
    expect(told).toEqual(['a', 'b', 'c'])
  })

  test('a slow handler receives one event at a time, the latest of each object, and delays no other', async () => {
    const { client, informer } = setUp()
    const a = await create(client, 'a', 1)
    let release: () => void = () => {}
    const slow: string[] = []
    let busy = 0
    const wait = async (text: string) => {
      expect(++busy).toBe(1)
      slow.push(text)
      await new Promise<void>(resolve => {
        release = resolve
      })
      busy--
    }
    informer.addHandler({
      onAdd: object => wait(`add ${object.metadata.name} ${object.spec.size}`),
      onUpdate: (before, after) =>
        wait(`update ${after.metadata.name} ${before.spec.size}->${after.spec.size}`),
      onDelete: object => wait(`delete ${object.metadata.name}`),
    })
    const { told, handler } = recorder()
    informer.addHandler(handler)
    informer.start()
    await informer.synced
    let current = a
    for (const size of [2, 3, 4]) current = await client.update(Gadget, { ...current, spec: { size } })
    await create(client, 'brief')
    await client.delete(Gadget, 'brief')
    await create(client, 'b')
    await eventually(() => told.length === 7)
    expect(slow).toEqual(['add a 1'])
    release()
    await eventually(() => slow.length === 2)
    release()
    await eventually(() => slow.length === 3)
    release()
    await eventually(() => busy === 0)
    expect(slow).toEqual(['add a 1', 'update a 1->4', 'add b 1'])
  })

  test('a removed handler is not called again', async () => {
    const { client, informer } = setUp()
    const { told, handler } = recorder()
    const registration = informer.addHandler(handler)
    informer.start()
    await informer.synced
    await create(client, 'a')
    await eventually(() => told.length === 1)
    registration.remove()
    await create(client, 'b')
    await eventually(() => informer.get('b') !== undefined)
    expect(told).toEqual(['add a'])
  })

  test('synced of a handler resolves after its initial events', async () => {
    const { client, informer } = setUp()
    await create(client, 'a')
    let release: () => void = () => {}
    let synced = false
    const registration = informer.addHandler({
      onAdd: () =>
        new Promise<void>(resolve => {
          release = resolve
        }),
    })
    void registration.synced.then(() => {
      synced = true
    })
    informer.start()
    await informer.synced
    await new Promise(setImmediate)
    expect(synced).toBe(false)
    release()
    await registration.synced
  })

  test('with many changes and disconnects, every handler ends with exactly the state of the server', async () => {
    const { server, client, informer } = setUp()
    const views: Map<string, number>[] = []
    const addView = () => {
      const view = new Map<string, number>()
      views.push(view)
      informer.addHandler({
        onAdd: object => {
          expect(view.has(object.metadata.name)).toBe(false)
          view.set(object.metadata.name, object.spec.size)
        },
        onUpdate: (before, after) => {
          expect(view.get(after.metadata.name)).toBe(before.spec.size)
          view.set(after.metadata.name, after.spec.size)
        },
        onDelete: object => {
          expect(view.delete(object.metadata.name)).toBe(true)
        },
      })
    }
    addView()
    informer.start()
    let seed = 7
    const random = (below: number) => {
      seed = (seed * 1103515245 + 12345) % 2147483648
      return seed % below
    }
    const expected = new Map<string, number>()
    for (let step = 0; step < 1500; step++) {
      const name = `g${random(20)}`
      const what = random(100)
      if (what < 45) {
        if (!expected.has(name)) await create(client, name, step)
        else await client.patch(Gadget, name, { spec: { size: step } })
        expected.set(name, step)
      } else if (what < 70) {
        if (expected.delete(name)) await client.delete(Gadget, name)
      } else if (what < 73) server.cutWatches()
      else if (what < 75) {
        server.compact()
        server.cutWatches()
      } else if (what < 77) addView()
      else if (what < 85) await new Promise(setImmediate)
    }
    await create(client, 'last', -1)
    expected.set('last', -1)
    await eventually(() => informer.get('last') !== undefined)
    expect(views.length).toBeGreaterThan(10)
    await eventually(() => views.every(view => view.has('last')))
    for (const view of views) expect(view).toEqual(expected)
  })
})
