import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ApiError, type ApiObject, defineModel, isRecord, type Model } from '@setpoint/controller-runtime/api'
import { describe, expect, it } from 'vitest'
import { fieldsOf } from '../../../test/support/json.ts'
import { bound, hold, openRooms, type Rooms, testModel, thing } from '../../../test/support/rooms.ts'
import { noReservations } from '../model/reservations.ts'
import { ServedModel } from '../model/served-model.ts'
import { decodeStored, encodeObject, encodeStored } from '../model/stored-object.ts'
import { openEmbeddedStorage } from '../storage/embedded/index.ts'
import { OutcomeUnknownError, StoreUnavailableError } from '../storage/index.ts'
import { Registry } from './registry.ts'
import { decodeHolder, reservationKey } from './unique-index.ts'
import { defaultWriteOptions, type WriteResult } from './write-options.ts'

const options = defaultWriteOptions

/** The model with a second version that has the same form. */
const versionedModel = defineModel({
  ...testModel,
  versions: [
    {
      name: 'v0',
      schema: { spec: { type: 'object' } },
      toHub: ({ spec }) => ({ spec }),
      fromHub: ({ spec }) => ({ spec: isRecord(spec) ? spec : {} }),
    },
  ],
})
const finalizers = ['example.com/f']
const parse = ({ bytes }: WriteResult): ApiObject => JSON.parse(bytes.toString())

/** Rooms whose store counts calls and can hold back the log, and a second server that never uses a cache. */
interface World extends AsyncDisposable {
  readonly rooms: Rooms
  readonly other: Registry
  /** Calls of the rooms' store since the last `follow`. */
  readonly calls: { get: number; transact: number }
  /** Fails the rooms' transactions from now on. */
  fail(error: Error): void
  /** Delivers no more changes to the cache. */
  freeze(): void
  /** Waits until the cache holds everything that is stored. */
  follow(): Promise<void>
}

async function openWorld(model: Model = testModel): Promise<World> {
  const dataDir = await mkdtemp(join(tmpdir(), 'setpoint-cached-writes-'))
  const storage = await openEmbeddedStorage({ dataDir })
  const calls = { get: 0, transact: 0 }
  let fault: Error | undefined
  let { held, release } = hold()
  release()
  const rooms = await openRooms(model, {
    ...bound(storage),
    get(...args) {
      calls.get++
      return storage.get(...args)
    },
    transact(...args) {
      calls.transact++
      return fault === undefined ? storage.transact(...args) : Promise.reject(fault)
    },
    async *watch(...args) {
      for await (const batch of storage.watch(...args)) {
        await held
        yield batch
      }
    },
  })
  return {
    rooms,
    other: new Registry({ storage, reservedDomain: 'setpoint.dev' }),
    calls,
    fail(error) {
      fault = error
    },
    freeze() {
      ;({ held, release } = hold())
    },
    async follow() {
      await rooms.gate.pass()
      Object.assign(calls, { get: 0, transact: 0 })
    },
    async [Symbol.asyncDispose]() {
      release()
      await rooms[Symbol.asyncDispose]()
      await storage.close()
      await rm(dataDir, { recursive: true, force: true })
    },
  }
}

/** A world whose cache still holds `stale`, while `change` has replaced it in the store. */
async function openStale(
  stale: object,
  change: (other: Registry, served: ServedModel) => Promise<unknown>,
): Promise<World & { readonly before: ApiObject }> {
  const world = await openWorld()
  const { registry, served } = world.rooms
  const before = parse(await registry.create(served, stale, options))
  await world.follow()
  world.freeze()
  await change(world.other, served)
  return Object.assign(world, { before })
}

async function outcome(write: Promise<WriteResult>): Promise<string> {
  return write.then(
    () => 'ok',
    error => {
      if (error instanceof ApiError) return `${error.code} ${error.reason}`
      throw error
    },
  )
}

async function live({ rooms, other }: World, name = 'a'): Promise<ApiObject | undefined> {
  const found = await other.readLive(rooms.served, name)
  return found && JSON.parse(found.bytes.toString())
}

/** The writes to the object `a` through the rooms. */
function writesOf({ rooms: { registry, served } }: World, write = options) {
  return {
    put: (spec: object, metadata: object = {}) =>
      registry.replace(served, 'a', thing('a', spec, metadata), 'object', write),
    patch: (document: unknown, type: 'json' | 'merge' = 'merge') =>
      registry.patch(served, 'a', { type, document }, 'object', write),
    status: (phase: string) =>
      registry.replace(served, 'a', { ...thing('a'), status: { phase } }, 'status', write),
    delete: (preconditions = {}) => registry.delete(served, 'a', preconditions, write),
  }
}
type Writes = ReturnType<typeof writesOf>

