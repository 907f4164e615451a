import { silentLogger } from '@setpoint/controller-runtime'
import { afterEach, describe, expect, it } from 'vitest'
import { ConsistencyCheck } from '../apiserver/src/cache/index.ts'
import { ServedModel } from '../apiserver/src/model/served-model.ts'
import { assembleRooms, startKind } from '../apiserver/src/rooms.ts'
import { openEtcdStorage } from '../apiserver/src/storage/etcd/index.ts'
import type { Storage } from '../apiserver/src/storage/index.ts'
import { bound, testModel, thing } from '../apiserver/src/testing.ts'
import { Api, objectOf, refusalOf } from './support/api.ts'
import { type EtcdProcess, startEtcd } from './support/etcd.ts'
import { devicesOf, itemsOf, vaultsOf } from './support/kinds.ts'
import { startServer } from './support/server.ts'
import { startTcpProxy, type TcpProxy } from './support/tcp-proxy.ts'
import { Watch } from './support/watch.ts'
import { copyFixture, eventually } from './support/worlds.ts'

const patience = 300_000

const cleanups: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean()
})

/** Two servers of one etcd, one of them behind a proxy, with a few objects that both have. */
interface Divided {
  readonly etcd: EtcdProcess
  readonly proxy: TcpProxy
  readonly near: Api
  readonly far: Api
  /** Makes etcd forget everything but the present. */
  forget(): Promise<void>
}

async function divided(): Promise<Divided> {
  const etcd = await startEtcd({ unsafeNoFsync: true })
  cleanups.push(() => etcd.stop())
  const proxy = await startTcpProxy(etcd)
  cleanups.push(() => proxy.close())
  const plugins = [await copyFixture('items-plugin')]
  const [near, far] = await Promise.all(
    [etcd, proxy].map(async store => {
      const server = await startServer({ store: 'etcd', etcd: store, plugins })
      cleanups.push(() => server.stop())
      return new Api(server.url)
    }),
  )
  if (near === undefined || far === undefined) throw new Error('no server')
  const storage = await openEtcdStorage({ endpoints: [etcd.endpoint] })
  cleanups.push(() => storage.close())
  for (const name of ['one', 'two', 'three']) await itemsOf(near).create(name, { code: name })
  await vaultsOf(near).create('v', {})
  await devicesOf(near).create('d', { size: 1 })
  return {
    etcd,
    proxy,
    near,
    far,
    forget: async () => storage.compact((await storage.head()).current),
  }
}

/** A watch of each kind on the server that is about to be cut off. */
async function watchAll({ url }: Api): Promise<Record<'items' | 'devices' | 'vaults', Watch>> {
  const open = async (path: string) => {
    const watch = await Watch.open(url, path)
    cleanups.push(() => watch.cut())
    await watch.synced()
    return watch
  }
  const api = new Api(url)
  const [items, devices, vaults] = await Promise.all([
    open(itemsOf(api).path),
    open(devicesOf(api).path),
    open(vaultsOf(api).path),
  ])
  return { items, devices, vaults }
}

/** What a watch has said after its initial events: `TYPE name@version`. */
function toldBy(watch: Watch): string[] {
  const initial = watch.events.findIndex(({ type }) => type === 'BOOKMARK')
  return watch.events
    .slice(initial)
    .filter(({ type }) => type !== 'BOOKMARK')
    .map(({ type, name, version }) => (type === 'ERROR' ? type : `${type} ${name}@${version}`))
}

