import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Answer, type Api, objectOf, refusalOf } from './support/api.ts'
import {
  applyDefinition,
  conditionIn,
  define,
  definitionOf,
  objectsOf,
  readDefinition,
} from './support/definitions.ts'
import type { Fields } from './support/json.ts'
import { refusedWatch, Watch, WatchRefused } from './support/watch.ts'
import { bothStores, eventually, type SharedWorld, startSharedWorld } from './support/worlds.ts'

/** Indexes that take a while to be built. */

const count = 4_000
const spec: Fields = { type: 'object', properties: { code: { type: 'string' }, color: { type: 'string' } } }
const plain = definitionOf({ plural: 'tickets', versions: { v1: { spec } } })
const indexed = definitionOf({
  plural: 'tickets',
  versions: { v1: { spec, selectable: ['.spec.color'] } },
  indexes: [{ path: '.spec.code', unique: true }],
})

describe.each(bothStores)('on %s, while the indexes of a definition are built', store => {
  let world: SharedWorld
  let api: Api

  beforeAll(async () => {
    world = await startSharedWorld(store, [])
    api = world.api
    await define(api, plain)
    const tickets = objectsOf(api, plain)
    for (let at = 0; at < count; at += 50) {
      const some = Array.from({ length: 50 }, (_, n) => at + n)
      await Promise.all(
        some.map(n => tickets.create(`t-${n}`, { code: `${n}`, color: n % 2 ? 'red' : 'blue' })),
      )
    }
  })
  afterAll(() => world?.end())

  it('lists that use them are 503, and writes and other reads go on', async () => {
    const tickets = objectsOf(api, plain)
    let isBuilt = false
    const repeat = async (ask: (n: number) => Promise<Answer>) => {
      const answers: Answer[] = []
      for (let n = 0; !isBuilt; n++) answers.push(await ask(n))
      return answers
    }
    const byIndex = async (query: string) => {
      const statuses: number[] = []
      while (statuses.at(-1) !== 200) {
        const answer = await api.get(`${tickets.path}?size=1&${query}`)
        if (answer.status === 503) refusalOf(answer, 503)
        if (answer.status !== statuses.at(-1)) statuses.push(answer.status)
      }
      return statuses
    }
    const watchByIndex = async () => {
      const statuses: number[] = []
      for (;;) {
        try {
          await (await Watch.open(world.server.url, `${tickets.path}?fieldSelector=spec.color=green`)).close()
          return [...statuses, 200]
        } catch (error) {
          if (!(error instanceof WatchRefused)) throw error
          if (error.answer.status !== statuses.at(-1)) statuses.push(error.answer.status)
        }
      }
    }
    const built = Promise.all([
      byIndex('fieldSelector=spec.code=7'),
      byIndex('sort=spec.color'),
      watchByIndex(),
    ]).finally(() => {
      isBuilt = true
    })
    const others = Promise.all([
      repeat(() => api.get(`${tickets.path}?size=1`)),
      repeat(() => api.get(tickets.at('t-1'))),
      repeat(n => api.mergePatch(tickets.at('t-2'), { spec: { color: `${n}` } })),
      repeat(n => api.post(tickets.path, tickets.body(`new-${n}`, { code: `new-${n}` }))),
      repeat(n => api.post(tickets.path, tickets.body(`copy-${n}`, { code: `${n}` }))),
    ])
    await Promise.all([applyDefinition(api, indexed), built])
    // A request may come before the definition is stored, none after it.
    for (const statuses of await built) expect(statuses.join(' ')).toMatch(/^(400 )?503 200$/)
    const [lists, reads, patches, creations, copies] = await others
    for (const some of [lists, reads, patches])
      expect(new Set(some.map(({ status }) => status))).toEqual(new Set([200]))
    expect(new Set(creations.map(({ status }) => status))).toEqual(new Set([201]))
    for (const { status } of copies) expect([201, 409]).toContain(status)
  })

  it('a value that two objects got then is held by the older one, and the index holds for all others', async () => {
    const tickets = objectsOf(api, plain)
    const problems = async () => conditionIn(await readDefinition(api, plain), 'IndexesInForce')
    const copies = (await tickets.list()).names.filter(name => name.startsWith('copy-'))
    if (copies.length > 0) await eventually(async () => expect(await problems()).toBe('False Problems'))
    for (let n = 0; n < count; n += 97)
      refusalOf(await api.post(tickets.path, tickets.body('late', { code: `${n}` })), 409)
    for (const name of copies) {
      objectOf(await api.mergePatch(tickets.at(name), { spec: { color: 'any' } }))
      await api.delete(tickets.at(name))
    }
    await eventually(async () => expect(await problems()).toBe('True NoProblems'))
    expect((await refusedWatch(world.server.url, `${tickets.path}?fieldSelector=spec.size=1`)).status).toBe(
      400,
    )
  })
})
