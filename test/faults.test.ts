import { afterEach, describe, expect, it } from 'vitest'
import { type Answer, Api, type List, objectOf, refusalOf } from './support/api.ts'
import { startEtcd } from './support/etcd.ts'
import { fieldsOf } from './support/json.ts'
import { itemsOf } from './support/kinds.ts'
import { faultsOf, Load, replay } from './support/load.ts'
import { startServer } from './support/server.ts'
import { startSlowProxy } from './support/slow-proxy.ts'
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

describe('two servers on one etcd', () => {
  it('a list or read begun after an acknowledged write on the other contains it', {
    timeout: patience,
  }, async () => {
    const world = await worldOf('etcd', ['items-plugin'])
    const other = await world.another()
    const sides = [itemsOf(world.api), itemsOf(new Api(other.url))]
    const writers = Array.from({ length: 8 }, async (_, writer) => {
      for (let n = 0; n < 625; n++) {
        const here = sides[(writer + n) % 2]
        const there = sides[(writer + n + 1) % 2]
        if (here === undefined || there === undefined) throw new Error('no server')
        const name = `c-${writer}`
        const op = `${writer}-${n}`
        const made =
          n === 0
            ? await here.create(name, { op, rank: op })
            : objectOf(await here.api.put(here.at(name), here.body(name, { op, rank: op })))
        if (n % 3 === 0) expect((await there.read(name)).raw).toEqual(made.raw)
        else {
          const list = await there.list(
            n % 3 === 1 ? { fieldSelector: `spec.rank=${op}` } : { fieldSelector: `metadata.name=${name}` },
          )
          expect(list.items.map(({ raw }) => raw)).toEqual([made.raw])
          expect(Number(list.version)).toBeGreaterThanOrEqual(Number(made.metadata.version))
        }
      }
    })
    await Promise.all(writers)
  })

  it('a list on a server to which the store answers slowly contains what the other has acknowledged', {
    timeout: patience,
  }, async () => {
    const etcd = await startEtcd({ unsafeNoFsync: true })
    cleanups.push(() => etcd.stop())
    const proxy = await startSlowProxy(etcd, 20)
    cleanups.push(() => proxy.close())
    const plugins = [await copyFixture('items-plugin')]
    const near = await startServer({ store: 'etcd', etcd, plugins })
    cleanups.push(() => near.stop())
    const far = await startServer({ store: 'etcd', etcd: proxy, plugins })
    cleanups.push(() => far.stop())
    const here = itemsOf(new Api(near.url))
    const there = itemsOf(new Api(far.url))
    // Several at once, so that a question to the store is always on its way when the next reader comes.
    const clients = Array.from({ length: 8 }, async (_, client) => {
      const name = `s-${client}`
      await here.create(name, {})
      for (let n = 0; n < 30; n++) {
        const made = objectOf(await here.api.put(here.at(name), here.body(name, { op: `${n}` })))
        const list = await there.list({ fieldSelector: `metadata.name=${name}` })
        expect(list.items.map(({ raw }) => raw)).toEqual([made.raw])
      }
    })
    await Promise.all(clients)
  })

  it('an unconditional PUT of the old value, just after the other wrote a new one, is stored', {
    timeout: patience,
  }, async () => {
    const world = await worldOf('etcd', ['items-plugin'])
    const other = await world.another()
    const here = itemsOf(world.api)
    const there = itemsOf(new Api(other.url))
    const first = await here.create('one', { op: 'old' })
    let version = Number(first.metadata.version)
    for (let n = 0; n < 200; n++) {
      objectOf(await here.api.put(here.at('one'), here.body('one', { op: 'new' })))
      const back = objectOf(await there.api.put(there.at('one'), there.body('one', { op: 'old' })))
      expect(Number(back.metadata.version)).toBeGreaterThan(version + 1)
      version = Number(back.metadata.version)
      expect((await here.read('one')).spec).toEqual({ op: 'old' })
    }
  })

  it('a refusal just after the other server made room is never from memory', {
    timeout: patience,
  }, async () => {
    const world = await worldOf('etcd', ['items-plugin'])
    const other = await world.another()
    const here = itemsOf(world.api)
    const there = itemsOf(new Api(other.url))
    for (let n = 0; n < 100; n++) {
      // Not found, taken, duplicate and stale on one server; made true by the other a moment ago.
      const made = await here.create('one', { code: 'c' })
      objectOf(await there.api.mergePatch(there.at('one'), { spec: { count: 1 } }))
      objectOf(await here.api.put(here.at('one'), here.body('one', { code: `d-${n}`, count: 2 })))
      await there.create('two', { code: 'c' })
      objectOf(await here.api.delete(here.at('two')))
      objectOf(await there.api.delete(there.at('one')))
      const again = await here.create('two', { code: `d-${n}` })
      objectOf(
        await there.api.put(there.at('two'), there.body('two', {}, { version: again.metadata.version })),
      )
      objectOf(await here.api.delete(here.at('two')))
      expect(Number(again.metadata.version)).toBeGreaterThan(Number(made.metadata.version))
    }
  })

  it('exactly one of two writers of one unique value at the same instant wins', {
    timeout: patience,
  }, async () => {
    const world = await worldOf('etcd', ['items-plugin'])
    const other = await world.another()
    const sides = [itemsOf(world.api), itemsOf(new Api(other.url))]
    for (let round = 0; round < 200; round++) {
      const code = `value-${round}`
      const answers = await Promise.all(
        sides.map((side, n) => side.api.post(side.path, side.body(`u-${round}-${n}`, { code }))),
      )
      const statuses = answers.map(({ status }) => status).sort()
      expect(statuses).toEqual([201, 409])
      for (const answer of answers) {
        if (answer.status !== 201)
          expect(refusalOf(answer, 409, 'AlreadyExists').causes[0]?.reason).toBe('FieldValueDuplicate')
      }
      const winner = answers.find(({ status }) => status === 201)
      for (const side of sides) {
        const { items: holders } = await side.list({ fieldSelector: `spec.code=${code}` })
        expect(holders.map(({ raw }) => raw)).toEqual([fieldsOf(winner?.body)])
      }
    }
  })

  it('exactly one of two writers of one version wins', { timeout: patience }, async () => {
    const world = await worldOf('etcd', ['items-plugin'])
    const other = await world.another()
    const sides = [itemsOf(world.api), itemsOf(new Api(other.url))]
    let { version } = (await itemsOf(world.api).create('one', { op: 'start' })).metadata
    for (let round = 0; round < 100; round++) {
      const answers = await Promise.all(
        sides.map((side, n) =>
          side.api.put(side.at('one'), side.body('one', { op: `${round}-${n}` }, { version })),
        ),
      )
      expect(answers.map(({ status }) => status).sort()).toEqual([200, 409])
      const winner = answers.find(({ status }) => status === 200)
      if (winner === undefined) throw new Error('nobody won')
      version = objectOf(winner).metadata.version
    }
  })
})
