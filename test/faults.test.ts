import { afterEach, describe, expect, it } from 'vitest'
import { type Answer, Api, type List, objectOf, refusalOf } from './support/api.ts'
import { startEtcd } from './support/etcd.ts'
import { itemsOf } from './support/kinds.ts'
import { faultsOf, Load, replay } from './support/load.ts'
import { startServer } from './support/server.ts'
import { startTcpProxy } from './support/tcp-proxy.ts'
import { Follower } from './support/watch.ts'
import { copyFixture, eventually, startWorld, type World } from './support/worlds.ts'

const patience = 120_000

const cleanups: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean()
})

async function worldOf(...args: Parameters<typeof startWorld>): Promise<World> {
  const world = await startWorld(...args)
  cleanups.push(() => world.end())
  return world
}

/** Watchers of items, which come back by themselves whatever happens. */
async function followers(count: number, url: () => string): Promise<Follower[]> {
  const all = Array.from({ length: count }, () => new Follower(url, '/apis/items.example.com/v1/items'))
  cleanups.push(() => Promise.all(all.map(each => each.stop())))
  await Promise.all(all.map(each => each.synced()))
  return all
}

function stateOf(list: List): Map<string, string> {
  return new Map(list.items.map(({ metadata }) => [metadata.name, metadata.version]))
}

/** Stops the load and checks everything that is promised about it. */
async function check(load: Load, watchers: readonly Follower[], read: () => Promise<List>): Promise<void> {
  await load.stop()
  const list = await eventually(read)
  const state = stateOf(list)
  const last = [...load.writes]
    .map(({ outcome }) => (outcome.kind === 'acknowledged' ? Number(outcome.version) : 0))
    .reduce((max, version) => Math.max(max, version), 0)
  for (const watcher of watchers) {
    await watcher.reaches(String(Math.max(last, ...[...state.values()].map(Number))))
    expect(faultsOf(watcher, load.writes)).toEqual([])
    expect(new Map([...replay(watcher)].sort())).toEqual(new Map([...state].sort()))
  }
  // One and the same story for everybody.
  const [first, ...others] = watchers.map(({ changes }) => changes.map(({ raw }) => JSON.stringify(raw)))
  for (const other of others) expect(other).toEqual(first)
  // Enough happened for all that to mean something.
  expect(load.acknowledged).toBeGreaterThan(100)
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
    const watchers = [
      ...(await followers(3, () => world.server.url)),
      ...(await followers(3, () => other.url)),
    ]
    let turn = 0
    const apis = urls.map(url => new Api(url))
    const load = new Load(() => apis[turn++ % apis.length] ?? world.api)
    for (let kills = 0; kills < 3; kills++) {
      await load.progress(150)
      await etcd.kill('SIGKILL')
      // Long enough for writes to meet the hole.
      const before = load.writes.length
      await eventually(() => {
        if (load.writes.length < before + 20) throw new Error('no write has met the hole')
      })
      await etcd.restart()
      await load.progress(50)
    }
    await check(load, watchers, () => itemsOf(world.api).list())
    const unavailable = load.writes.filter(({ outcome }) => outcome.kind === 'refused')
    expect(unavailable.length).toBeGreaterThan(0)
    // A server stayed up through all of it: its watchers never had to start over.
    for (const watcher of watchers) expect(watcher.expired).toBe(0)
  })

  it('reads and writes meanwhile are refused with 503 and Retry-After, and the server comes back by itself', {
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
        // The first write after the cut may have been on its way.
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

  it('a write whose answer was lost tells the truth: 201 happened, 503 did not, else 504 says that nobody knows', {
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
    // The store stays there, so that it can be asked what has become of the write.
    for (let n = 0; n < 15; n++) {
      const cut = proxy.cutNextAnswer()
      await create(`asked-${n}`)
      await cut
      await eventually(() => items.list())
    }
    // The store is gone for longer than anybody waits for an answer.
    const cut = proxy.cutNextAnswer()
    const writes = Array.from({ length: 8 }, (_, n) => create(`gone-${n}`))
    await cut
    await proxy.refuse()
    await Promise.all(writes)
    await proxy.accept()
    const names = new Set((await eventually(() => items.list())).names)
    for (const [name, answer] of told) {
      const { status } = answer
      if (status === 201) expect(names).toContain(name)
      else if (status === 503) expect(names).not.toContain(name)
      else expect(refusalOf(answer, 504).message).toMatch(/may have/)
    }
    expect([...told.values()].map(({ status }) => status)).toContain(504)
  })
})

describe('with the embedded server killed by SIGKILL and restarted under load', () => {
  it('no acknowledged write is lost, no refused one appears, and no watcher misses or doubles an event', {
    timeout: patience,
  }, async () => {
    const world = await worldOf('embedded', ['items-plugin'])
    const watchers = await followers(4, () => world.server.url)
    const load = new Load(() => world.api)
    for (let kills = 0; kills < 4; kills++) {
      await load.progress(150)
      await world.server.kill('SIGKILL')
      await world.server.restart()
      await load.progress(50)
    }
    await check(load, watchers, () => itemsOf(world.api).list())
    for (const watcher of watchers) expect(watcher.resumed.length).toBeGreaterThanOrEqual(4)
  })
})

describe('with a server on etcd killed by SIGKILL and restarted under load', () => {
  it('watchers resume on it, and on another server, without a gap', { timeout: patience }, async () => {
    const world = await worldOf('etcd', ['items-plugin'])
    const other = await world.another()
    const stays = await followers(2, () => world.server.url)
    // These change servers at every connection.
    let turn = 0
    const moves = await followers(3, () => [world.server.url, other.url][turn++ % 2] ?? '')
    const load = new Load(() => world.api)
    for (let kills = 0; kills < 2; kills++) {
      await load.progress(120)
      await world.server.kill('SIGKILL')
      await world.server.restart()
      await load.progress(50)
      await other.kill('SIGKILL')
      await other.restart()
    }
    await check(load, [...stays, ...moves], () => itemsOf(world.api).list())
  })
})

describe('with the store away at the start', () => {
  it('the server listens, answers 503 with Retry-After, and serves by itself once the store is there', {
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
