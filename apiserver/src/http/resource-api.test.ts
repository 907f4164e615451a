import { ApiError } from '@setpoint/controller-runtime/api'
import { expect, it, vi } from 'vitest'
import { bound, hold, openRooms, testModel, thing } from '../../../test/support/rooms.ts'
import { ServedModel } from '../model/index.ts'
import { ModelRegistry } from '../model/model-registry.ts'
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