describe('a server that is cut off from etcd until etcd has forgotten what it missed', () => {
  it('refuses reads meanwhile, and its watches go on with exactly the missed events', {
    timeout: patience,
  }, async () => {
    const { proxy, near, far, forget } = await divided()
    const watches = await watchAll(far)
    await proxy.refuse()
    const here = itemsOf(near)
    const there = itemsOf(far)
    // More than one change, of every sort; and a kind that is written over and over, whose changes cannot be told.
    const created = await here.create('four', { code: 'four' })
    const changed = objectOf(await near.mergePatch(here.at('one'), { spec: { code: 'other' } }))
    await devicesOf(near).create('e', { size: 1 })
    const updated = objectOf(await near.mergePatch(here.at('three'), { metadata: { labels: { a: 'b' } } }))
    // Away: reads that need the present say so, those that take what is there are answered.
    for (const path of [there.path, there.at('one'), `${there.path}?limit=1`, `${there.path}?watch=true`]) {
      const refusal = await far.get(path)
      refusalOf(refusal, 503)
      expect(refusal.headers.get('retry-after')).toMatch(/^\d+$/)
    }
    expect((await there.list({ resourceVersion: '0' })).names.toSorted()).toEqual(['one', 'three', 'two'])
    const ready = await far.get('/readyz')
    expect(ready.status).toBe(503)
    expect(ready.text).toContain('[-]store failed: the store cannot be reached')
    await forget()
    await proxy.accept()
    const after = await eventually(() => there.create('after', {}))
    await watches.items.reaches(after.metadata.version)
    expect(toldBy(watches.items)).toEqual([
      `ADDED four@${created.metadata.version}`,
      `MODIFIED one@${changed.metadata.version}`,
      `MODIFIED three@${updated.metadata.version}`,
      `ADDED after@${after.metadata.version}`,
    ])
    const device = await devicesOf(near).create('f', { size: 1 })
    await watches.devices.reaches(device.metadata.version)
    expect(toldBy(watches.devices).map(each => each.split('@')[0])).toEqual(['ADDED e', 'ADDED f'])
    expect(toldBy(watches.vaults)).toEqual([])
    expect((await there.list()).raw.items).toEqual((await here.list()).raw.items)
    await eventually(async () => expect((await far.get('/readyz')).status).toBe(200))
    const { text } = await far.get('/metrics')
    expect(text).toMatch(
      /^setpoint_cache_rebuilds_total\{group="items.example.com",resource="items",outcome="exact"\} 1$/m,
    )
  })

  it('tells a deletion, and ends with 410 the watches alone whose changes cannot be told', {
    timeout: patience,
  }, async () => {
    const { proxy, near, far, forget } = await divided()
    const watches = await watchAll(far)
    await proxy.refuse()
    const here = itemsOf(near)
    const vaults = vaultsOf(near)
    for (let n = 0; n < 3; n++)
      objectOf(await near.mergePatch(vaults.at('v'), { metadata: { labels: { n: `${n}` } } }))
    const item = await here.create('four', {})
    await forget()
    await proxy.accept()
    expect((await watches.vaults.closed).code).toBe(4410)
    expect(toldBy(watches.vaults)).toEqual(['ERROR'])
    await watches.items.reaches(item.metadata.version)
    expect(toldBy(watches.items)).toEqual([`ADDED four@${item.metadata.version}`])
    const again = await Watch.open(far.url, vaultsOf(far).path)
    cleanups.push(() => again.cut())
    await again.synced()
    expect(again.story).toEqual(['ADDED v'])
    // Once more, with a deletion and nothing that it could be confused with.
    await proxy.refuse()
    objectOf(await near.delete(here.at('two')))
    await forget()
    await proxy.accept()
    await watches.items.until(watch => watch.story.includes('DELETED two'))
    expect(
      toldBy(watches.items)
        .slice(1)
        .map(each => each.split('@')[0]),
    ).toEqual(['DELETED two'])
    expect((await itemsOf(far).list()).raw.items).toEqual((await here.list()).raw.items)
  })

  it('ends every watch with 410 when somebody else has written to the same etcd', {
    timeout: patience,
  }, async () => {
    const { etcd, proxy, near, far, forget } = await divided()
    const watches = await watchAll(far)
    const other = await openEtcdStorage({ endpoints: [etcd.endpoint], prefix: '/another' })
    cleanups.push(() => other.close())
    await proxy.refuse()
    await itemsOf(near).create('four', {})
    const put = { type: 'put', key: 'k', value: Buffer.from('v') } as const
    await other.transact({ compares: [], onSuccess: [put] })
    await forget()
    await proxy.accept()
    for (const watch of Object.values(watches)) {
      expect((await watch.closed).code).toBe(4410)
      expect(toldBy(watch)).toEqual(['ERROR'])
    }
    await eventually(async () =>
      expect((await itemsOf(far).list()).raw.items).toEqual((await itemsOf(near).list()).raw.items),
    )
  })
})

