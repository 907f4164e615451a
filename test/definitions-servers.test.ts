import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { Api, refusalOf } from './support/api.ts'
import { define, definitionOf, hasCondition, objectsOf, watchDefinition } from './support/definitions.ts'
import { startEtcd } from './support/etcd.ts'
import { startServer } from './support/server.ts'
import { withStoreAt } from './support/store-peek.ts'
import { Watch } from './support/watch.ts'
import { startWorld, type World } from './support/worlds.ts'

describe('a definition on two servers', () => {
  let world: World
  let here: Api
  let there: Api

  beforeAll(async () => {
    world = await startWorld('etcd', [])
    here = world.api
    there = new Api((await world.another()).url)
  })
  afterAll(() => world?.end())

  it('is served by the other one for the first request after it was seen as established', async () => {
    for (let n = 0; n < 4; n++) {
      const [writer, reader] = n % 2 === 0 ? [here, there] : [there, here]
      const definition = definitionOf({ plural: `far${n}s` })
      const seen = await watchDefinition(n % 4 < 2 ? writer : reader, definition)
      const defined = define(writer, definition)
      await seen.until(({ events }) => events.some(event => hasCondition(event, 'Established')))
      const { spec } = await objectsOf(reader, definition).create('a', { n })
      expect(spec).toEqual({ n })
      await defined
      await seen.close()
    }
  })

  it('is known to the other one when the response to its creation has arrived, also to a watch', async () => {
    for (let n = 0; n < 4; n++) {
      const definition = definitionOf({ plural: `near${n}s` })
      await define(here, definition)
      const watch = await Watch.open(there.url, objectsOf(there, definition).path)
      await watch.synced()
      await watch.close()
    }
  })
})

it('a definition whose indexes a server that is gone has changed is in force again with the next write', async () => {
  const etcd = await startEtcd({ unsafeNoFsync: true })
  onTestFinished(() => etcd.stop())
  const prefix = '/gone'
  const server = await startServer({ store: 'etcd', etcd, etcdPrefix: prefix })
  onTestFinished(async () => void (await server.stop()))
  const api = new Api(server.url)
  const definition = definitionOf({ plural: 'claims', indexes: [{ path: '.spec.code', unique: true }] })
  await define(api, definition)
  const claims = objectsOf(api, definition)
  await claims.create('a', { code: '1' })
  // As a server leaves it that has stopped after it read an earlier state of the definition.
  const key = 'models/live.example.com/claims'
  const value = Buffer.from(JSON.stringify({ unique: {}, highest: {}, recomputing: false, scope: 'Cluster' }))
  await withStoreAt({ endpoint: etcd.endpoint, prefix }, async storage => {
    await storage.transact({ compares: [], onSuccess: [{ type: 'put', key, value }] })
  })
  refusalOf(await api.post(claims.path, claims.body('b', { code: '1' })), 409)
  await claims.create('b', { code: '2' })
})
