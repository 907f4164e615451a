import { defineModel } from '@setpoint/controller-runtime'
import { expect, test } from 'vitest'
import { openWorld } from './open-world.ts'
import type { World } from './world.ts'

const Widget = defineModel({
  group: 'world.example.com',
  version: 'v1',
  kind: 'Widget',
  singular: 'widget',
  plural: 'widgets',
  scope: 'Namespaced',
  schema: { spec: { type: 'object', properties: { size: { type: 'integer' } } } },
})
const widgets = '/apis/world.example.com/v1/namespaces/default/widgets'

const widget = (name: string, size: number) => ({
  apiVersion: 'world.example.com/v1',
  kind: 'Widget',
  metadata: { name },
  spec: { size },
})

/** Some clients that create, change, delete, list and watch, each over any server. */
async function useWorld(world: World, writes = 20): Promise<void> {
  const writer = async (client: string) => {
    const random = world.random.fork(client)
    for (let n = 0; n < writes; n++) {
      const path = `${widgets}/${random.pick(['a', 'b', 'c'])}`
      const server = random.int(0, 1)
      const size = random.int(1, 9)
      const request = random.pick([
        { method: 'POST', path: widgets, body: widget(path.slice(-1), size) },
        {
          method: 'PATCH',
          path,
          headers: { 'content-type': 'application/merge-patch+json' },
          body: { spec: { size } },
        },
        { method: 'DELETE', path },
        { method: 'GET', path: widgets },
      ])
      await world.request(client, server, request).catch(() => {})
      await world.sleep(random.next() * 50)
    }
  }
  const watcher = async () => {
    for await (const message of world.watch('watcher', 1, `${widgets}?watch=true`))
      world.trace(`watcher got ${JSON.stringify(message)}`)
  }
  await world.advance(1_000)
  for (const client of ['anna', 'ben']) void writer(client)
  void watcher()
}

test('several servers serve one store', async () => {
  await using world = await openWorld({ seed: 1, models: [Widget], keepTrace: true })
  await world.advance(1_000)
  expect([world.isReady(0), world.isReady(1)]).toEqual([true, true])
  const created = world.request('anna', 0, { method: 'POST', path: widgets, body: widget('a', 1) })
  await world.advance(100)
  expect(await created).toMatchObject({ status: 201, body: { metadata: { name: 'a' } } })
  const listed = world.request('anna', 1, { method: 'GET', path: widgets })
  await world.advance(100)
  expect(await listed).toMatchObject({ status: 200, body: { items: [{ spec: { size: 1 } }] } })
})

test('the same seed gives the same trace, byte for byte', async () => {
  const traceOf = async (seed: number) => {
    await using world = await openWorld({ seed, models: [Widget], keepTrace: true })
    await useWorld(world)
    await world.advance(3_000)
    return [...world.lines, world.traceHash].join('\n')
  }
  const traces = new Set<string>()
  for (let seed = 0; seed < 20; seed++) {
    const trace = await traceOf(seed)
    expect(await traceOf(seed)).toBe(trace)
    traces.add(trace)
  }
  expect(traces.size).toBe(20)
})
