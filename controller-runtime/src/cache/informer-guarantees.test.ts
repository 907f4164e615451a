import fc from 'fast-check'
import { afterEach, describe, expect, test } from 'vitest'
import { eventually } from '../../../test/support/sdk/eventually.ts'
import { MemoryServer } from '../../../test/support/sdk/memory-server.ts'
import { Gadget, gadget } from '../../../test/support/sdk/sample-models.ts'
import { ApiError } from '../api/errors.ts'
import { multiValueIndex, singleValueIndex } from '../api/index-spec.ts'
import type { ObjectOf } from '../api/model.ts'
import { createClient } from '../client/create-client.ts'
import { deepFreeze } from '../freeze.ts'
import type { Logger } from '../logger.ts'
import { silentLogger } from '../logger.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { Delivery, type InformerHandler } from './delivery.ts'
import { Informer, type InformerOptions } from './informer.ts'
import { Store } from './store.ts'

type GadgetObject = ObjectOf<typeof Gadget>

const cleanUps: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0)) await cleanUp()
})

function setUp(options: Partial<InformerOptions<GadgetObject>> = {}) {
  const server = new MemoryServer()
  const client = createClient(server)
  const informer = new Informer(Gadget, {
    client,
    watcher: { backoffBaseMs: 2, backoffMaxMs: 5 },
    ...options,
  })
  cleanUps.push(() => informer.stop())
  const create = (name: string, size = 1, more: { colour?: string; labels?: Record<string, string> } = {}) =>
    client.create(Gadget, {
      metadata: { name, ...(more.labels && { labels: more.labels }) },
      spec: { size, ...(more.colour && { colour: more.colour }) },
    })
  return { server, client, informer, create }
}

const names = (objects: readonly GadgetObject[]) => objects.map(object => object.metadata.name).sort()
const change = (name: string, version: number) => {
  const after: GadgetObject = gadget(name, version)
  return { key: name, before: undefined, after, last: after }
}

describe('a slow handler', () => {
  test('has at most one pending change per object, and reports its lag', async () => {
    const clock = new FakeClock()
    let release: () => void = () => {}
    const told: string[] = []
    const delivery = new Delivery<GadgetObject>(
      {
        onAdd: async object => {
          told.push(`${object.metadata.name}@${object.metadata.version}`)
          await new Promise<void>(resolve => {
            release = resolve
          })
        },
      },
      clock,
      silentLogger,
    )
    delivery.begin([])
    expect(delivery.lag).toEqual({ waiting: 0, oldestMs: 0 })
    for (let version = 1; version <= 1_000; version++) {
      delivery.notify(change(`g${version % 10}`, version))
      await clock.advance(1)
    }
    expect(told).toEqual(['g1@1'])
    // Nine others, one that changed after it was delivered, and the one being handled.
    expect(delivery.lag).toEqual({ waiting: 11, oldestMs: 1_000 })
    release()
    await clock.advance(0)
    expect(told).toEqual(['g1@1', 'g2@992'])
    expect(delivery.lag).toEqual({ waiting: 10, oldestMs: 999 })
    for (let rest = 0; rest < 10; rest++) {
      release()
      await clock.advance(0)
    }
    expect(delivery.lag).toEqual({ waiting: 0, oldestMs: 0 })
  })
})

test('a synchronous handler sees every change as it happens, also after a quiet time', async () => {
  const clock = new FakeClock()
  const told: string[] = []
  const delivery = new Delivery<GadgetObject>(
    { onAdd: object => void told.push(object.metadata.version) },
    clock,
    silentLogger,
  )
  delivery.begin([])
  await clock.advance(60_000)
  for (const version of [1, 2, 3]) {
    delivery.notify(change('a', version))
    expect(told).toHaveLength(version)
  }
})

