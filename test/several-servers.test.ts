import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { Api, type List, objectOf, queryText, refusalOf } from './support/api.ts'
import { fieldsOf, optionalText, textOf } from './support/json.ts'
import { devicesOf, itemsOf } from './support/kinds.ts'
import type { ServerProcess } from './support/server.ts'
import { startWorld, type World } from './support/worlds.ts'

const patience = 300_000

const cleanups: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean()
})

/** With real processes and a real etcd. Orders of events that are rare are the matter of `test/simulation`. */
describe('two servers on one etcd', () => {
  let world: World
  let other: ServerProcess

  beforeAll(async () => {
    world = await startWorld('etcd', ['items-plugin'])
    other = await world.another()
  })
  afterEach(async () => {
    await world.api.delete(itemsOf(world.api).path)
    expect((await itemsOf(world.api).list()).names).toEqual([])
  })
  afterAll(() => world?.end())

  it('a list or read begun after an acknowledged write on the other contains it', {
    timeout: patience,
  }, async () => {
    const sides = [itemsOf(world.api), itemsOf(new Api(other.url))]
    const writers = Array.from({ length: 8 }, async (_, writer) => {
      for (let n = 0; n < 40; n++) {
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

  it('returns each chunk of a list from the state of the first, from alternate servers that both write', {
    timeout: patience,
  }, async () => {
    let [here, there] = [itemsOf(world.api), itemsOf(new Api(other.url))]
    const names = Array.from({ length: 10 }, (_, n) => `i-${n}`)
    for (const name of names) await here.create(name, { rank: '0' })
    let writes = 0
    for (let round = 0; round < 20; round++) {
      const selector: Readonly<Record<string, string>> =
        round % 2 === 0 ? {} : { fieldSelector: 'spec.rank!=1' }
      const whole = await here.list({ ...selector, sort: 'metadata.name' })
      const chunks: List[] = []
      for (let token: string | undefined = ''; token !== undefined; ) {
        const chunk = await here.list({ ...selector, limit: '3', continue: token })
        chunks.push(chunk)
        token = optionalText(fieldsOf(chunk.raw.metadata).continue)
        ;[here, there] = [there, here]
        writes++
        const [updated = '', recreated = ''] = [names[writes % 10], names[(writes * 7 + 1) % 10]]
        objectOf(await here.api.put(here.at(updated), here.body(updated, { rank: `${writes % 3}` })))
        objectOf(await there.api.delete(there.at(recreated)))
        await here.create(recreated, { rank: `${writes % 2}` })
        await there.create(`j-${writes}`, {})
        if (writes > 1) objectOf(await here.api.delete(here.at(`j-${writes - 1}`)))
        await devicesOf(there.api).create(`d-${writes}`, { size: 1 })
      }
      expect(new Set(chunks.map(({ version }) => version)).size).toBe(1)
      expect(chunks.flatMap(({ items }) => items.map(({ raw }) => raw))).toEqual(
        whole.items.map(({ raw }) => raw),
      )
    }
    await devicesOf(here.api).clear()
  })

  it('returns the state at a version that no list of this server has shown', async () => {
    const [here, there] = [itemsOf(world.api), itemsOf(new Api(other.url))]
    const states: { version: string; ranks: Map<string, string> }[] = []
    for (let n = 0; n < 60; n++) {
      const ranks = new Map(states.at(-1)?.ranks)
      const name = `e-${(n * 7) % 11}`
      const rank = `${n % 5}`
      if (ranks.has(name) && n % 3 === 0) {
        objectOf(await here.api.delete(here.at(name)))
        ranks.delete(name)
        // The version of a write to another kind is a state of this kind, too.
        const { metadata } = await devicesOf(here.api).create(`d-${n}`, { size: 1 })
        states.push({ version: metadata.version, ranks })
        continue
      }
      const { metadata } = ranks.has(name)
        ? objectOf(await here.api.put(here.at(name), here.body(name, { rank })))
        : await here.create(name, { rank })
      states.push({ version: metadata.version, ranks: ranks.set(name, rank) })
    }
    for (let n = 0; n < 60; n++) {
      const { version, ranks } = states[(n * 37) % 60] ?? { version: '', ranks: new Map<string, string>() }
      const exact = { resourceVersion: version, resourceVersionMatch: 'Exact' }
      const sorted = await there.list({
        ...exact,
        sort: ['spec.rank,desc', 'metadata.name'],
        page: '1',
        size: '4',
      })
      const inOrder = [...ranks].sort(([a, of], [b, than]) => than.localeCompare(of) || a.localeCompare(b))
      expect(sorted.version).toBe(version)
      expect(sorted.raw.total).toBe(ranks.size)
      expect(sorted.items.map(({ metadata, spec }) => [metadata.name, spec.rank])).toEqual(
        inOrder.slice(0, 4),
      )
      const selected = await there.list({
        ...exact,
        fieldSelector: 'spec.rank in (1,2)',
        sort: 'metadata.name',
      })
      const expected = [...ranks].filter(([, rank]) => rank === '1' || rank === '2').map(([name]) => name)
      expect(selected.names).toEqual(expected.sort())
    }
    await devicesOf(here.api).clear()
  })

  it('continues the list of a killed server; a server that starts later rejects it with 410', {
    timeout: patience,
  }, async () => {
    const there = itemsOf(new Api(other.url))
    for (const name of ['k-1', 'k-2', 'k-3', 'k-4', 'k-5']) await there.create(name, {})
    const third = await world.another()
    const first = await itemsOf(new Api(third.url)).list({ limit: '2' })
    const query = { limit: '2', continue: textOf(fieldsOf(first.raw.metadata).continue) }
    await third.kill('SIGKILL')
    objectOf(await there.api.delete(there.at('k-3')))
    await there.create('k-30', {})
    const second = await there.list(query)
    expect([second.names, second.version]).toEqual([['k-3', 'k-4'], first.version])
    const last = await there.list({ limit: '2', continue: textOf(fieldsOf(second.raw.metadata).continue) })
    expect(last.names).toEqual(['k-5'])
    const fourth = await world.another()
    refusalOf(await new Api(fourth.url).get(`${there.path}${queryText(query)}`), 410, 'Expired')
  })

  it('an unconditional PUT of the old value, just after the other wrote a new one, is stored', {
    timeout: patience,
  }, async () => {
    const here = itemsOf(world.api)
    const there = itemsOf(new Api(other.url))
    const first = await here.create('one', { op: 'old' })
    let version = Number(first.metadata.version)
    for (let n = 0; n < 100; n++) {
      objectOf(await here.api.put(here.at('one'), here.body('one', { op: 'new' })))
      const back = objectOf(await there.api.put(there.at('one'), there.body('one', { op: 'old' })))
      expect(Number(back.metadata.version)).toBeGreaterThan(version + 1)
      version = Number(back.metadata.version)
      expect((await here.read('one')).spec).toEqual({ op: 'old' })
    }
  })

  it('a refusal is never based on a stale cache', {
    timeout: patience,
  }, async () => {
    const here = itemsOf(world.api)
    const there = itemsOf(new Api(other.url))
    for (let n = 0; n < 40; n++) {
      // Not found, taken, duplicate and stale on one server, just after the other has removed the reason.
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

  it('exactly one of two concurrent writers of one unique value wins', {
    timeout: patience,
  }, async () => {
    const sides = [itemsOf(world.api), itemsOf(new Api(other.url))]
    for (let round = 0; round < 30; round++) {
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

  it('exactly one of two writers with the same version wins', { timeout: patience }, async () => {
    const sides = [itemsOf(world.api), itemsOf(new Api(other.url))]
    let { version } = (await itemsOf(world.api).create('one', { op: 'start' })).metadata
    for (let round = 0; round < 50; round++) {
      const answers = await Promise.all(
        sides.map((side, n) =>
          side.api.put(side.at('one'), side.body('one', { op: `${round}-${n}` }, { version })),
        ),
      )
      expect(answers.map(({ status }) => status).sort()).toEqual([200, 409])
      const winner = answers.find(({ status }) => status === 200)
      if (winner === undefined) throw new Error('neither write succeeded')
      version = objectOf(winner).metadata.version
    }
  })

  it('no patch of twelve writers of one object through both is refused or lost', {
    timeout: patience,
  }, async () => {
    const sides = [itemsOf(world.api), itemsOf(new Api(other.url))]
    await itemsOf(world.api).create('one', {})
    const keys: string[] = []
    const writers = Array.from({ length: 12 }, async (_, writer) => {
      const side = sides[writer % 2]
      if (side === undefined) throw new Error('no server')
      for (let n = 0; n < 30; n++) {
        const key = `k-${writer}-${n}`
        objectOf(await side.api.mergePatch(side.at('one'), { metadata: { annotations: { [key]: '' } } }))
        keys.push(key)
      }
    })
    await Promise.all(writers)
    for (const side of sides)
      expect(Object.keys((await side.read('one')).metadata.annotations).sort()).toEqual(keys.sort())
  })
})
