import { afterEach, describe, expect, test } from 'vitest'
import { eventually } from '../../../test/support/sdk/eventually.ts'
import type { DeepReadonly } from '../api/deep-readonly.ts'
import { singleValueIndex } from '../api/index-spec.ts'
import type { ObjectOf } from '../api/model.ts'
import { defineModel } from '../api/model.ts'
import { compareVersions } from '../api/version.ts'
import type { Client } from '../client/client.ts'
import { createClient } from '../client/create-client.ts'
import { HttpTransport } from '../client/http-transport.ts'
import { conditionsSchema, setCondition } from '../conditions.ts'
import { type FaultProxy, startFaultProxy } from '../testing/fault-proxy/index.ts'
import { startTestServer } from '../testing/test-server.ts'
import { until } from '../wait/until.ts'
import { waitFor } from '../wait/wait-for.ts'
import { Informer, type InformerOptions } from './informer.ts'

/** Runs against the real server, with a faulty proxy for the watch only, so that all writes are known. */

const Widget = defineModel({
  group: 'demo.example.com',
  version: 'v1',
  kind: 'Widget',
  singular: 'widget',
  plural: 'widgets',
  schema: {
    spec: { type: 'object', required: ['size'], properties: { size: { type: 'integer' } } },
    status: { type: 'object', properties: { conditions: conditionsSchema } },
  },
  subresources: { status: true },
  indexes: [singleValueIndex({ name: 'spec.size', indexFunc: widget => String(widget.spec.size) })],
})
type WidgetObject = ObjectOf<typeof Widget>
type CachedWidget = DeepReadonly<WidgetObject>

const cleanUps: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp()
})

interface World {
  /** Directly to the server. */
  readonly client: Client
  /** Through the proxy. */
  readonly through: Client
  readonly proxy: FaultProxy
  informer(options?: Partial<InformerOptions<WidgetObject>>): Informer<WidgetObject>
}

const watcher = { backoffBaseMs: 2, backoffMaxMs: 10 }

async function setUp(watchIdleTimeoutMs?: number): Promise<World> {
  const server = await startTestServer({ models: [Widget] })
  const proxy = await startFaultProxy(await server.listen())
  const transport = new HttpTransport({
    server: proxy.url,
    ...(watchIdleTimeoutMs !== undefined && { watchIdleTimeoutMs }),
  })
  const through = createClient(transport)
  cleanUps.push(
    () => server.close(),
    () => proxy.close(),
    () => transport.close(),
  )
  return {
    client: server.client,
    through,
    proxy,
    informer(options) {
      const informer = new Informer(Widget, { client: through, watcher, ...options })
      cleanUps.push(() => informer.stop())
      informer.start()
      return informer
    },
  }
}

const create = (client: Client, name: string, size = 1, labels: Record<string, string> = {}) =>
  client.create(Widget, { metadata: { name, labels }, spec: { size } })

/** Records the calls of a handler; throws if they are not a valid history of objects. */
class View {
  readonly objects = new Map<string, CachedWidget>()
  readonly faults: string[] = []
  readonly told: string[] = []

  constructor(informer: Informer<WidgetObject>) {
    informer.addHandler({
      onAdd: object => {
        if (this.objects.has(object.metadata.name)) this.faults.push(`${object.metadata.name} added twice`)
        this.#take('add', object)
      },
      onUpdate: (before, after) => {
        const known = this.objects.get(after.metadata.name)
        if (known !== before) this.faults.push(`${after.metadata.name} updated from what was not told`)
        if (compareVersions(after.metadata.version, before.metadata.version) <= 0) {
          this.faults.push(`${after.metadata.name} went back`)
        }
        if (before.metadata.uid !== after.metadata.uid) this.faults.push(`${after.metadata.name} is another`)
        this.#take('update', after)
      },
      onDelete: ({ metadata: { name } }) => {
        if (!this.objects.delete(name)) this.faults.push(`${name} deleted twice`)
        this.told.push(`delete ${name}`)
      },
    })
  }

  #take(what: string, object: CachedWidget): void {
    this.objects.set(object.metadata.name, object)
    this.told.push(`${what} ${object.metadata.name}`)
  }
}

const stateOf = (objects: Iterable<CachedWidget>) =>
  [...objects].map(({ metadata: { name, uid, version } }) => `${name} ${uid} ${version}`).sort()

