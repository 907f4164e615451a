/**
 * The SDK against the built program on etcd, through the fault proxy: compaction, restarts, and servers with other
 * plugins. docs/maintainers/sdk-conformance.md maps the conformance cases to these tests.
 */
import {
  createClient,
  defineModel,
  HttpTransport,
  Informer,
  type ObjectOf,
  type Transport,
} from '@setpoint/controller-runtime'
import { startFaultProxy } from '@setpoint/controller-runtime/testing'
import { describe, expect, test } from 'vitest'
import { patience, withTimeoutSeconds } from './support/sdk-world.ts'
import { startWorld } from './support/worlds.ts'

/** Two kinds of the fixture `items-plugin`, as its clients declare them. */
const Device = defineModel({
  group: 'items.example.com',
  version: 'v1',
  kind: 'Device',
  singular: 'device',
  plural: 'devices',
  schema: { spec: { type: 'object', required: ['size'], properties: { size: { type: 'integer' } } } },
})
const Item = defineModel({
  group: 'items.example.com',
  version: 'v1',
  kind: 'Item',
  singular: 'item',
  plural: 'items',
  schema: { spec: { type: 'object', properties: { rank: { type: 'string' } } } },
})

/** A server with both kinds, a client behind a proxy, and a direct client. */
async function open() {
  const world = await startWorld('etcd', ['items-plugin'])
  const proxy = await startFaultProxy(world.server.url)
  const transport = new HttpTransport({ server: proxy.url })
  const direct = new HttpTransport({ server: world.server.url })
  const closing: (() => unknown)[] = []
  return {
    ...world,
    proxy,
    transport,
    client: createClient(transport),
    others: createClient(direct),
    /** A synced cache of the devices, and the calls of its handler since then. */
    async follow(over: Transport = transport) {
      const watcher = { backoffBaseMs: 5, backoffMaxMs: 50 }
      const informer = new Informer(Device, { client: createClient(over), watcher })
      closing.push(() => informer.stop())
      const heard: string[] = []
      const told = (sign: string, { metadata, spec }: ObjectOf<typeof Device>) =>
        void heard.push(`${sign}${metadata.name}${spec.size}`)
      informer.addHandler({
        onAdd: (device, { initial }) => void (initial || told('+', device)),
        onUpdate: (_before, device) => told('~', device),
        onDelete: device => told('-', device),
      })
      informer.start()
      await informer.synced
      return { informer, heard }
    },
    /** Compacts etcd at a version. */
    async compact(version: string) {
      const body = JSON.stringify({ revision: version, physical: true })
      const { status } = await fetch(`${world.etcd?.endpoint}/v3/kv/compaction`, { method: 'POST', body })
      if (status !== 200) throw new Error(`etcd compacted nothing: ${status}`)
    },
    async [Symbol.asyncDispose]() {
      await proxy.close()
      await Promise.all(closing.map(close => close()))
      for (const each of [transport, direct]) each.close()
      await world.end()
    },
  }
}

const device = (name: string, size = 1) => ({ metadata: { name }, spec: { size } })

describe('a cache', () => {
  test('of a kind that only receives bookmarks resumes from the last one after compaction and a crash, without a new list', async () => {
    await using world = await open()
    const { metadata } = await world.others.create(Device, device('quiet'))
    // A short watch ends with a bookmark. In a long one, a quiet kind gets one every 45 s.
    const { informer, heard } = await world.follow(withTimeoutSeconds(1, world.transport))
    const { listedAt } = informer
    let present = ''
    for (let n = 0; n < 10; n++)
      present = (await world.others.create(Item, { metadata: { name: `i${n}` }, spec: {} })).metadata.version
    await expect.poll(() => Number(informer.version) >= Number(present), patience).toBe(true)
    world.proxy.all.refuse('connection')
    await world.server.kill()
    await world.compact(present)
    await world.server.restart()
    // A client that knows only the last change of the kind itself has to list again.
    const stale = await world.others.watch(Device, { version: metadata.version })
    for await (const event of stale) expect(event).toMatchObject({ type: 'ERROR', object: { code: 410 } })
    world.proxy.all.accept()
    await world.others.patch(Device, 'quiet', { spec: { size: 2 } })
    await expect.poll(() => heard, patience).toEqual(['~quiet2'])
    expect(informer.listedAt).toBe(listedAt)
  })

  test('of a kind that its server no longer serves stays unchanged, and follows again when the kind is back', async () => {
    await using world = await open()
    const { url } = await world.another()
    const transport = new HttpTransport({ server: url })
    // A server of the same store that serves the kind all the time.
    const elsewhere = createClient(transport)
    for (const name of ['gone', 'again', 'kept']) await world.others.create(Device, device(name))
    const { informer, heard } = await world.follow()
    const objects = informer.list()
    await world.server.restart({ plugins: [] })
    await expect
      .poll(
        () =>
          world.client.list(Device).then(
            () => 'served',
            error => error.reason,
          ),
        patience,
      )
      .toBe('NotFound')
    const { total } = world.proxy.watches
    await elsewhere.delete(Device, 'gone')
    await elsewhere.delete(Device, 'again')
    await elsewhere.create(Device, device('again', 2))
    await elsewhere.create(Device, device('new'))
    await expect.poll(() => world.proxy.watches.total, patience).toBeGreaterThan(total + 3)
    expect([informer.list(), heard]).toEqual([objects, []])
    await world.server.restart({ plugins: world.plugins })
    await expect.poll(() => heard, patience).toEqual(['-gone1', '-again1', '+again2', '+new1'])
    await elsewhere.patch(Device, 'kept', { spec: { size: 3 } })
    await expect.poll(() => heard.at(-1), patience).toBe('~kept3')
    transport.close()
  })
})

test('a list in parts whose version is gone after a crash and a compaction ends with Expired, without wrong or repeated items', async () => {
  await using world = await open()
  for (const name of ['a', 'b', 'c', 'd', 'e']) await world.others.create(Device, device(name))
  const names: string[] = []
  const iterating = (async () => {
    for await (const { metadata } of world.client.items(Device, { pageSize: 2 })) {
      names.push(metadata.name)
      if (names.length !== 2) continue
      await world.others.delete(Device, 'd')
      const last = await world.others.create(Device, device('f'))
      await world.server.kill()
      await world.compact(last.metadata.version)
      await world.server.restart()
    }
  })()
  await expect(iterating).rejects.toMatchObject({ reason: 'Expired' })
  expect(names).toEqual(['a', 'b'])
  const anew: string[] = []
  for await (const { metadata } of world.client.items(Device, { pageSize: 2 })) anew.push(metadata.name)
  expect(anew).toEqual(['a', 'b', 'c', 'e', 'f'])
})
