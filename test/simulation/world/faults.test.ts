import { expect, test } from 'vitest'
import type { Fault } from './fault.ts'
import { openWorld } from './open-world.ts'
import { call, creation, widgetModel, widgets } from './sample.ts'
import { ConnectionLost, type World } from './world.ts'

const releases = [() => [widgetModel()]]

async function openReady(seed = 1, controllers = 0): Promise<World> {
  const world = await openWorld({ seed, releases, controllers })
  await world.advance(3_000)
  return world
}

const list = { method: 'GET', path: widgets }

test('a server that is killed forgets all but the store', async () => {
  await using world = await openReady()
  expect(await call(world, 0, creation('a'))).toMatchObject({ status: 201 })
  world.inject({ type: 'kill', node: 'server-0', forMs: 2_000 })
  await expect(call(world, 0, list)).rejects.toThrow(ConnectionLost)
  expect(world.isReady(0)).toBe(false)
  await world.advance(3_000)
  expect(await call(world, 0, list)).toMatchObject({ body: { items: [{ metadata: { name: 'a' } }] } })
})

test('a request to a paused server gets its response afterwards', async () => {
  await using world = await openReady()
  world.inject({ type: 'pause', node: 'server-0', forMs: 2_000 })
  const begun = world.now()
  expect(await call(world, 0, list)).toMatchObject({ status: 200 })
  expect(world.now() - begun).toBeGreaterThan(2_000)
})

test('what a paused process gets keeps its order when the faults end', async () => {
  await using world = await openReady()
  const seen: unknown[] = []
  const follow = async () => {
    for await (const message of world.watch('watcher', 0, `${widgets}?watch=true`))
      if (Reflect.get(Object(message), 'type') === 'ADDED')
        seen.push(
          Reflect.get(
            Object(Reflect.get(Object(Reflect.get(Object(message), 'object')), 'metadata')),
            'name',
          ),
        )
  }
  void follow()
  await world.advance(100)
  world.inject({ type: 'pause', node: 'watcher', forMs: 20_000 })
  await call(world, 0, creation('a'))
  await world.advance(100)
  const end = world.heal()
  await call(world, 0, creation('b'))
  await world.advance(end - world.now() + 100)
  expect(seen).toEqual(['a', 'b'])
})

test('the clock of a server can be wrong', async () => {
  await using world = await openReady()
  world.inject({ type: 'clock', node: 'server-0', jumpMs: -3_600_000 })
  const { body } = await call(world, 0, creation('a'))
  expect(body).toMatchObject({ metadata: { creationTimestamp: expect.stringMatching(/^2024-12-31T23:00/) } })
  world.heal()
  expect(await call(world, 0, creation('b'))).toMatchObject({
    body: { metadata: { creationTimestamp: expect.stringMatching(/^2025-01-01T00:00/) } },
  })
})

test('a connection breaks after any byte of a response, and the write has happened', async () => {
  await using world = await openReady()
  for (const bytes of [1, 60, 300]) {
    world.inject({ type: 'cutAfter', node: 'server-0', direction: 'from', bytes })
    await expect(call(world, 0, creation(`after-${bytes}`))).rejects.toThrow(ConnectionLost)
    expect(await call(world, 1, { ...list, path: `${widgets}/after-${bytes}` })).toMatchObject({
      status: 200,
    })
  }
})

test('a connection breaks after any byte of a request, and the write has not happened', async () => {
  await using world = await openReady()
  world.inject({ type: 'cutAfter', node: 'server-0', direction: 'to', bytes: 100 })
  await expect(call(world, 0, creation('a'))).rejects.toThrow(ConnectionLost)
  expect(await call(world, 1, list)).toMatchObject({ body: { items: [] } })
})

test('what ends the faults also saves connections that were to break', async () => {
  await using world = await openReady()
  const request = () => world.request('anna', 0, list)
  expect(await Promise.all([request(), world.advance(100)])).toMatchObject([{ status: 200 }, undefined])
  world.inject({ type: 'cutAfter', node: 'server-0', direction: 'from', bytes: 10 })
  world.heal()
  expect(await Promise.all([request(), world.advance(100)])).toMatchObject([{ status: 200 }, undefined])
})

test('what is under way when the faults end arrives late, at a time that is known', async () => {
  await using world = await openReady()
  world.inject({ type: 'lag', node: 'server-1', byMs: 20_000, forMs: 100 })
  await call(world, 0, creation('a'))
  const end = world.heal()
  expect(end - world.now()).toBeGreaterThan(19_000)
  await world.advance(end - world.now() + 100)
  expect(await call(world, 1, list)).toMatchObject({ body: { items: [{ metadata: { name: 'a' } }] } })
})

test('a watch of a lagging member delivers changes late', async () => {
  await using world = await openReady()
  const seen: number[] = []
  const follow = async (server: number) => {
    for await (const message of world.watch('watcher', server, `${widgets}?watch=true`))
      if (Reflect.get(Object(message), 'type') === 'ADDED') seen[server] = world.now()
  }
  for (const server of [0, 1]) void follow(server)
  await world.advance(100)
  world.inject({ type: 'lag', node: 'server-1', byMs: 1_000, forMs: 60_000 })
  const begun = world.now()
  await call(world, 0, creation('a'))
  await world.advance(1_100)
  expect(seen[0]).toBeLessThan(begun + 100)
  expect(seen[1]).toBeGreaterThan(begun + 1_000)
})

