import { ApiError, type ApiObject } from '@setpoint/controller-runtime/api'
import { describe, expect, it, vi } from 'vitest'
import { bound, hold, openRooms, testModel, thing } from '../../../test/support/rooms.ts'
import { ServedModel } from '../model/index.ts'
import { ModelRegistry } from '../model/model-registry.ts'
import { deleteAllDefaults } from '../registry/delete-all.ts'
import { defaultWriteOptions } from '../registry/index.ts'
import { StoreFullError } from '../storage/index.ts'
import type { ApiRequest } from './api-request.ts'
import { ResourceApi } from './resource-api.ts'

it('rejects a request with 503 if its cache turns out to be wrong while it waits for the store', async () => {
  await using rooms = await openRooms()
  const { cache, follower, gate, registry, served, storage } = rooms
  const api = new ResourceApi({ models: new ModelRegistry(), registry, follower, gate, basePath: '' })
  const reading = hold()
  const { list } = bound(storage)
  vi.spyOn(storage, 'list').mockImplementation(async (...page) => {
    await reading.held
    return list(...page)
  })
  const { group, version, plural } = testModel
  const ask = (method: string, name?: string) =>
    api.handle(served, {
      method,
      path: { group, version, namespace: undefined, plural, name, subresource: undefined },
      query: new URLSearchParams(),
      headers: {},
      caller: { user: { name: 'ann', groups: [] }, payer: 'ann', plugin: undefined },
      readBody: async () => Buffer.alloc(0),
    })
  const asked = Promise.allSettled([ask('GET'), ask('GET', 'a'), ask('DELETE')])
  follower.distrust(cache)
  const answers = await asked
  reading.release()
  for (const answer of answers) expect(answer).toMatchObject({ status: 'rejected', reason: { code: 503 } })
  await vi.waitFor(async () => expect((await ask('GET')).status).toBe(200), { timeout: 20_000 })
})

it('acknowledges a write that takes effect at once only when the cache has it', async () => {
  await using rooms = await openRooms()
  const { follower, gate, registry, storage } = rooms
  const api = new ResourceApi({ models: new ModelRegistry(), registry, follower, gate, basePath: '' })
  const served = new ServedModel(testModel, undefined, { rules: { takesEffectAtOnce: true } })
  await follower.add(served, new AbortController().signal)
  served.phase = { name: 'Started' }
  const { group, version, plural, apiVersion, kind } = testModel
  const create = (name: string) =>
    api.handle(served, {
      method: 'POST',
      path: { group, version, namespace: undefined, plural, name: undefined, subresource: undefined },
      query: new URLSearchParams(),
      headers: {},
      caller: { user: { name: 'ann', groups: [] }, payer: 'ann', plugin: undefined },
      readBody: async () => Buffer.from(JSON.stringify({ apiVersion, kind, metadata: { name }, spec: {} })),
    })
  const passing = hold()
  const pass = gate.pass.bind(gate)
  const passes = vi.spyOn(gate, 'pass').mockImplementation(async () => {
    await passing.held
    return pass()
  })
  let isAcknowledged = false
  const created = create('a').then(response => {
    isAcknowledged = true
    return response
  })
  await vi.waitFor(() => expect(passes).toHaveBeenCalled(), { timeout: 20_000 })
  expect((await storage.get(served.keyOf('a'))).pair).toBeDefined()
  expect(isAcknowledged).toBe(false)
  passing.release()
  expect((await created).status).toBe(201)

  passes.mockRejectedValueOnce(new ApiError('ServiceUnavailable', 'the log is away'))
  await expect(create('b')).rejects.toMatchObject({ code: 504 })
})

