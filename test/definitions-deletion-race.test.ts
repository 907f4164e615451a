import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { type Answer, Api, objectOf, refusalOf } from './support/api.ts'
import { define, definitionOf, objectsOf, pathOf } from './support/definitions.ts'
import { type EtcdProcess, startEtcd } from './support/etcd.ts'
import { type ServerOptions, type ServerProcess, startServer } from './support/server.ts'
import { type StorePlace, withStoreAt } from './support/store-peek.ts'
import { eventually } from './support/worlds.ts'

/**
 * Definitions that are deleted while objects are created, and while servers are killed, with real stores and processes. The
 * simulation tries the orders of events.
 */

let etcd: EtcdProcess
beforeAll(async () => {
  etcd = await startEtcd({ unsafeNoFsync: true })
})
afterAll(() => etcd?.stop())

async function start(options: ServerOptions): Promise<ServerProcess> {
  const server = await startServer(options)
  onTestFinished(async () => void (await server.stop()))
  return server
}

/** Returns the keys of the objects of a kind, and of their unique values. */
function keysIn(place: StorePlace, plural: string): Promise<string[]> {
  return withStoreAt(place, async storage => {
    const all = ['objects', 'unique'].map(root =>
      storage.list(`${root}/live.example.com/${plural}/`, { limit: 1_000, keysOnly: true }),
    )
    return (await Promise.all(all)).flatMap(({ pairs }) => pairs.map(({ key }) => key))
  })
}

const indexes = [{ path: '.spec.code', unique: true }]

describe('two servers on one etcd that both create objects while their definition is deleted', () => {
  it.each(['Cluster', 'Namespaced'] as const)('leave none behind (%s), round after round', async scope => {
    const etcdPrefix = `/race-${randomUUID().slice(0, 8)}`
    const options = { store: 'etcd', etcd, etcdPrefix } as const
    const apis = [await start(options), await start(options)].map(({ url }) => new Api(url))
    const [api = new Api('')] = apis
    const definition = definitionOf({ plural: 'races', scope, indexes })
    const namespace = scope === 'Namespaced' ? { namespace: 'default' } : {}
    for (let round = 0; round < 2; round++) {
      await define(api, definition)
      let isGone = false
      const counts = new Map<number, number>()
      const create = async (each: Api, writer: number) => {
        const objects = objectsOf(each, definition, namespace)
        for (let n = 0; !isGone; n++) {
          const name = `r${round}-${writer}-${n}`
          const { status } = await each.post(objects.path, objects.body(name, { code: name }))
          counts.set(status, (counts.get(status) ?? 0) + 1)
        }
      }
      const creators = apis.flatMap((each, at) => [0, 1, 2, 3].map(n => create(each, at * 4 + n)))
      await eventually(() => expect(counts.get(201) ?? 0).toBeGreaterThan(20))
      objectOf(await api.delete(pathOf(definition)))
      await eventually(async () => refusalOf(await api.get(pathOf(definition)), 404))
      isGone = true
      await Promise.all(creators)
      // 503 is for requests that are under way when the kind goes.
      for (const status of counts.keys()) expect([201, 403, 404, 503]).toContain(status)
      expect(await keysIn({ endpoint: etcd.endpoint, prefix: etcdPrefix }, 'races')).toEqual([])
    }
  })

  it('have only objects of the new definition when it is created again at once', async () => {
    const etcdPrefix = `/again-${randomUUID().slice(0, 8)}`
    const options = { store: 'etcd', etcd, etcdPrefix } as const
    const apis = [await start(options), await start(options)].map(({ url }) => new Api(url))
    const [api = new Api('')] = apis
    const spec = (field: string) => ({ type: 'object', properties: { [field]: { type: 'string' } } })
    for (let round = 0; round < 2; round++) {
      const isOdd = round % 2 === 1
      const definition = definitionOf({
        plural: 'again',
        kind: 'Again',
        scope: isOdd ? 'Namespaced' : 'Cluster',
        versions: { v1: { spec: spec(isOdd ? 'odd' : 'even') } },
      })
      await define(api, definition)
      let isDone = false
      const answers: Answer[] = []
      const paths = ['again', 'namespaces/default/again'].map(path => `/apis/live.example.com/v1/${path}`)
      const creators = apis.flatMap((each, at) =>
        paths.map(async path => {
          const body = { apiVersion: 'live.example.com/v1', kind: 'Again', spec: { odd: 'x', even: 'x' } }
          for (let n = 0; !isDone; n++) {
            const metadata = { name: `${round}-${at}-${n}` }
            answers.push(await each.post(path, { ...body, metadata }))
          }
        }),
      )
      await eventually(() =>
        expect(answers.filter(({ status }) => status === 201).length).toBeGreaterThan(10),
      )
      const list = await objectsOf(api, definition).list()
      const wanted = isOdd ? { odd: 'x' } : { even: 'x' }
      for (const { spec, metadata } of list.items)
        expect([metadata.name, spec]).toEqual([metadata.name, wanted])
      const keys = await keysIn({ endpoint: etcd.endpoint, prefix: etcdPrefix }, 'again')
      for (const key of keys) expect(key.split('/').length).toBe(isOdd ? 5 : 4)
      objectOf(await api.delete(pathOf(definition)))
      await eventually(async () => refusalOf(await api.get(pathOf(definition)), 404))
      isDone = true
      await Promise.all(creators)
    }
  })
})

it('a server that is killed while it deletes a definition goes on after its restart, and leaves nothing', async () => {
  const server = await start({ store: 'embedded' })
  const api = new Api(server.url)
  const definition = definitionOf({ plural: 'kills', indexes })
  await define(api, definition)
  const objects = objectsOf(api, definition)
  const names = Array.from({ length: 600 }, (_, n) => `k-${n}`)
  await Promise.all(names.map(name => objects.create(name, { code: name })))
  const deletion = api.delete(pathOf(definition)).catch(() => undefined)
  await eventually(async () =>
    expect(Number((await objects.list({ size: '1' })).raw.total)).toBeLessThan(500),
  )
  await server.restart()
  await deletion
  await eventually(async () => refusalOf(await api.get(pathOf(definition)), 404))
  refusalOf(await api.get(objects.path), 404)
  await define(api, definition)
  expect((await objectsOf(api, definition).list()).names).toEqual([])
  await Promise.all(['k-1', 'k-2'].map(name => objectsOf(api, definition).create(name, { code: name })))
})
