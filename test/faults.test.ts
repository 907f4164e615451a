import { laterRevision } from '@setpoint/controller-runtime/api'
import { afterEach, describe, expect, it } from 'vitest'
import { type Answer, Api, objectOf, refusalOf } from './support/api.ts'
import { startEtcd } from './support/etcd.ts'
import { itemsOf } from './support/kinds.ts'
import { Load } from './support/load.ts'
import { markOf, recordedListOf } from './support/record.ts'
import { RecordedWatcher } from './support/recorded-watcher.ts'
import { startServer } from './support/server.ts'
import { startTcpProxy } from './support/tcp-proxy.ts'
import { RunRecorder } from './support/watch-record/index.ts'
import { copyFixture, eventually, startWorld, type World } from './support/worlds.ts'

const patience = 300_000

const cleanups: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean()
})

async function worldOf(...args: Parameters<typeof startWorld>): Promise<World> {
  const world = await startWorld(...args)
  cleanups.push(() => world.end())
  return world
}

/** Watchers of items, which reconnect by themselves. */
async function followers(
  count: number,
  recorder: RunRecorder,
  url: () => string,
): Promise<RecordedWatcher[]> {
  const all = Array.from({ length: count }, () => {
    const name = `watcher ${recorder.log.watchers.length}`
    return new RecordedWatcher({
      url,
      address: '/apis/items.example.com/v1/items',
      recorder: recorder.watcher(name, { witness: true }),
    })
  })
  cleanups.push(() => Promise.all(all.map(each => each.stop())))
  await Promise.all(all.map(each => each.synced()))
  return all
}

/** Stops the load and checks every promise. */
async function check(
  load: Load,
  recorder: RunRecorder,
  watchers: readonly RecordedWatcher[],
  api: Api,
): Promise<void> {
  await load.stop()
  const { acknowledged } = recorder
  const { version, objects } = await eventually(async () => recordedListOf(await api.get(itemsOf(api).path)))
  recorder.listed({ name: 'the last list', selects: () => true, version, objects, acknowledged })
  const upTo = laterRevision(version, acknowledged)
  await Promise.all(watchers.map(watcher => watcher.catchUp(upTo)))
  expect(recorder.check({ upTo })).toEqual([])
  // Proves that the load was large enough.
  expect(load.outcomes.acknowledged).toBeGreaterThan(100)
}

describe('with etcd killed by SIGKILL and restarted under load', () => {
  it('no acknowledged write is lost, no refused one appears, and no watcher misses or doubles an event', {
    timeout: patience,
  }, async () => {
    const world = await worldOf('etcd', ['items-plugin'])
    const { etcd } = world
    if (etcd === undefined) throw new Error('no etcd')
    const other = await world.another()
    const urls = [world.server.url, other.url]
    const recorder = new RunRecorder({ markOf })
    const watchers = [
      ...(await followers(3, recorder, () => world.server.url)),
      ...(await followers(3, recorder, () => other.url)),
    ]
    let turn = 0
    const apis = urls.map(url => new Api(url))
    const load = new Load(recorder, () => apis[turn++ % apis.length] ?? world.api)
    for (let kills = 0; kills < 3; kills++) {
      await load.progress(150)
      await etcd.kill('SIGKILL')
      // Long enough that writes fail.
      const before = load.attempts
      await eventually(() => {
        if (load.attempts < before + 20) throw new Error('no write has met the hole')
      })
      await etcd.restart()
      await load.progress(50)
    }
    await check(load, recorder, watchers, world.api)
    expect(load.outcomes.refused).toBeGreaterThan(0)
  })

  it('reads and writes meanwhile get 503 and Retry-After, and the server recovers by itself', {
    timeout: patience,
  }, async () => {
    const world = await worldOf('etcd', ['items-plugin'])
    const { etcd, api } = world
    if (etcd === undefined) throw new Error('no etcd')
    const items = itemsOf(api)
    const made = await items.create('one', { count: 1 })
    await etcd.kill('SIGKILL')
    const refusals = [
      () => api.get(items.path),
      () => api.get(items.at('one')),
      () => api.put(items.at('one'), items.body('one', { count: 2 })),
      () => api.delete(items.at('one')),
    ]
    for (const ask of refusals) {
      await eventually(async () => {
        const answer = await ask()
        // The first write after the cut may have been in flight.
        expect([503, 504]).toContain(answer.status)
        refusalOf(answer, answer.status)
        expect(answer.status).toBe(503)
      })
    }
    expect((await api.get('/livez')).status).toBe(200)
    await eventually(async () => expect((await api.get('/readyz')).status).toBe(503))
    await etcd.restart()
    await eventually(async () => expect((await api.get('/readyz')).status).toBe(200))
    expect((await eventually(() => items.read('one'))).raw).toEqual(made.raw)
    objectOf(await api.put(items.at('one'), items.body('one', { count: 3 })))
  })

  it('a write whose response was lost is reported truthfully: 201 was stored, 503 was not, 504 is unknown', {
    timeout: patience,
  }, async () => {
    const etcd = await startEtcd({ unsafeNoFsync: true })
    cleanups.push(() => etcd.stop())
    const proxy = await startTcpProxy({ port: etcd.port })
    cleanups.push(() => proxy.close())
    const plugin = await copyFixture('items-plugin')
    const server = await startServer({ store: 'etcd', etcd: proxy, plugins: [plugin] })
    cleanups.push(() => server.stop())
    const api = new Api(server.url)
    const items = itemsOf(api)
    const told = new Map<string, Answer>()
    const create = async (name: string) => {
      told.set(name, await api.post(items.path, items.body(name, { op: name })))
    }
    // The store stays up, so that the test can read the outcome of the write.
    for (let n = 0; n < 15; n++) {
      const cut = proxy.cutNextAnswer()
      await create(`asked-${n}`)
      await cut
      await eventually(() => items.list())
    }
    // The store is away for longer than any deadline. The first connection may be that of a watch instead of the write.
    for (let round = 0; ![...told.values()].some(({ status }) => status === 504); round++) {
      const cut = proxy.cutNextAnswer()
      const writes = Array.from({ length: 8 }, (_, n) => create(`gone-${round}-${n}`))
      await cut
      await proxy.refuse()
      await Promise.all(writes)
      await proxy.accept()
      await eventually(() => items.list())
    }
    const names = new Set((await eventually(() => items.list())).names)
    for (const [name, answer] of told) {
      const { status } = answer
      if (status === 201) expect(names).toContain(name)
      else if (status === 503) expect(names).not.toContain(name)
      else expect(refusalOf(answer, 504).message).toMatch(/may have/)
    }
  })
})

