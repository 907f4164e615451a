import { expect, test } from 'vitest'
import { runsOf } from '../../support/runs.ts'
import { openWorld } from './open-world.ts'
import { call, creation, widgetModel, widgets } from './sample.ts'
import type { World } from './world.ts'

const releases = [() => [widgetModel()]]

/** Some clients that create, change, delete, list and watch, each over any server. */
async function useWorld(world: World, writes = 12): Promise<void> {
  const writer = async (client: string) => {
    const random = world.random.fork(client)
    for (let n = 0; n < writes; n++) {
      const path = `${widgets}/${random.pick(['a', 'b', 'c'])}`
      const server = random.int(0, 1)
      const size = random.int(1, 9)
      const request = random.pick([
        creation(path.slice(-1), size),
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
  await world.advance(500)
  for (const client of ['anna', 'ben']) void writer(client)
  void watcher()
}

test('several servers serve one store', async () => {
  await using world = await openWorld({ seed: 1, releases, keepTrace: true })
  await world.advance(1_000)
  expect([world.isReady(0), world.isReady(1)]).toEqual([true, true])
  expect(await call(world, 0, creation('a', 3))).toMatchObject({ status: 201 })
  const listed = await call(world, 1, { method: 'GET', path: widgets })
  expect(listed).toMatchObject({ status: 200, body: { items: [{ spec: { size: 3 } }] } })
})

test('the same seed gives the same trace, byte for byte', async () => {
  const traceOf = async (seed: number) => {
    await using world = await openWorld({ seed, releases, keepTrace: true })
    await useWorld(world)
    await world.advance(1_000)
    return [...world.lines, world.traceHash].join('\n')
  }
  const runs = runsOf(20)
  const traces = new Set<string>()
  for (let seed = 0; seed < runs; seed++) {
    const trace = await traceOf(seed)
    expect(await traceOf(seed)).toBe(trace)
    traces.add(trace)
  }
  expect(traces.size).toBe(runs)
})