test('a full store refuses creations and takes deletions', async () => {
  await using world = await openReady()
  await call(world, 0, creation('a'))
  world.inject({ type: 'full', forMs: 10_000 })
  expect(await call(world, 0, creation('b'))).toMatchObject({
    status: 503,
    body: { message: expect.stringContaining('space') },
  })
  expect(await call(world, 0, { method: 'DELETE', path: `${widgets}/a` })).toMatchObject({ status: 200 })
  world.heal()
  expect(await call(world, 0, creation('b'))).toMatchObject({ status: 201 })
})

test('servers refuse a restored store until they are started again', async () => {
  await using world = await openReady()
  await call(world, 0, creation('kept'))
  const backup = world.store.backUp()
  const { body } = await call(world, 0, creation('lost'))
  world.inject({ type: 'restore', backup })
  expect(await call(world, 0, list)).toMatchObject({ status: 503 })
  world.heal()
  expect(await world.settle(60_000)).toBe(true)
  expect(await call(world, 0, list)).toMatchObject({ body: { items: [{ metadata: { name: 'kept' } }] } })
  const version = String(Reflect.get(Object(Reflect.get(Object(body), 'metadata')), 'resourceVersion'))
  const messages: unknown[] = []
  const follow = async () => {
    const watch = world.watch('watcher', 0, `${widgets}?watch=true&resourceVersion=${version}`)
    for await (const message of watch) messages.push(message)
  }
  void follow()
  await world.advance(100)
  expect(messages).toMatchObject([{ type: 'ERROR', object: { code: 410 } }])
})

test('a store whose files are put back gives out versions again, and is refused by a server that was forgotten', async () => {
  await using world = await openReady()
  await call(world, 0, creation('kept'))
  world.inject({ type: 'backUp' })
  const { body: lost } = await call(world, 0, creation('lost'))
  world.inject({ type: 'pause', node: 'server-1', forMs: 3_000 })
  world.inject({ type: 'putBack', forgotten: 'server-1' })
  await world.advance(2_000)
  const { body: first } = await call(world, 0, creation('b'))
  const versionOf = (object: unknown) =>
    Number(Reflect.get(Object(Reflect.get(Object(object), 'metadata')), 'version'))
  expect(versionOf(first)).toBeLessThanOrEqual(versionOf(lost) + 2)
  while (world.store.revision <= versionOf(lost)) await call(world, 0, creation(`n${world.store.revision}`))
  await world.advance(2_000)
  expect(await call(world, 1, list)).toMatchObject({ status: 503 })
  world.heal()
  expect(await world.settle(60_000)).toBe(true)
  const { body } = await call(world, 1, list)
  expect(JSON.stringify(body)).toContain('"name":"kept"')
  expect(JSON.stringify(body)).not.toContain('"name":"lost"')
})

const anyFaults: readonly Fault[] = [
  { type: 'kill', node: 'server-0', forMs: 3_000 },
  { type: 'restart', node: 'controllers-0' },
  { type: 'pause', node: 'server-1', forMs: 4_000 },
  { type: 'clock', node: 'controllers-0', jumpMs: 1e7, rate: 1.5 },
  { type: 'cut', node: 'server-1' },
  { type: 'cutAfter', node: 'server-0', direction: 'from', bytes: 1_000 },
  { type: 'partition', node: 'server-1', other: 'anna', forMs: 3_000 },
  { type: 'netLatency', maxMs: 1_000, forMs: 5_000 },
  { type: 'storeLatency', maxMs: 2_000, forMs: 5_000 },
  { type: 'loseResponses', probability: 0.7, forMs: 5_000 },
  { type: 'leaderChange', forMs: 3_000 },
  { type: 'lag', node: 'server-0', byMs: 2_000, forMs: 5_000 },
  { type: 'compact', keep: 2 },
  { type: 'full', forMs: 3_000 },
]

/** Clients write while faults come at random, then everything must come to rest. */
async function suffer(seed: number): Promise<string> {
  await using world = await openReady(seed, 1)
  const { random } = world
  const write = async (client: string) => {
    for (let n = 0; n < 20; n++) {
      const name = `${client}-${n}`
      await world.request(client, n % 2, creation(name)).catch(() => {})
      await world.sleep(random.next() * 1_000)
    }
  }
  for (const client of ['anna', 'ben']) void write(client)
  for (let n = 0; n < 8; n++) {
    world.inject(random.pick(anyFaults))
    await world.advance(random.next() * 3_000)
  }
  world.heal()
  expect(await world.settle(120_000)).toBe(true)
  return world.traceHash
}

test('a world with faults comes to rest, and the same seed gives the same trace', async () => {
  for (let seed = 0; seed < 3; seed++) expect(await suffer(seed)).toBe(await suffer(seed))
})