describe('a write to an object that the cache holds', () => {
  const cheap: [what: string, write: (writes: Writes, version: string) => Promise<WriteResult>][] = [
    ['PUT', ({ put }) => put({ email: 'x', n: 2 }, { finalizers })],
    ['PUT with the current version', ({ put }, version) => put({ n: 2 }, { finalizers, version })],
    ['PUT of another unique value', ({ put }) => put({ email: 'y' }, { finalizers })],
    ['merge PATCH', ({ patch }) => patch({ spec: { n: 2 } })],
    ['JSON PATCH', ({ patch }) => patch([{ op: 'replace', path: '/spec/n', value: 2 }], 'json')],
    ['PUT of the status', ({ status }) => status('new')],
    ['removal of the last finalizer', ({ patch }) => patch({ metadata: { finalizers: null } })],
    ['DELETE of an object with finalizers', writes => writes.delete()],
  ]

  it.each(cheap)('costs one transaction and no read: %s', async (_what, write) => {
    await using world = await openWorld()
    const { registry, served } = world.rooms
    const body = thing('a', { email: 'x', n: 1 }, { finalizers })
    const { metadata } = parse(await registry.create(served, body, options))
    await world.follow()
    const written = parse(await write(writesOf(world), metadata.version))
    expect(world.calls).toMatchObject({ get: 0, transact: 1 })
    expect(written).toEqual(await live(world))
    expect(written.metadata.uid).toBe(metadata.uid)
  })

  it('costs one transaction and no read: DELETE', async () => {
    await using world = await openWorld()
    const { registry, served } = world.rooms
    await registry.create(served, thing('a', { email: 'x' }), options)
    await world.follow()
    await writesOf(world).delete()
    expect(world.calls).toMatchObject({ get: 0, transact: 1 })
    expect(await live(world)).toBeUndefined()
    expect(await registry.holderOf(served, 'spec.email', 'x', 'a')).toBeUndefined()
  })

  it('stores the fields in the same order as a write that starts from a live read', async () => {
    await using world = await openWorld()
    const { registry, served, storage } = world.rooms
    for (const name of ['a', 'b'])
      await registry.create(served, thing(name, { n: 1 }, { finalizers, labels: { l: 'v' } }), options)
    await world.follow()
    const document = { spec: { tags: ['t'] } }
    await registry.patch(served, 'a', { type: 'merge', document }, 'object', options)
    await world.other.patch(served, 'b', { type: 'merge', document }, 'object', options)
    const texts = await Promise.all(
      ['a', 'b'].map(async name => {
        const { pair } = await storage.get(served.keyOf(name))
        const { object } = decodeStored(pair?.value ?? Buffer.alloc(0))
        const { uid, creationTimestamp } = object.metadata
        return JSON.stringify(object)
          .replace(`"name":"${name}"`, '')
          .replace(uid, '')
          .replace(creationTimestamp, '')
      }),
    )
    expect(texts[0]).toBe(texts[1])
  })

  it('with dryRun costs one transaction without operations', async () => {
    await using world = await openWorld()
    const { registry, served } = world.rooms
    const before = parse(await registry.create(served, thing('a', { n: 1 }), options))
    await world.follow()
    const writes = writesOf(world, { ...options, dryRun: true })
    const written = parse(await writes.put({ n: 2 }))
    expect(world.calls).toMatchObject({ get: 0, transact: 1 })
    expect([written.spec, written.metadata.version]).toEqual([{ n: 2 }, before.metadata.version])
    await writes.delete()
    expect(await live(world)).toEqual(before)
  })

  const refused: [code: string, write: (writes: Writes) => Promise<WriteResult>][] = [
    ['422 Invalid', ({ put }) => put({ n: -1 })],
    ['422 Invalid', ({ patch }) => patch([{ op: 'remove', path: '/spec/none' }], 'json')],
    ['409 Conflict', ({ put }) => put({ n: 2 }, { version: '1' })],
    ['409 Conflict', writes => writes.delete({ uid: 'other' })],
    ['400 BadRequest', ({ patch }) => patch({ kind: 'Other' })],
    ['413 RequestEntityTooLarge', ({ put }) => put({ unknown: 'x'.repeat(1_500_000) })],
  ]

  it.each(refused)('costs one read if it is refused with %s', async (code, write) => {
    await using world = await openWorld()
    const { registry, served } = world.rooms
    await registry.create(served, thing('a', { n: 1 }), options)
    await world.follow()
    expect(await outcome(write(writesOf(world)))).toBe(code)
    expect(world.calls).toMatchObject({ get: 1, transact: 0 })
  })

  it('costs one read if it changes nothing', async () => {
    await using world = await openWorld()
    const { registry, served } = world.rooms
    const before = parse(await registry.create(served, thing('a', { n: 1 }, { finalizers }), options))
    await world.follow()
    const { put, delete: remove } = writesOf(world)
    expect(parse(await put({ n: 1 }, { finalizers }))).toEqual(before)
    expect(world.calls).toMatchObject({ get: 1, transact: 0 })
    await remove()
    await world.follow()
    expect(parse(await remove())).toEqual(await live(world))
    expect(world.calls).toMatchObject({ get: 1, transact: 0 })
  })

  it('is decided once if the read shows that the cache is current', async () => {
    let decisions = 0
    const completing = defineModel({
      ...testModel,
      default(draft) {
        decisions++
        draft.spec = { n: 1, ...fieldsOf(draft.spec) }
      },
    })
    await using world = await openWorld(completing)
    const { registry, served } = world.rooms
    const before = parse(await registry.create(served, thing('a', { n: 1 }, { finalizers }), options))
    await world.follow()
    decisions = 0
    expect(parse(await writesOf(world).put({}, { finalizers }))).toEqual(before)
    expect(world.calls).toMatchObject({ get: 1, transact: 0 })
    expect(decisions).toBe(1)
  })

  const faults = [
    ['504 Timeout', new OutcomeUnknownError('no answer')],
    ['503 ServiceUnavailable', new StoreUnavailableError('gone')],
  ] as const

  it.each(faults)('sends its transaction once if the store fails it with %s', async (code, error) => {
    await using world = await openWorld()
    const { registry, served } = world.rooms
    await registry.create(served, thing('a', { n: 1 }), options)
    await world.follow()
    world.fail(error)
    const { put, delete: remove } = writesOf(world)
    expect(await outcome(put({ n: 2 }))).toBe(code)
    expect(await outcome(remove())).toBe(code)
    expect(world.calls).toMatchObject({ get: 0, transact: 2 })
  })

  it('is refused once with 409 for a unique value that another object holds', async () => {
    await using world = await openWorld()
    const { registry, served } = world.rooms
    await registry.create(served, thing('a', { email: 'x' }), options)
    await registry.create(served, thing('b', { email: 'y' }), options)
    await world.follow()
    expect(await outcome(writesOf(world).put({ email: 'y' }))).toBe('409 AlreadyExists')
    expect(world.calls.transact).toBe(1)
  })
})