it('tells how long requests wait for the store', async () => {
  await using rooms = await openRooms()
  const { follower, gate, registry, served, storage } = rooms
  const api = new ResourceApi({ models: new ModelRegistry(), registry, follower, gate, basePath: '' })
  const { group, version, plural, apiVersion, kind } = testModel
  const { head, transact } = bound(storage)
  const later = () => new Promise(resolve => setTimeout(resolve, 5))
  vi.spyOn(storage, 'head').mockImplementation(async (...args) => later().then(() => head(...args)))
  vi.spyOn(storage, 'transact').mockImplementation(async (...args) => later().then(() => transact(...args)))
  const ask = async (method: string, name?: string) => {
    const times = { queueMs: 0, bodyMs: 0, storeMs: 0 }
    await api.handle(served, {
      method,
      path: { group, version, namespace: undefined, plural, name, subresource: undefined },
      query: new URLSearchParams(),
      headers: method === 'PATCH' ? { 'content-type': 'application/merge-patch+json' } : {},
      caller: { user: { name: 'ann', groups: [] }, payer: 'ann', plugin: undefined },
      times,
      readBody: async () =>
        Buffer.from(
          method === 'POST'
            ? JSON.stringify({ apiVersion, kind, metadata: { name: 'a' }, spec: {} })
            : '{"metadata":{"labels":{"a":"b"}}}',
        ),
    })
    return times
  }
  for (const times of [await ask('POST'), await ask('GET'), await ask('GET', 'a'), await ask('PATCH', 'a')]) {
    expect(times.storeMs).toBeGreaterThanOrEqual(4)
    expect(times).toMatchObject({ queueMs: 0, bodyMs: 0 })
  }
})

it('shares the work for long lists between those who pay for them, whomever they act for', async () => {
  await using rooms = await openRooms()
  const { cache, follower, gate, registry, served } = rooms
  const api = new ResourceApi({ models: new ModelRegistry(), registry, follower, gate, basePath: '' })
  const options = { dryRun: false, fieldValidation: 'Warn', plugin: undefined } as const
  await Promise.all(
    Array.from({ length: 400 }, (_, n) => registry.create(served, thing(`thing-${n}`), options)),
  )
  await gate.pass()
  expect(cache.store.size).toBe(400)
  const { group, version, plural } = testModel
  // Each list takes more than one turn.
  const labelSelector = Array.from({ length: 90 }, (_, n) => `l${n}!=v`).join(',')
  const list = (user: string, payer: string) =>
    api.handle(served, {
      method: 'GET',
      path: { group, version, namespace: undefined, plural, name: undefined, subresource: undefined },
      query: new URLSearchParams({ labelSelector, resourceVersion: '0' }),
      headers: {},
      caller: { user: { name: user, groups: [] }, payer, plugin: undefined },
      readBody: async () => Buffer.alloc(0),
    })
  let answered = 0
  const noisy = Array.from({ length: 40 }, async (_, n) => {
    await list(`invented-${n}`, 'ann')
    answered++
  })
  await list('vic', 'vic')
  expect(answered).toBeLessThan(noisy.length / 2)
  await Promise.all(noisy)
})

