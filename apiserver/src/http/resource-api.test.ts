import { expect, it, vi } from 'vitest'
import { bound, hold, openRooms, testModel } from '../../../test/support/rooms.ts'
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
      caller: { user: { name: 'ann', groups: [] }, plugin: undefined },
      readBody: async () => Buffer.alloc(0),
    })
  const asked = Promise.allSettled([ask('GET'), ask('GET', 'a'), ask('DELETE')])
  follower.distrust(cache)
  const answers = await asked
  reading.release()
  for (const answer of answers) expect(answer).toMatchObject({ status: 'rejected', reason: { code: 503 } })
  await vi.waitFor(async () => expect((await ask('GET')).status).toBe(200), { timeout: 20_000 })
})