describe('a write to an object that has changed since the cache saw it', () => {
  const changeSpec = (spec: object) => (other: Registry, served: ServedModel) =>
    other.replace(served, 'a', thing('a', spec), 'object', options)

  it('replaces the live object without a precondition', async () => {
    await using world = await openStale(thing('a', { n: 1 }), changeSpec({ n: 2 }))
    const written = parse(await writesOf(world).put({ n: 3 }))
    expect(world.calls).toMatchObject({ get: 0, transact: 2 })
    expect(written).toEqual(await live(world))
    expect([written.spec, written.metadata.generation]).toEqual([{ n: 3 }, 3])
  })

  it('patches the live object', async () => {
    await using world = await openStale(thing('a', { n: 1 }), changeSpec({ n: 1, tags: ['new'] }))
    await writesOf(world).patch({ spec: { n: 5 } })
    expect((await live(world))?.spec).toEqual({ n: 5, tags: ['new'] })
  })

  it('tests the live object in a JSON patch', async () => {
    await using world = await openStale(thing('a', { n: 1 }), changeSpec({ n: 2 }))
    const patch = (n: number) =>
      writesOf(world).patch(
        [
          { op: 'test', path: '/spec/n', value: n },
          { op: 'add', path: '/spec/email', value: 'x' },
        ],
        'json',
      )
    expect(await outcome(patch(1))).toBe('422 Invalid')
    expect(await outcome(patch(2))).toBe('ok')
    expect((await live(world))?.spec).toEqual({ n: 2, email: 'x' })
  })

  it('is refused with 409 for the version in the cache, and accepted for the live one', async () => {
    await using world = await openStale(thing('a', { n: 1 }), changeSpec({ n: 2 }))
    const { put, delete: remove } = writesOf(world)
    const { version } = world.before.metadata
    const current = (await live(world))?.metadata.version ?? ''
    expect(await outcome(put({ n: 3 }, { version }))).toBe('409 Conflict')
    expect(await outcome(remove({ versions: [version] }))).toBe('409 Conflict')
    expect(await outcome(put({ n: 3 }, { version: current }))).toBe('ok')
  })

  it('restores the cached state, and writes nothing if it equals the live one', async () => {
    await using world = await openStale(thing('a', { n: 1 }), changeSpec({ n: 2 }))
    const { put } = writesOf(world)
    const current = await live(world)
    expect(parse(await put({ n: 2 }))).toEqual(current)
    expect(await live(world)).toEqual(current)
    await put({ n: 1 })
    expect((await live(world))?.spec).toEqual({ n: 1 })
  })

  it('is validated against the live object', async () => {
    const large = { unknown: 'x'.repeat(1_400_000) }
    await using world = await openStale(thing('a', large), changeSpec({ n: 2 }))
    const more = { metadata: { annotations: { a: 'x'.repeat(150_000) } } }
    expect(await outcome(writesOf(world).patch(more))).toBe('ok')
    expect((await live(world))?.spec).toEqual({ n: 2 })
  })

  it('responds with 404 if the object is gone', async () => {
    const gone = (other: Registry, served: ServedModel) => other.delete(served, 'a', {}, options)
    await using world = await openStale(thing('a', { n: 1 }), gone)
    const { put, patch, delete: remove } = writesOf(world)
    const writes = [put({ n: 2 }), put({ n: 1 }), put({ n: -1 }), patch({ spec: { n: 2 } }), remove()]
    expect(new Set(await Promise.all(writes.map(outcome)))).toEqual(new Set(['404 NotFound']))
  })

  it('finds an object that is not cached yet', async () => {
    await using world = await openWorld()
    world.freeze()
    await world.other.create(world.rooms.served, thing('a', { n: 1 }), options)
    const { put, delete: remove } = writesOf(world)
    expect(parse(await put({ n: 2 })).spec).toEqual({ n: 2 })
    expect(await outcome(remove())).toBe('ok')
  })

  it('applies to the new object if the name was deleted and created again', async () => {
    await using world = await openStale(
      thing('a', { n: 1 }, { labels: { of: 'old' } }),
      async (other, served) => {
        await other.delete(served, 'a', {}, options)
        await other.create(served, thing('a', { n: 2, email: 'x' }), options)
      },
    )
    const { put, patch, delete: remove } = writesOf(world)
    const { uid } = world.before.metadata
    expect(await outcome(put({ n: 3 }, { uid }))).toBe('409 Conflict')
    expect(await outcome(remove({ uid }))).toBe('409 Conflict')
    const next = await live(world)
    const patched = parse(await patch({ spec: { n: 3 } }))
    expect(patched.metadata.uid).toBe(next?.metadata.uid)
    expect([patched.spec, patched.metadata.labels]).toEqual([{ n: 3, email: 'x' }, undefined])
    const { pair } = await world.rooms.storage.get(reservationKey(world.rooms.served, 'spec.email', 'x', 'a'))
    expect(pair && decodeHolder(pair.value).uid).toBe(patched.metadata.uid)
  })

  it('keeps the unique values that the live object holds, and releases no others', async () => {
    await using world = await openStale(thing('a', { email: 'x' }), async (other, served) => {
      await other.replace(served, 'a', thing('a', { email: 'y' }), 'object', options)
      await other.create(served, thing('b', { email: 'x' }), options)
    })
    const { served } = world.rooms
    const { put, delete: remove } = writesOf(world)
    expect(await outcome(put({ email: 'x' }))).toBe('409 AlreadyExists')
    expect(await outcome(put({ email: 'z' }))).toBe('ok')
    const holders = async () =>
      Promise.all(['x', 'y', 'z'].map(value => world.other.holderOf(served, 'spec.email', value, 'a')))
    expect(await holders()).toEqual(['b', undefined, 'a'])
    await remove()
    expect(await holders()).toEqual(['b', undefined, undefined])
  })

  it('marks an object that has gained finalizers instead of removing it', async () => {
    await using world = await openStale(thing('a'), (other, served) =>
      other.replace(served, 'a', thing('a', {}, { finalizers }), 'object', options),
    )
    expect(parse(await writesOf(world).delete()).metadata.deletionTimestamp).toBeDefined()
    expect((await live(world))?.metadata.finalizers).toEqual(finalizers)
  })

  it('deletes the new object if the cached one was being deleted', async () => {
    await using world = await openWorld()
    const { registry, served } = world.rooms
    await registry.create(served, thing('a', {}, { finalizers }), options)
    await registry.delete(served, 'a', {}, options)
    await world.follow()
    world.freeze()
    await world.other.patch(
      served,
      'a',
      { type: 'merge', document: { metadata: { finalizers: null } } },
      'object',
      options,
    )
    await world.other.create(served, thing('a'), options)
    expect(await outcome(writesOf(world).delete())).toBe('ok')
    expect(await live(world)).toBeUndefined()
  })

  it('may only remove finalizers while unique indexes are recomputed', async () => {
    const two = [...finalizers, 'example.com/g']
    await using world = await openWorld()
    const { registry, served, storage } = world.rooms
    await registry.create(served, thing('a', { n: 1 }, { finalizers: two }), options)
    await world.follow()
    const value = Buffer.from(JSON.stringify({ unique: { 'spec.email': 1 }, recomputing: true }))
    await storage.transact({
      compares: [],
      onSuccess: [{ type: 'put', key: registry.records.keyOf(served), value }],
    })
    await registry.records.check(served)
    const { put } = writesOf(world)
    expect(await outcome(put({ n: 2 }, { finalizers: two }))).toBe('503 ServiceUnavailable')
    // The same request is such a removal, but does not look like one from the object in the cache.
    world.freeze()
    const { pair } = await storage.get(served.keyOf('a'))
    const { object } = decodeStored(pair?.value ?? Buffer.alloc(0))
    const raw = encodeStored(encodeObject({ ...object, spec: { n: 2 } }), noReservations)
    await storage.transact({
      compares: [],
      onSuccess: [{ type: 'put', key: served.keyOf('a'), value: raw }],
    })
    expect(await outcome(put({ n: 2 }, { finalizers }))).toBe('ok')
    expect((await live(world))?.metadata.finalizers).toEqual(finalizers)
  })

  it('loses none of many concurrent patches on several servers', async () => {
    await using world = await openStale(thing('a'), changeSpec({ n: 1 }))
    const { registry, served } = world.rooms
    const keys = Array.from({ length: 24 }, (_, n) => `k${n}`)
    await Promise.all(
      keys.map((key, n) =>
        (n % 2 === 0 ? registry : world.other).patch(
          served,
          'a',
          { type: 'merge', document: { metadata: { annotations: { [key]: '' } } } },
          'object',
          options,
        ),
      ),
    )
    expect(Object.keys((await live(world))?.metadata.annotations ?? {}).sort()).toEqual(keys.sort())
  })
})