test('after cuts at any byte, refusals, delays and half-open watches, copy, index and handlers match the server', async () => {
  const { client, proxy, informer: start } = await setUp(200)
  const informer = start()
  const views = [new View(informer)]
  const existing = new Set<string>()
  let seed = 11
  const random = (below: number) => {
    seed = (seed * 1103515245 + 12345) % 2147483648
    return seed % below
  }
  const faults = [
    () => proxy.watches.cut(),
    () => proxy.watches.truncateAfter(random(3_000), 'once'),
    () => proxy.watches.refuse(random(2) === 0 ? 503 : 'connection'),
    () => proxy.watches.hold(),
    () => proxy.watches.delay(random(20)),
    () => views.push(new View(informer)),
  ]
  for (let step = 0; step < 400; step++) {
    const name = `w${random(15)}`
    if (!existing.has(name)) {
      await create(client, name, step)
      existing.add(name)
    } else if (random(3) > 0) await client.patch(Widget, name, { spec: { size: step } })
    else {
      await client.delete(Widget, name)
      existing.delete(name)
    }
    if (step % 10 === 0) faults[random(faults.length)]?.()
    if (step % 10 === 7) {
      proxy.watches.accept()
      proxy.watches.release()
      proxy.watches.delay(0)
    }
    if (step % 3 === 0) await new Promise(setImmediate)
  }
  proxy.watches.accept()
  proxy.watches.release()
  proxy.watches.delay(0)
  const { items } = await client.list(Widget)
  const expected = stateOf(items)
  await eventually(() => stateOf(informer.list()).join() === expected.join())
  await eventually(() => views.every(view => stateOf(view.objects.values()).join() === expected.join()))
  expect(views.flatMap(({ faults }) => faults)).toEqual([])
  for (const { metadata, spec } of items) {
    const found = informer.byIndex('spec.size', String(spec.size)).map(each => each.metadata.name)
    expect(found).toContain(metadata.name)
  }
})

describe('while only the watch is disconnected', () => {
  test('deletions, recreations and updates are each reported once', async () => {
    const { client, proxy, informer: start } = await setUp()
    for (const name of ['gone', 'anew', 'changed', 'same']) await create(client, name)
    const informer = start()
    const view = new View(informer)
    await eventually(() => view.objects.size === 4)
    view.told.length = 0
    proxy.watches.refuse('connection')
    proxy.watches.cut()
    await client.delete(Widget, 'gone')
    await client.delete(Widget, 'anew')
    await create(client, 'anew', 2)
    await client.patch(Widget, 'changed', { spec: { size: 3 } })
    await client.patch(Widget, 'changed', { spec: { size: 4 } })
    await create(client, 'new')
    const opened = proxy.watches.total
    await eventually(() => proxy.watches.total > opened)
    proxy.watches.accept()
    await eventually(() => view.objects.has('new'))
    expect(view.faults).toEqual([])
    expect(view.told).toEqual([
      'delete gone',
      'delete anew',
      'add anew',
      'update changed',
      'update changed',
      'add new',
    ])
  })

  test.each([{ labelSelector: 'tier=front' }, { fieldSelector: 'spec.size>=5' }])(
    'an object that starts to match %j is added, one that stops matching is deleted',
    async selectors => {
      const { client, proxy, informer: start } = await setUp()
      const inside = { metadata: { labels: { tier: 'front' } }, spec: { size: 5 } }
      const outside = { metadata: { labels: { tier: 'back' } }, spec: { size: 4 } }
      await create(client, 'in', 5, { tier: 'front' })
      await create(client, 'out', 4, { tier: 'back' })
      const informer = start(selectors)
      const view = new View(informer)
      await eventually(() => view.objects.size === 1)
      await client.patch(Widget, 'out', inside)
      await eventually(() => view.objects.size === 2)
      proxy.watches.refuse(503)
      proxy.watches.cut()
      await client.patch(Widget, 'in', outside)
      proxy.watches.accept()
      await eventually(() => view.objects.size === 1)
      expect(view.told).toEqual(['add in', 'add out', 'delete in'])
      expect(view.faults).toEqual([])
    },
  )
})

describe('waitFor', () => {
  test('notices a condition that starts to hold while its watch is disconnected, and the deletion', async () => {
    const { client, through, proxy } = await setUp()
    const widget = await create(client, 'a')
    const ready = waitFor(through, Widget, 'a', until.condition('Ready'), { watcher, timeoutMs: 120_000 })
    await eventually(() => proxy.watches.open === 1)
    proxy.watches.refuse('connection')
    proxy.watches.cut()
    const conditions = setCondition(undefined, { type: 'Ready', status: 'True', observedGeneration: 1 })
    await client.patchStatus(Widget, widget, { conditions })
    proxy.watches.accept()
    expect((await ready).status?.conditions).toEqual(conditions)
    const gone = waitFor(through, Widget, 'a', until.deleted(widget.metadata.uid), {
      watcher,
      timeoutMs: 120_000,
    })
    await client.delete(Widget, 'a')
    await create(client, 'a')
    await gone
    await eventually(() => proxy.watches.open === 0)
  })
})
