import { silentLogger } from '@setpoint/controller-runtime'
import { afterEach, describe, expect, it } from 'vitest'
import { ConsistencyCheck } from '../apiserver/src/cache/index.ts'
import { ServedModel } from '../apiserver/src/model/served-model.ts'
import { assembleRooms, startKind } from '../apiserver/src/rooms.ts'
import { openEtcdStorage } from '../apiserver/src/storage/etcd/index.ts'
import type { Storage } from '../apiserver/src/storage/index.ts'
import { Api, objectOf, refusalOf } from './support/api.ts'
import { type EtcdProcess, patientMs, startEtcd } from './support/etcd.ts'
import { devicesOf, itemsOf, vaultsOf } from './support/kinds.ts'
import { bound, testModel, thing } from './support/rooms.ts'
import { startSharedServer } from './support/server.ts'
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
  readonly farLog: () => string
  /** Compacts etcd at its current revision. */
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
      const server = await startSharedServer({ store: 'etcd', etcd: store, plugins })
      cleanups.push(() => server.stop())
      return { api: new Api(server.url), log: () => server.stderr() }
    }),
  )
  if (near === undefined || far === undefined) throw new Error('no server')
  const storage = await openEtcdStorage({ endpoints: [etcd.endpoint], deadlineMs: patientMs })
  cleanups.push(() => storage.close())
  for (const name of ['one', 'two', 'three']) await itemsOf(near.api).create(name, { code: name })
  await vaultsOf(near.api).create('v', {})
  await devicesOf(near.api).create('d', { size: 1 })
  return {
    etcd,
    proxy,
    near: near.api,
    far: far.api,
    farLog: far.log,
    forget: async () => storage.compact((await storage.head()).current),
  }
}

/** A watch of each transport on the server that is about to be cut off. */
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

/** The events of a watch after its initial ones, as `TYPE name@version`. */
function eventsOf(watch: Watch): string[] {
  const initial = watch.events.findIndex(({ type }) => type === 'BOOKMARK')
  return watch.events
    .slice(initial)
    .filter(({ type }) => type !== 'BOOKMARK')
    .map(({ type, name, version }) => (type === 'ERROR' ? type : `${type} ${name}@${version}`))
}

describe('a server that is cut off from etcd until etcd has compacted the changes it missed', () => {
  it('refuses reads while it is cut off, then ends every watch with 410 and serves the present state', {
    timeout: patience,
  }, async () => {
    const { proxy, near, far, forget } = await divided()
    const watches = await watchAll(far)
    await proxy.refuse()
    const here = itemsOf(near)
    const there = itemsOf(far)
    await here.create('four', { code: 'four' })
    await near.delete(here.at('two'))
    // Reads that need the latest state are refused; reads that accept an old one are served.
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
    for (const watch of Object.values(watches)) {
      expect((await watch.closed).code).toBe(4410)
      expect(eventsOf(watch)).toEqual(['ERROR'])
    }
    const after = await eventually(() => there.create('after', {}))
    expect((await there.list()).raw.items).toEqual((await here.list()).raw.items)
    await eventually(async () => expect((await far.get('/readyz')).status).toBe(200))
    const again = await Watch.open(far.url, there.path)
    cleanups.push(() => again.cut())
    await again.reaches(after.metadata.version)
    expect(again.story).toEqual(['ADDED after', 'ADDED four', 'ADDED one', 'ADDED three'])
    const { text } = await far.get('/metrics')
    expect(text).toMatch(/^setpoint_cache_rebuilds_total\{group="items.example.com",resource="items"\} 1$/m)
  })

  it('ends no watch when etcd still has the changes it missed', { timeout: patience }, async () => {
    const { proxy, near, far, farLog } = await divided()
    const watches = await watchAll(far)
    await proxy.refuse()
    const here = itemsOf(near)
    const created = await here.create('four', {})
    const changed = objectOf(await near.mergePatch(here.at('one'), { spec: { code: 'other' } }))
    await near.delete(here.at('two'))
    await proxy.accept()
    await watches.items.until(watch => watch.story.includes('DELETED two'))
    expect(eventsOf(watches.items).slice(0, 2)).toEqual([
      `ADDED four@${created.metadata.version}`,
      `MODIFIED one@${changed.metadata.version}`,
    ])
    expect(eventsOf(watches.vaults)).toEqual([])
    // The log says when the outage is over.
    await eventually(() => expect(farLog()).toContain('the watch on etcd has resumed'))
  })
})

describe('a cache that has missed a change', () => {
  it('is found by the comparison with the store, ends its watches, and is correct after its repair', {
    timeout: patience,
  }, async () => {
    const etcd = await startEtcd({ unsafeNoFsync: true })
    cleanups.push(() => etcd.stop())
    const log = silentLogger
    const storage = await openEtcdStorage({ endpoints: [etcd.endpoint], deadlineMs: patientMs })
    cleanups.push(() => storage.close())
    const served = new ServedModel(testModel)
    // The real cache, except that its log omits one change.
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
    await eventually(() => expect(check.countsOf(served.resource).success).toBeGreaterThan(1))
    expect(check.countsOf(served.resource)).toMatchObject({ failure: 1, error: 0 })
    stop.abort()
    await running
  })
})

describe('a server whose connection to etcd hangs', () => {
  it('refuses consistent reads within a bounded time, and recovers by itself', {
    timeout: patience,
  }, async () => {
    const { proxy, near, far } = await divided()
    const there = itemsOf(far)
    await there.list()
    // Open connections stay and pass nothing; new ones work.
    proxy.hold()
    const made = await itemsOf(near).create('four', {})
    const answer = await far.get(there.at('four'), { signal: AbortSignal.timeout(60_000) })
    // It refuses the read, or has found another connection.
    if (answer.status !== 200) refusalOf(answer, 503)
    else expect(objectOf(answer).raw).toEqual(made.raw)
    const read = await eventually(() => there.read('four'))
    expect(read.raw).toEqual(made.raw)
  })
})
