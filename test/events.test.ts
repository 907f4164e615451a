import { rm } from 'node:fs/promises'
import { afterEach, expect, it } from 'vitest'
import { Api, listOf, objectOf } from './support/api.ts'
import { pluginModule, writePlugin } from './support/plugins.ts'
import { startServer } from './support/server.ts'
import { eventually } from './support/worlds.ts'

const cleanups: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean()
})

const events = '/api/v1/namespaces/default/events'

it("a plugin's events can be listed by their object, and an orderly stop writes the pending ones", async () => {
  const dir = await writePlugin({
    'index.js': pluginModule('witness', {
      setup: `plugin.controller(Thing, c => c.reconcile(thing => {
        plugin.events.record(thing, { type: 'Warning', reason: 'Seen', message: 'saw ' + thing.spec.text })
      }))`,
    }),
  })
  const server = await startServer({ plugins: [dir] })
  cleanups.push(
    () => rm(dir, { recursive: true }),
    () => server.stop(),
  )
  const api = new Api(server.url)
  const things = '/apis/witness.example.com/v1/things'
  const create = (name: string, text: string) =>
    api.post(things, {
      apiVersion: 'witness.example.com/v1',
      kind: 'Thing',
      metadata: { name },
      spec: { text },
    })
  const thing = objectOf(await create('a', 'one'), 201)
  const of = async (name: string) =>
    listOf(await api.get(`${events}?fieldSelector=involvedObject.name%3D${name}`)).items.map(({ raw }) => raw)
  await eventually(async () =>
    expect(await of('a')).toMatchObject([
      {
        involvedObject: {
          apiVersion: 'witness.example.com/v1',
          kind: 'Thing',
          name: 'a',
          uid: thing.metadata.uid,
        },
        type: 'Warning',
        reason: 'Seen',
        message: 'saw one',
        source: { component: 'witness' },
        count: 1,
      },
    ]),
  )
  objectOf(await api.mergePatch(`${things}/a`, { spec: { text: 'two' } }))
  objectOf(await create('b', 'three'), 201)
  await eventually(async () => expect(await of('b')).toMatchObject([{ message: 'saw three' }]))
  // The event of `a` may be pending: one event is written at most every ten seconds.
  await server.kill('SIGTERM')
  await server.restart({ plugins: [] })
  expect(await of('a')).toMatchObject([{ message: 'saw two', count: 2 }])
})