describe('a removed handler', () => {
  test('is not called again if it removes itself, and blocks nothing', async () => {
    const { informer, create } = setUp()
    for (const name of ['a', 'b', 'c']) await create(name)
    informer.start()
    await informer.synced
    const told: string[] = []
    const registration = informer.addHandler({
      onAdd: async ({ metadata: { name } }) => {
        // The first call comes before `addHandler` returns.
        await Promise.resolve()
        told.push(name)
        if (name === 'b') registration.remove()
      },
    })
    await registration.synced
    await create('d')
    await eventually(() => informer.get('d') !== undefined)
    expect(told).toEqual(['a', 'b'])
    expect(registration.lag.waiting).toBe(0)
  })

  test('between the deletion and the addition of a recreated object sees only the deletion', async () => {
    const { server, client, informer, create } = setUp()
    await create('a')
    informer.start()
    await informer.synced
    const told: string[] = []
    const registration = informer.addHandler({
      onAdd: (_object, { initial }) => void (initial || told.push('add')),
      onDelete: () => {
        told.push('delete')
        registration.remove()
      },
    })
    await registration.synced
    const listedAt = informer.listedAt
    server.holdWatches()
    await client.delete(Gadget, 'a')
    await create('a', 2)
    server.compact()
    server.cutWatches()
    server.releaseWatches()
    await eventually(() => informer.listedAt > listedAt)
    expect(told).toEqual(['delete'])
  })

  test('resolves its synced promise when the informer stops', async () => {
    const { informer } = setUp()
    const { synced } = informer.addHandler({})
    await informer.stop()
    await synced
  })
})

describe('indexes', () => {
  const byParity = multiValueIndex<GadgetObject>({
    name: 'local.parity',
    indexFunc: ({ spec: { size } }) => {
      if (size === 13) throw new Error('unlucky')
      return size % 2 === 0 ? ['even', 'any'] : ['odd', 'any']
    },
  })

  test('match the objects at all times, including added indexes', () => {
    const names = fc.constantFrom('a', 'b', 'c', 'd')
    const colours = fc.constantFrom(undefined, 'red', 'blue')
    const object = fc.record({ name: names, size: fc.integer({ min: 10, max: 14 }), colour: colours })
    const step = fc.oneof(
      fc.record({ type: fc.constant('put' as const), object }),
      fc.record({ type: fc.constant('delete' as const), name: names }),
      fc.record({ type: fc.constant('replace' as const), objects: fc.array(object, { maxLength: 6 }) }),
      fc.record({ type: fc.constant('ask' as const), index: fc.constantFrom('spec.colour', 'local.parity') }),
    )
    fc.assert(
      fc.property(fc.array(step, { maxLength: 30 }), steps => {
        const store = new Store<GadgetObject>(Gadget)
        store.addIndex(byParity)
        let version = 0
        const make = ({ name, size, colour }: { name: string; size: number; colour: string | undefined }) => {
          const made: GadgetObject = gadget(name, ++version, { size })
          if (colour !== undefined) made.spec.colour = colour
          return made
        }
        const asked = new Set<string>()
        for (const each of steps) {
          if (each.type === 'put') store.put(make(each.object))
          else if (each.type === 'replace') store.replace(each.objects.map(make))
          else if (each.type === 'ask') asked.add(each.index)
          else {
            const last = store.get(each.name)
            if (last !== undefined) store.delete(last)
          }
          for (const index of asked) {
            for (const value of ['red', 'blue', 'even', 'odd', 'any']) {
              const expected = store.list().filter(candidate => {
                if (index === 'spec.colour') return candidate.spec.colour === value
                return candidate.spec.size !== 13 && byParity().valuesOf(candidate).includes(value)
              })
              expect(store.byIndex(index, value).sort(byName)).toEqual(expected.sort(byName))
            }
          }
        }
      }),
    )
  })

  test('are those of the model, the default ones, and added ones', async () => {
    const { informer, create } = setUp()
    await create('a', 1, { colour: 'red', labels: { tier: 'front' } })
    await create('b', 2, { labels: { tier: 'front' } })
    informer.start()
    await informer.synced
    expect(names(informer.byIndex('metadata.labels', 'tier=front'))).toEqual(['a', 'b'])
    expect(names(informer.byIndex('metadata.name', 'b'))).toEqual(['b'])
    expect(() => informer.byIndex('local.parity', 'even')).toThrow(TypeError)
    informer.addIndex(byParity)
    informer.addIndex(byParity)
    expect(names(informer.byIndex('local.parity', 'even'))).toEqual(['b'])
    await create('c', 4)
    await eventually(() => informer.size === 3)
    expect(names(informer.byIndex('local.parity', 'even'))).toEqual(['b', 'c'])
    const other = singleValueIndex<GadgetObject>({ name: 'spec.colour', indexFunc: () => 'x' })
    expect(() => informer.addIndex(other)).toThrow(TypeError)
  })
})

