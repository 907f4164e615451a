import { Registry } from 'prom-client'
import { afterEach, expect, test } from 'vitest'
import { type Harness, settle, startHarness } from '../../../test/support/sdk/controller-harness.ts'
import { eventually } from '../../../test/support/sdk/eventually.ts'
import { MemoryServer } from '../../../test/support/sdk/memory-server.ts'
import { Gadget, Part } from '../../../test/support/sdk/sample-models.ts'
import type { ObjectOf } from '../api/model.ts'
import { TransportError } from '../client/transport.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { startTestServer } from '../testing/test-server.ts'
import type { Reconcile, ReconcileContext } from './reconcile.ts'

type GadgetObject = ObjectOf<typeof Gadget>

const harnesses: Harness[] = []
afterEach(async () => {
  for (const harness of harnesses.splice(0)) await harness.stop()
})

interface View {
  readonly get: string | undefined
  readonly list: readonly string[]
  readonly index: readonly string[]
}

/** The parts of gadget `a`, read in every way. */
async function viewOf({ lister }: ReconcileContext): Promise<View> {
  const parts = await lister(Part)
  const names = (items: readonly ObjectOf<typeof Part>[]) => items.map(item => item.metadata.name).sort()
  return {
    get: parts.get('p')?.spec.colour,
    list: names(parts.list()),
    index: names(parts.byIndex('spec.gadget', 'a')),
  }
}

/** A gadget `a` whose n-th run is `steps[n]`; watches are delayed from the first run on. */
function setUp(
  steps: readonly ((context: ReconcileContext, server: MemoryServer) => Promise<unknown>)[],
  clock?: FakeClock,
) {
  const server = new MemoryServer()
  const registry = new Registry()
  let runs = 0
  const reconcile: Reconcile<GadgetObject> = async (_gadget, context) => {
    const step = steps[runs++]
    if (runs === 1) server.holdWatches()
    await step?.(context, server)
    return runs < steps.length ? { requeueAfterMs: 0 } : undefined
  }
  const harness = startHarness(Gadget, c => c.reads(Part).reconcile(reconcile), {
    server,
    registry,
    ...(clock && { clock }),
  })
  harnesses.push(harness)
  const count = async (name: string) => {
    const metric = await registry.getSingleMetric(`controller_runtime_${name}`)?.get()
    return metric?.values[0]?.value
  }
  return { ...harness, count, runs: () => runs }
}

const p = { metadata: { name: 'p' }, spec: { gadget: 'a', colour: 'red' } }

test.each<[what: string, write: (context: ReconcileContext) => Promise<unknown>, then: View]>([
  [
    'created',
    ctx => ctx.client.create(Part, { metadata: { name: 'q' }, spec: { gadget: 'a', colour: 'blue' } }),
    { get: 'red', list: ['p', 'q'], index: ['p', 'q'] },
  ],
  [
    'changed',
    ctx => ctx.client.patch(Part, 'p', { spec: { gadget: 'b', colour: 'green' } }),
    { get: 'green', list: ['p'], index: [] },
  ],
  ['deleted', ctx => ctx.client.delete(Part, 'p'), { get: undefined, list: [], index: [] }],
  [
    'deleted and made again',
    async ctx => {
      await ctx.client.delete(Part, 'p')
      await ctx.client.create(Part, { ...p, spec: { gadget: 'a', colour: 'new' } })
    },
    { get: 'new', list: ['p'], index: ['p'] },
  ],
])(
  'what a reconcile has %s of another kind, the next one reads by name, in lists and by index',
  async (_what, write, then) => {
    const views: View[] = []
    const { client, server, count } = setUp([
      async ctx => {
        views.push(await viewOf(ctx))
        await write(ctx)
      },
      async ctx => void views.push(await viewOf(ctx)),
    ])
    await client.create(Part, p)
    await settle()
    await client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
    await eventually(() => views.length === 1)
    await settle()
    expect(views).toEqual([{ get: 'red', list: ['p'], index: ['p'] }])
    server.releaseWatches()
    await eventually(() => views.length === 2)
    expect(views[1]).toEqual(then)
    expect(await count('stale_reads_waited_total')).toBe(1)
    expect(await count('stale_reads_timed_out_total')).toBe(0)
  },
)

test('a lister requested after a write in the same reconcile shows it', async () => {
  const views: View[] = []
  const { client, server } = setUp([
    async ctx => {
      await ctx.client.create(Part, p)
      views.push(await viewOf(ctx))
    },
  ])
  await client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
  await settle()
  expect(views).toEqual([])
  server.releaseWatches()
  await eventually(() => views.length === 1)
  expect(views[0]?.list).toEqual(['p'])
})

