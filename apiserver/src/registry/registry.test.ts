import {
  type ApiObject,
  defineModel,
  isApiError,
  multiValueIndex,
  singleValueIndex,
} from '@setpoint/controller-runtime/api'
import { describe, expect, it } from 'vitest'
import { bound, openRooms, type Rooms, testModel, thing } from '../../../test/support/rooms.ts'
import { ServedModel } from '../model/served-model.ts'
import { decodeStored } from '../model/stored-object.ts'
import { type Storage, StoreFullError } from '../storage/index.ts'
import { Registry, registryDefaults } from './registry.ts'
import { reservationKey } from './unique-index.ts'
import { defaultWriteOptions, type WriteResult } from './write-options.ts'

const options = defaultWriteOptions
const parse = ({ bytes }: WriteResult): ApiObject => JSON.parse(bytes.toString())
const refused = (reason: Parameters<typeof isApiError>[1]) => (error: unknown) => isApiError(error, reason)

async function live({ registry, served }: Rooms, name: string): Promise<ApiObject | undefined> {
  const found = await registry.readLive(served, name)
  return found && JSON.parse(found.bytes.toString())
}

describe('unique values', () => {
  it('are held by one object under concurrent writes', async () => {
    await using rooms = await openRooms()
    const { registry, served } = rooms
    for (let round = 0; round < 20; round++) {
      const outcomes = await Promise.allSettled(
        Array.from({ length: 8 }, (_, n) =>
          registry.create(served, thing(`r${round}-${n}`, { email: `e${round}` }), options),
        ),
      )
      expect(outcomes.filter(outcome => outcome.status === 'fulfilled')).toHaveLength(1)
      for (const outcome of outcomes) {
        if (outcome.status === 'rejected') expect(isApiError(outcome.reason, 'AlreadyExists')).toBe(true)
      }
    }
  })

  it('with lone surrogates are distinct, and each is held by one object', async () => {
    await using rooms = await openRooms()
    const { registry, served } = rooms
    await registry.create(served, thing('a', { email: '\ud83d' }), options)
    await registry.create(served, thing('b', { email: '\ud83c' }), options)
    await registry.create(served, thing('c', { email: '\ufffd' }), options)
    await expect(registry.create(served, thing('d', { email: '\ud83d' }), options)).rejects.toSatisfy(
      refused('AlreadyExists'),
    )
  })

  it('can be taken by another object after their holder has changed or was deleted', async () => {
    await using rooms = await openRooms()
    const { registry, served } = rooms
    await registry.create(served, thing('a', { email: 'x' }), options)
    await expect(registry.create(served, thing('b', { email: 'x' }), options)).rejects.toSatisfy(
      refused('AlreadyExists'),
    )
    await registry.replace(served, 'a', thing('a', { email: 'y' }), 'object', options)
    await registry.create(served, thing('b', { email: 'x' }), options)
    await registry.delete(served, 'a', {}, options)
    await registry.replace(served, 'b', thing('b', { email: 'y' }), 'object', options)
    expect((await live(rooms, 'b'))?.spec).toEqual({ email: 'y' })
  })

  it('whose holder is gone can be taken over', async () => {
    await using rooms = await openRooms()
    const { registry, served, storage } = rooms
    const key = reservationKey(served, 'spec.email', 'x', 'a')
    const value = Buffer.from(JSON.stringify({ name: 'gone', uid: 'u' }))
    await storage.transact({ compares: [], onSuccess: [{ type: 'put', key, value }] })
    const created = parse(await registry.create(served, thing('a', { email: 'x' }), options))
    const { pair } = await storage.get(key)
    expect(JSON.parse(pair?.value.toString() ?? '')).toEqual({ name: 'a', uid: created.metadata.uid })
  })

  it('are computed from the stored object with its new generation', async () => {
    const model = defineModel({
      group: 'test.example.com',
      version: 'v1',
      kind: 'Thing',
      singular: 'thing',
      plural: 'things',
      schema: testModel.schema,
      indexes: [
        singleValueIndex({
          name: 'generation',
          unique: true,
          indexFunc: ({ metadata }) => `${metadata.name}-${metadata.generation}`,
        }),
      ],
    })
    await using rooms = await openRooms(model)
    const { registry, served, storage } = rooms
    await registry.create(served, thing('a', { n: 1 }), options)
    await registry.replace(served, 'a', thing('a', { n: 2 }), 'object', options)
    const { pair } = await storage.get(served.keyOf('a'))
    expect(pair && decodeStored(pair.value)).toMatchObject({
      object: { metadata: { generation: 2 } },
      reservations: { generation: ['a-2'] },
    })
  })

  it('are recorded with the object that holds them', async () => {
    await using rooms = await openRooms()
    const { registry, served, storage } = rooms
    await registry.create(served, thing('a', { email: 'x' }), options)
    const { pair } = await storage.get(served.keyOf('a'))
    expect(pair && decodeStored(pair.value).reservations).toEqual({ 'spec.email': ['x'] })
  })
})