describe('cached objects', () => {
  test('are frozen wherever they are read from', async () => {
    const { informer, create } = setUp()
    await create('a', 1, { colour: 'red', labels: { tier: 'front' } })
    const told: GadgetObject[] = []
    informer.addHandler({
      onAdd: object => void told.push(object),
      onUpdate: (...both) => void told.push(...both),
    })
    informer.start()
    await informer.synced
    await create('b')
    await eventually(() => told.length === 2)
    const got = [informer.get('a'), ...informer.list(), ...informer.byIndex('spec.colour', 'red'), ...told]
    expect(got).toHaveLength(6)
    for (const object of got) {
      expect(() => Object.assign(object ?? {}, { spec: {} })).toThrow(TypeError)
      expect(() => Object.assign(object?.spec ?? {}, { size: 9 })).toThrow(TypeError)
      expect(() => Object.assign(object?.metadata.labels ?? Object.freeze({}), { x: 'y' })).toThrow(TypeError)
    }
  })

  test('are frozen at any depth', () => {
    const deep: unknown = JSON.parse(`${'{"a":['.repeat(50_000)}1${']}'.repeat(50_000)}`)
    deepFreeze(deep)
    let frozen = 0
    for (let part = deep; typeof part === 'object' && part !== null; part = Object.values(part)[0]) {
      if (Object.isFrozen(part)) frozen++
    }
    expect(frozen).toBe(100_000)
  })

  test('are unchanged if a transform fails or changes their identity, and an error is logged', async () => {
    const failures: object[] = []
    const log: Logger = { ...silentLogger, error: fields => void failures.push(fields), child: () => log }
    const { informer, create } = setUp({
      log,
      transform: object => {
        if (object.metadata.name === 'a') throw new Error('cannot')
        if (object.metadata.name === 'b') return { ...object, metadata: { ...object.metadata, name: 'z' } }
        return { ...object, spec: { size: 0 } }
      },
    })
    for (const name of ['a', 'b', 'c']) await create(name, 5)
    informer.start()
    await informer.synced
    expect(informer.list().map(({ metadata, spec }) => [metadata.name, spec.size])).toEqual([
      ['a', 5],
      ['b', 5],
      ['c', 0],
    ])
    expect(Object.isFrozen(informer.get('c')?.spec)).toBe(true)
    expect(failures).toMatchObject([{ object: 'a' }, { object: 'b' }])
  })
})

test('a kind that is no longer served stays readable, and is followed again once it is back', async () => {
  const { server, client, informer, create } = setUp()
  await create('a')
  await create('b')
  const told: string[] = []
  const handler: InformerHandler<GadgetObject> = {
    onAdd: ({ metadata: { name } }, { initial }) => void (initial || told.push(`add ${name}`)),
    onDelete: ({ metadata: { name } }) => void told.push(`delete ${name}`),
  }
  const registration = informer.addHandler(handler)
  informer.start()
  await registration.synced
  const watch = server.watch.bind(server)
  let refusals = 0
  server.watch = () => {
    refusals++
    return Promise.reject(new ApiError('NotFound', 'nothing is served here'))
  }
  server.cutWatches()
  await eventually(() => refusals >= 3)
  expect(names(informer.list())).toEqual(['a', 'b'])
  expect(told).toEqual([])
  await client.delete(Gadget, 'a')
  await create('c')
  server.compact()
  server.watch = watch
  await eventually(() => informer.get('c') !== undefined)
  expect(names(informer.list())).toEqual(['b', 'c'])
  expect(told).toEqual(['delete a', 'add c'])
})

function byName(left: GadgetObject, right: GadgetObject): number {
  return left.metadata.name < right.metadata.name ? -1 : 1
}