test('a lister of the own kind shows the writes of the controller to other objects', async () => {
  const seen: (number | undefined)[] = []
  const server = new MemoryServer()
  const harness = startHarness(
    Gadget,
    c =>
      c.reconcile(async (gadget, { client, lister }) => {
        if (gadget.metadata.name !== 'a' || seen.length > 0) return
        server.holdWatches()
        await client.patch(Gadget, 'b', { spec: { size: 7 } })
        seen.push((await lister(Gadget)).get('b')?.spec.size)
      }),
    { server },
  )
  harnesses.push(harness)
  await harness.client.create(Gadget, { metadata: { name: 'b' }, spec: { size: 1 } })
  await settle()
  await harness.client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
  await settle()
  expect(seen).toEqual([])
  server.releaseWatches()
  await eventually(() => seen.length === 1)
  expect(seen).toEqual([7])
})

test('a run with stale reads is requeued, not counted as failed, and blocks no other', async () => {
  const clock = new FakeClock()
  const views: View[] = []
  const { client, server, controller, count } = setUp(
    [
      ctx => ctx.client.create(Part, p),
      async ctx => void views.push(await viewOf(ctx)),
      async ctx => void views.push(await viewOf(ctx)),
    ],
    clock,
  )
  await client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
  await settle()
  await clock.advance(5_000)
  expect(views).toEqual([])
  expect(controller.counts).toMatchObject({ failed: 0, stale: 1 })
  expect(await count('stale_reads_timed_out_total')).toBe(1)
  server.releaseWatches()
  await clock.advance(1_000)
  expect(views).toEqual([{ get: 'red', list: ['p'], index: ['p'] }])
})

test('a write of unknown outcome is looked up before the kind is read', async () => {
  const views: View[] = []
  const { client, server } = setUp([
    async ctx => {
      server.onAnswer = request => {
        if (request.method !== 'POST') return
        server.onAnswer = () => {}
        throw new TransportError('the answer got lost')
      }
      await ctx.client.create(Part, p).catch(() => {})
    },
    async ctx => void views.push(await viewOf(ctx)),
  ])
  await client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
  await settle()
  expect(views).toEqual([])
  server.releaseWatches()
  await eventually(() => views.length === 1)
  expect(views[0]?.list).toEqual(['p'])
})

test('writers do not starve a reader: it waits only for earlier writes', async () => {
  const seen: number[] = []
  let writes = 0
  let reading = false
  const harness = startHarness(Gadget, c =>
    c
      .reads(Part)
      .concurrency(2)
      .reconcile(async (gadget, { client, lister, signal }) => {
        if (gadget.metadata.name === 'reader') {
          reading = true
          seen.push((await lister(Part)).list().length)
          return
        }
        while (!signal.aborted && seen.length === 0) {
          await client.create(Part, { metadata: { name: `p${writes}` }, spec: {} })
          if (++writes === 3) {
            await client.create(Gadget, { metadata: { name: 'reader' }, spec: { size: 1 } })
            await eventually(() => reading)
          }
          await settle()
        }
      }),
  )
  harnesses.push(harness)
  await harness.client.create(Gadget, { metadata: { name: 'writer' }, spec: { size: 1 } })
  await eventually(() => seen.length === 1)
  expect(seen[0]).toBeGreaterThanOrEqual(3)
})

test.each([{ labelSelector: 'tier=front' }, { fieldSelector: 'spec.colour>=m' }])(
  'with %j, a write to an excluded object is not awaited, one to a selected object is',
  async selectors => {
    await using server = await startTestServer({ models: [Gadget, Part] })
    const clock = new FakeClock()
    const seen: string[][] = []
    const manager = server.manager({ clock })
    const selected = { metadata: { labels: { tier: 'front' } }, spec: { colour: 'm' } }
    const excluded = { metadata: { labels: { tier: 'back' } }, spec: { colour: 'b' } }
    let runs = 0
    manager.controller(Gadget, c =>
      c.reads(Part, selectors).reconcile(async (_gadget, { client, lister }) => {
        const look = async () => {
          const parts = await lister(Part)
          seen.push(parts.list().map(part => part.metadata.name))
        }
        if (runs++ > 0) return
        await client.create(Part, { metadata: { name: 'hidden' }, spec: {} })
        await look()
        await client.create(Part, { metadata: { name: 'shown', ...selected.metadata }, spec: selected.spec })
        await look()
        await client.patch(Part, 'shown', excluded)
        await look()
        await client.patch(Part, 'hidden', selected)
        await look()
        await client.delete(Part, 'hidden')
        await look()
      }),
    )
    manager.start()
    await server.client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
    // The clock stands still: a wait that ends only by its timeout would never end.
    await eventually(() => seen.length === 5)
    expect(seen).toEqual([[], ['shown'], [], ['hidden'], []])
  },
)