describe('deletion', () => {
  it('of an object with finalizers marks it once; removing the last finalizer removes the object and its reservations', async () => {
    await using rooms = await openRooms()
    const { registry, served, storage } = rooms
    await registry.create(served, thing('a', { email: 'x' }, { finalizers: ['d/f', 'd/g'] }), options)
    const marked = parse(await registry.delete(served, 'a', {}, options))
    const again = parse(await registry.delete(served, 'a', {}, options))
    expect(again).toEqual(marked)
    expect(marked.metadata.generation).toBe(2)
    const revived = thing('a', { email: 'x' }, { finalizers: ['d/f'], deletionTimestamp: null })
    const kept = parse(await registry.replace(served, 'a', revived, 'object', options))
    expect(kept.metadata.deletionTimestamp).toBe(marked.metadata.deletionTimestamp)
    await expect(
      registry.replace(served, 'a', thing('a', {}, { finalizers: ['d/f', 'd/new'] }), 'object', options),
    ).rejects.toSatisfy(refused('Invalid'))
    await registry.patch(
      served,
      'a',
      { type: 'merge', document: { metadata: { finalizers: null } } },
      'object',
      options,
    )
    expect(await live(rooms, 'a')).toBeUndefined()
    expect((await storage.get(reservationKey(served, 'spec.email', 'x', 'a'))).pair).toBeUndefined()
  })

  it('in the foreground or with orphans waits for the collector, by the finalizer of that policy', async () => {
    await using rooms = await openRooms()
    const { registry, served } = rooms
    for (const [propagation, finalizer] of [
      ['Foreground', 'foregroundDeletion'],
      ['Orphan', 'orphan'],
    ] as const) {
      const name = propagation.toLowerCase()
      await registry.create(served, thing(name, {}, { finalizers: ['d/f'] }), options)
      const dryRun = { ...options, dryRun: true }
      const shown = parse(await registry.delete(served, name, { propagation }, dryRun))
      expect(shown.metadata).toMatchObject({ finalizers: ['d/f', finalizer], generation: 2 })
      expect((await live(rooms, name))?.metadata.deletionTimestamp).toBeUndefined()
      const marked = parse(await registry.delete(served, name, { propagation }, options))
      expect(marked.metadata.finalizers).toEqual(['d/f', finalizer])
      expect(marked.metadata.deletionTimestamp).toBeDefined()
      // A later deletion does not change the policy.
      for (const later of ['Background', 'Foreground', 'Orphan'] as const)
        expect(parse(await registry.delete(served, name, { propagation: later }, options))).toEqual(marked)
    }
  })

  it("without a policy uses the object's policy; an explicit policy overrides it", async () => {
    await using rooms = await openRooms()
    const { registry, served } = rooms
    for (const name of ['kept', 'overridden', 'changed'])
      await registry.create(served, thing(name, {}, { finalizers: ['orphan'] }), options)
    const kept = parse(await registry.delete(served, 'kept', {}, options))
    expect(kept.metadata.finalizers).toEqual(['orphan'])
    await registry.delete(served, 'overridden', { propagation: 'Background' }, options)
    expect(await live(rooms, 'overridden')).toBeUndefined()
    const changed = parse(await registry.delete(served, 'changed', { propagation: 'Foreground' }, options))
    expect(changed.metadata.finalizers).toEqual(['foregroundDeletion'])
  })

  it('with two policies is refused', async () => {
    await using rooms = await openRooms()
    const { registry, served } = rooms
    const both = thing('a', {}, { finalizers: ['orphan', 'foregroundDeletion'] })
    await expect(registry.create(served, both, options)).rejects.toSatisfy(refused('Invalid'))
  })

  it('works if the object violates its schema or an index', async () => {
    await using rooms = await openRooms()
    const { registry, served, storage } = rooms
    await registry.create(served, thing('a', { n: 1 }, { finalizers: ['d/f'] }), options)
    // An older version of the plugin may have stored it. It violates the current one.
    const { pair } = await storage.get(served.keyOf('a'))
    const broken = pair?.value.toString().replace('"n":1', '"n":1000,"tags":7') ?? ''
    await storage.transact({
      compares: [],
      onSuccess: [{ type: 'put', key: served.keyOf('a'), value: Buffer.from(broken) }],
    })
    await expect(
      registry.patch(served, 'a', { type: 'merge', document: { spec: { n: 2000 } } }, 'object', options),
    ).rejects.toSatisfy(refused('Invalid'))
    await registry.delete(served, 'a', {}, options)
    await registry.patch(
      served,
      'a',
      { type: 'merge', document: { metadata: { finalizers: null } } },
      'object',
      options,
    )
    expect(await live(rooms, 'a')).toBeUndefined()
  })
})