describe('the deletion of a collection', () => {
  it('responds with the first 500 deleted objects in the order of the list, and counts the others', async () => {
    await using world = await openWorld(600)
    const { bodyOf, request, left } = world
    const dryRun = await bodyOf(request({ query: 'sort=metadata.name&dryRun=All' }))
    expect(await left()).toHaveLength(600)
    const deleted = await bodyOf(request({ query: 'sort=metadata.name' }))
    expect(await left()).toEqual([])
    for (const { kind, metadata, items } of [dryRun, deleted]) {
      const names = items.map(({ metadata }) => metadata.name)
      expect(kind).toBe('ThingList')
      expect(metadata.remainingItemCount).toBe(100)
      expect(names).toHaveLength(500)
      expect(names).toEqual(names.toSorted())
    }
  })

  it('has no count if the response has all of them, and leaves out those that are gone already', async () => {
    await using world = await openWorld(3)
    const { bodyOf, request, left, registry, served } = world
    const { metadata, items } = await bodyOf(
      request({
        query: 'sort=metadata.name',
        // Another client is faster.
        turn: async () => {
          await registry.delete(served, '0001', {}, defaultWriteOptions).catch(() => {})
        },
      }),
    )
    expect(items.map(({ metadata }) => metadata.name)).toEqual(['0000', '0002'])
    expect(metadata).not.toHaveProperty('remainingItemCount')
    expect(await left()).toEqual([])
  })

  it('deletes many objects at the same time, and responds in the order of the list however long each takes', async () => {
    await using world = await openWorld(40)
    const { release, held } = hold()
    let begun = 0
    let ended = 0
    const { transact } = bound(world.storage)
    vi.spyOn(world.storage, 'transact').mockImplementation(async (...args) => {
      if (begun++ === 0) await held
      const result = await transact(...args)
      if (++ended === 39) release()
      return result
    })
    const deletion = world.bodyOf(world.request({ query: 'sort=metadata.name' }))
    const names = (await deletion).items.map(({ metadata }) => metadata.name)
    expect(names).toEqual(names.toSorted())
    expect(await world.left()).toEqual([])
  })

  it('waits for a turn of its caller before each object, and stops when the caller has left', async () => {
    await using world = await openWorld(100)
    const caller = new AbortController()
    const gone = new ApiError('Timeout', 'the client closed the connection')
    let turns = 0
    const turn = async () => {
      if (++turns === 50) caller.abort(gone)
    }
    const { api, served, request, left } = world
    await expect(api.handle(served, request({ turn, signal: caller.signal }))).rejects.toBeDefined()
    const remaining = (await left()).length
    expect(remaining).toBeGreaterThanOrEqual(50)
    // Nothing goes on in the background.
    expect(turns).toBeLessThanOrEqual(50 + deleteAllDefaults.concurrency)
    expect((await left()).length).toBe(remaining)
  })

  it('ends with the first error, after the deletions that have begun', async () => {
    await using world = await openWorld(100)
    const full = new StoreFullError('no space')
    const { transact } = bound(world.storage)
    let calls = 0
    let completed = 0
    vi.spyOn(world.storage, 'transact').mockImplementation(async (...args) => {
      if (++calls === 40) throw full
      const result = await transact(...args)
      completed++
      return result
    })
    const { api, served, request, left } = world
    await expect(api.handle(served, request({}))).rejects.toMatchObject({ code: 503 })
    expect((await left()).length).toBe(100 - completed)
    expect(calls).toBeLessThan(100)
  })
})

/** An API with so many things, named by numbers. */
async function openWorld(count: number) {
  const rooms = await openRooms()
  const { follower, gate, registry, served, storage } = rooms
  const names = Array.from({ length: count }, (_, n) => String(n).padStart(4, '0'))
  await Promise.all(names.map(name => registry.create(served, thing(name), defaultWriteOptions)))
  const api = new ResourceApi({ models: new ModelRegistry(), registry, follower, gate, basePath: '' })
  const { group, version, plural } = testModel
  return {
    ...rooms,
    api,
    /** Returns a deletion of the collection. */
    request: ({
      query = '',
      ...others
    }: { query?: string } & Pick<ApiRequest, 'turn' | 'signal'>): ApiRequest => ({
      method: 'DELETE',
      path: { group, version, namespace: undefined, plural, name: undefined, subresource: undefined },
      query: new URLSearchParams(query),
      headers: {},
      caller: { user: { name: 'ann', groups: [] }, payer: 'ann', plugin: undefined },
      readBody: async () => Buffer.alloc(0),
      ...others,
    }),
    async bodyOf(request: ApiRequest): Promise<ApiList> {
      const { body } = await api.handle(served, request)
      return JSON.parse(Buffer.concat([body].flat()).toString())
    },
    /** Returns the keys that are stored. */
    async left() {
      const { pairs } = await storage.list(served.keyPrefix, { limit: 1_000, keysOnly: true })
      return pairs.map(({ key }) => key)
    },
  }
}

interface ApiList {
  readonly kind: string
  readonly metadata: object & { readonly remainingItemCount?: number }
  readonly items: readonly ApiObject[]
}