describe('with the embedded server killed by SIGKILL and restarted under load', () => {
  it('no acknowledged write is lost, no refused one appears, and no watcher misses or doubles an event', {
    timeout: patience,
  }, async () => {
    const world = await worldOf('embedded', ['items-plugin'])
    const recorder = new RunRecorder({ markOf })
    const watchers = await followers(4, recorder, () => world.server.url)
    const load = new Load(recorder, () => world.api)
    for (let kills = 0; kills < 4; kills++) {
      await load.progress(150)
      await world.server.kill('SIGKILL')
      const before = watchers.map(({ connections }) => connections)
      await world.server.restart()
      await load.progress(50)
      // Each watcher has reconnected before the next kill.
      await eventually(() => {
        for (const [n, { connections }] of watchers.entries())
          expect(connections).toBeGreaterThan(before[n] ?? 0)
      })
    }
    await check(load, recorder, watchers, world.api)
  })
})

describe('with a server on etcd killed by SIGKILL and restarted under load', () => {
  it('watchers resume on it and on another server without a gap', { timeout: patience }, async () => {
    const world = await worldOf('etcd', ['items-plugin'])
    const other = await world.another()
    const recorder = new RunRecorder({ markOf })
    const stays = await followers(2, recorder, () => world.server.url)
    // These watchers change servers at every connection.
    let turn = 0
    const moves = await followers(3, recorder, () => [world.server.url, other.url][turn++ % 2] ?? '')
    const load = new Load(recorder, () => world.api)
    for (let kills = 0; kills < 2; kills++) {
      await load.progress(120)
      await world.server.kill('SIGKILL')
      await world.server.restart()
      await load.progress(50)
      await other.kill('SIGKILL')
      await other.restart()
    }
    await check(load, recorder, [...stays, ...moves], world.api)
  })
})

describe('with the store down at the start', () => {
  it('the server listens, responds with 503 and Retry-After, and serves when the store is up', {
    timeout: patience,
  }, async () => {
    const etcd = await startEtcd({ unsafeNoFsync: true })
    cleanups.push(() => etcd.stop())
    await etcd.kill()
    const plugin = await copyFixture('items-plugin')
    const server = await startServer({ store: 'etcd', etcd, plugins: [plugin] })
    cleanups.push(() => server.stop())
    const api = new Api(server.url)
    const items = itemsOf(api)
    expect((await api.get('/livez')).status).toBe(200)
    expect((await api.get('/readyz')).status).toBe(503)
    refusalOf(await api.get(items.path), 503)
    refusalOf(await api.post(items.path, items.body('early', {})), 503)
    await etcd.restart()
    await eventually(() => items.create('late', {}))
    await eventually(async () => expect((await api.get('/readyz')).status).toBe(200))
    expect((await items.list()).names).toEqual(['late'])
  })
})