describe('an update', () => {
  it('that changes nothing writes nothing', async () => {
    await using rooms = await openRooms()
    const { registry, served } = rooms
    const created = parse(
      await registry.create(served, thing('a', { n: 1, tags: ['t'] }, { labels: { a: 'b' } }), options),
    )
    const same = {
      ...thing('a', { tags: ['t'], n: 1 }, { labels: { a: 'b' }, finalizers: [], generation: 77 }),
    }
    expect(parse(await registry.replace(served, 'a', same, 'object', options))).toEqual(created)
    const patch = { type: 'merge', document: { spec: { n: 1 } } } as const
    expect(parse(await registry.patch(served, 'a', patch, 'object', options))).toEqual(created)
  })

  it('is refused with a stale version in either field', async () => {
    await using rooms = await openRooms()
    const { registry, served } = rooms
    const { metadata } = parse(await registry.create(served, thing('a'), options))
    for (const wrong of [
      { version: '1' },
      { resourceVersion: '1' },
      { version: metadata.version, resourceVersion: '1' },
    ]) {
      const body = thing('a', { n: 1 }, wrong)
      await expect(registry.replace(served, 'a', body, 'object', options)).rejects.toSatisfy(
        refused('Conflict'),
      )
    }
    await registry.replace(
      served,
      'a',
      thing('a', { n: 1 }, { version: metadata.version }),
      'object',
      options,
    )
  })

  it('raises the generation for a new spec, not for status or labels', async () => {
    await using rooms = await openRooms()
    const { registry, served } = rooms
    await registry.create(served, thing('a'), options)
    const generation = async (document: object, scope: 'object' | 'status') =>
      parse(await registry.patch(served, 'a', { type: 'merge', document }, scope, options)).metadata
        .generation
    expect(await generation({ metadata: { labels: { a: 'b' } } }, 'object')).toBe(1)
    expect(await generation({ status: { phase: 'p' } }, 'status')).toBe(1)
    expect(await generation({ status: { phase: 'ignored' } }, 'object')).toBe(1)
    expect(await generation({ spec: { n: 3 } }, 'object')).toBe(2)
    expect((await live(rooms, 'a'))?.status).toEqual({ phase: 'p' })
  })

  it('is not lost among concurrent ones', async () => {
    await using rooms = await openRooms()
    const { registry, served } = rooms
    await registry.create(served, thing('a'), options)
    const keys = Array.from({ length: 20 }, (_, n) => `k${n}`)
    await Promise.all(
      keys.map(key =>
        registry.patch(
          served,
          'a',
          { type: 'merge', document: { metadata: { annotations: { [key]: key } } } },
          'object',
          options,
        ),
      ),
    )
    expect(Object.keys((await live(rooms, 'a'))?.metadata.annotations ?? {}).sort()).toEqual([...keys].sort())
  })
})

describe('a dry run', () => {
  it('checks everything and stores nothing', async () => {
    await using rooms = await openRooms()
    const { registry, served } = rooms
    const dry = { ...options, dryRun: true }
    await registry.create(served, thing('a', { email: 'x' }), options)
    await expect(registry.create(served, thing('a'), dry)).rejects.toSatisfy(refused('AlreadyExists'))
    await expect(registry.create(served, thing('b', { email: 'x' }), dry)).rejects.toSatisfy(
      refused('AlreadyExists'),
    )
    await expect(registry.create(served, thing('b', { n: -1 }), dry)).rejects.toSatisfy(refused('Invalid'))
    expect(parse(await registry.create(served, thing('b'), dry)).metadata.name).toBe('b')
    expect(await live(rooms, 'b')).toBeUndefined()
    const before = await live(rooms, 'a')
    expect(
      parse(await registry.patch(served, 'a', { type: 'merge', document: { spec: { n: 5 } } }, 'object', dry))
        .spec,
    ).toEqual({ email: 'x', n: 5 })
    await registry.delete(served, 'a', {}, dry)
    expect(await live(rooms, 'a')).toEqual(before)
  })
})