describe('a write starts from a live read', () => {
  /** Stores the object `a` as another server could have done. */
  async function storeRaw(world: World, apiVersion: string, spec: object): Promise<void> {
    const { storage, served } = world.rooms
    const metadata = { name: 'a', uid: 'u', generation: 1, creationTimestamp: '2024-01-01T00:00:00.000Z' }
    const value = encodeStored(encodeObject({ apiVersion, kind: 'Thing', metadata, spec }), noReservations)
    await storage.transact({ compares: [], onSuccess: [{ type: 'put', key: served.keyOf('a'), value }] })
    await world.follow()
  }

  it('if the object has a unique value that it does not hold', async () => {
    await using world = await openWorld()
    await storeRaw(world, testModel.apiVersion, { email: 'x' })
    await writesOf(world).patch({ spec: { n: 2 } })
    expect(world.calls).toMatchObject({ get: 1, transact: 1 })
    expect(await world.other.holderOf(world.rooms.served, 'spec.email', 'x', 'a')).toBe('a')
  })

  it('if the object was stored under another API version', async () => {
    await using world = await openWorld(versionedModel)
    await storeRaw(world, 'test.example.com/v0', { n: 1 })
    const { put } = writesOf(world)
    await put({ n: 2 })
    expect(world.calls).toMatchObject({ get: 1, transact: 1 })
    await world.follow()
    await put({ n: 3 })
    expect(world.calls).toMatchObject({ get: 0, transact: 1 })
  })

  it('if the cache was built for another start of the plugin', async () => {
    await using world = await openWorld()
    const { registry, served, follower } = world.rooms
    await registry.create(served, thing('a', { n: 1 }), options)
    await world.follow()
    expect(follower.entryOf(served, 'a')?.name).toBe('a')
    expect(follower.entryOf(new ServedModel(testModel), 'a')).toBeUndefined()
  })

  it('while the cache is rebuilt', async () => {
    await using world = await openWorld()
    const { registry, served, follower, cache } = world.rooms
    await registry.create(served, thing('a', { n: 1 }), options)
    await world.follow()
    follower.distrust(cache)
    expect(follower.entryOf(served, 'a')).toBeUndefined()
    await writesOf(world).put({ n: 2 })
    expect((await live(world))?.spec).toEqual({ n: 2 })
  })
})