describe('a cache that has missed a change', () => {
  it('is found by the comparison with the store, ends its watches, and answers rightly after its repair', {
    timeout: patience,
  }, async () => {
    const etcd = await startEtcd({ unsafeNoFsync: true })
    cleanups.push(() => etcd.stop())
    const log = silentLogger
    const storage = await openEtcdStorage({ endpoints: [etcd.endpoint] })
    cleanups.push(() => storage.close())
    const served = new ServedModel(testModel)
    // As it is, but for one change that its log leaves out.
    const lossy: Storage = {
      ...bound(storage),
      async *watch(prefix, options) {
        for await (const { changes, revision } of storage.watch(prefix, options))
          yield { changes: changes.filter(({ key }) => key !== served.keyOf('lost')), revision }
      },
    }
    const rooms = assembleRooms({ storage: lossy, reservedDomain: 'setpoint.dev', basePath: '', log })
    const { follower, models, transport, hub } = rooms
    follower.start()
    cleanups.push(() => follower.stop())
    const stop = new AbortController()
    cleanups.push(async () => {
      stop.abort()
      hub.close()
    })
    models.add(served)
    await startKind(rooms, served, { log, signal: stop.signal })
    const path = `/apis/${testModel.apiVersion}/${testModel.plural}`
    const create = async (name: string) => {
      const body = JSON.stringify(thing(name))
      const headers = { 'content-type': 'application/json' }
      expect((await transport.request({ method: 'POST', path, headers, body })).status).toBe(201)
    }
    const names = async (): Promise<string[]> => {
      const { status, body } = await transport.request({ method: 'GET', path: `${path}?sort=metadata.name` })
      expect(status).toBe(200)
      return JSON.parse(body).items.map((item: { metadata: { name: string } }) => item.metadata.name)
    }
    await create('a')
    const watch = await transport.watch(path, { signal: stop.signal })
    await create('lost')
    await create('z')
    expect(await names()).toEqual(['a', 'z'])
    const check = new ConsistencyCheck({ storage: lossy, follower, log, intervalMs: 10 })
    const running = check.run(stop.signal)
    expect((await watch.end).code).toBe(4410)
    await eventually(async () => expect(await names()).toEqual(['a', 'lost', 'z']))
    await eventually(() => expect(check.counts.get(served.resource)?.success).toBeGreaterThan(1))
    expect(check.counts.get(served.resource)).toMatchObject({ failure: 1, error: 0 })
    stop.abort()
    await running
  })
})

describe('a server whose connection to etcd hangs', () => {
  it('refuses what it cannot know within a bounded time, and serves again by itself', {
    timeout: patience,
  }, async () => {
    const { proxy, near, far } = await divided()
    const there = itemsOf(far)
    await there.list()
    // The present connections stay and pass nothing; new ones work.
    proxy.hold()
    const made = await itemsOf(near).create('four', {})
    const answer = await far.get(there.at('four'), { signal: AbortSignal.timeout(60_000) })
    // Either it does not know, or it has found another connection.
    if (answer.status !== 200) refusalOf(answer, 503)
    else expect(objectOf(answer).raw).toEqual(made.raw)
    const read = await eventually(() => there.read('four'))
    expect(read.raw).toEqual(made.raw)
  })
})