describe('plugins', () => {
  it('may not add or change labels of users or of Setpoint, but may keep existing ones', async () => {
    await using rooms = await openRooms()
    const { registry, served } = rooms
    const plugin = { ...options, plugin: 'demo' }
    for (const key of ['plain', 'setpoint.dev/x', 'sub.setpoint.dev/x']) {
      await expect(
        registry.create(served, thing('a', {}, { labels: { [key]: 'v' } }), plugin),
      ).rejects.toSatisfy(refused('Invalid'))
    }
    await registry.create(served, thing('a', {}, { labels: { plain: 'v' } }), options)
    await registry.replace(
      served,
      'a',
      thing('a', { n: 1 }, { labels: { plain: 'v', 'd.example.com/x': 'v' } }),
      'object',
      plugin,
    )
    await expect(
      registry.replace(served, 'a', thing('a', { n: 1 }, { labels: { plain: 'other' } }), 'object', plugin),
    ).rejects.toSatisfy(refused('Invalid'))
  })
})

describe('an index function', () => {
  it('cannot change the stored object by changing its argument', async () => {
    await using rooms = await openRooms()
    const { registry } = rooms
    const served = new ServedModel({
      ...testModel,
      plural: 'sorted',
      indexes: [
        multiValueIndex<ApiObject<{ tags?: string[] }>>({
          name: 'spec.tags',
          indexFunc: object => {
            object.metadata.name = 'mine'
            return (object.spec.tags ?? []).sort()
          },
        })(),
      ],
    })
    await registry.records.establish(served)
    await registry.create(served, thing('a', { tags: ['b', 'a'] }), options)
    const tags = ['z', 'b', 'a']
    await registry.replace(served, 'a', thing('a', { tags }), 'object', options)
    const labels = { more: 'yes' }
    const patch = { type: 'merge', document: { metadata: { labels } } } as const
    await registry.patch(served, 'a', patch, 'object', options)
    const found = await registry.readLive(served, 'a')
    expect(found && JSON.parse(found.bytes.toString())).toMatchObject({
      metadata: { name: 'a', generation: 2, labels },
      spec: { tags },
    })
  })
})

describe('a generated name', () => {
  /** Creates an object by `generateName`. Another object takes the first names just before. */
  async function createBehind(rooms: Rooms, takenNames: number): Promise<ApiObject> {
    const { storage, served, registry } = rooms
    let taken = 0
    const rivalled: Storage = {
      ...bound(storage),
      async transact(transaction, callOptions) {
        const key = transaction.onSuccess.find(({ key }) => /\/gen-[^/]{5}$/.test(key))?.key ?? ''
        if (taken++ < takenNames)
          await registry.create(served, thing(key.slice(-'gen-12345'.length)), options)
        return storage.transact(transaction, callOptions)
      },
    }
    const behind = new Registry({
      storage: rivalled,
      reservedDomain: 'setpoint.dev',
      cached: () => undefined,
    })
    await behind.records.establish(served)
    const body = { ...thing(''), metadata: { generateName: 'gen-' } }
    return parse(await behind.create(served, body, options))
  }

  it('that is taken is replaced by another one', async () => {
    await using rooms = await openRooms()
    const { metadata } = await createBehind(rooms, registryDefaults.generatedNames - 1)
    expect(metadata.name).toMatch(/^gen-[a-z0-9]{5}$/)
    expect(await live(rooms, metadata.name)).toMatchObject({ metadata: { uid: metadata.uid } })
  })

  it('that is taken too often is 409', async () => {
    await using rooms = await openRooms()
    await expect(createBehind(rooms, registryDefaults.generatedNames)).rejects.toSatisfy(
      refused('AlreadyExists'),
    )
  })
})

it('a full store refuses writes with 503 and the reason, and reads go on', async () => {
  await using rooms = await openRooms()
  const { storage, served, registry } = rooms
  await registry.create(served, thing('a'), options)
  const full: Storage = {
    ...bound(storage),
    transact: () => Promise.reject(new StoreFullError('its data would exceed 5 bytes')),
  }
  const onFull = new Registry({ storage: full, reservedDomain: 'setpoint.dev', cached: () => undefined })
  await expect(onFull.create(served, thing('b'), options)).rejects.toMatchObject({
    code: 503,
    message: 'the store is full and takes only deletions: its data would exceed 5 bytes',
    details: { retryAfterSeconds: 30 },
  })
  expect(await onFull.readLive(served, 'a')).toBeDefined()
})
