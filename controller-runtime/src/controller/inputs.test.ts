import { afterEach, describe, expect, expectTypeOf, test } from 'vitest'
import { type Harness, ownedBy, settle, startHarness } from '../../../test/support/sdk/controller-harness.ts'
import { eventually } from '../../../test/support/sdk/eventually.ts'
import { MemoryServer } from '../../../test/support/sdk/memory-server.ts'
import { Gadget, Part } from '../../../test/support/sdk/sample-models.ts'
import { defineModel, type ObjectOf } from '../api/model.ts'
import type { OwnerReference } from '../api/object.ts'
import { SelectorError } from '../api/selector.ts'
import { createClient } from '../client/create-client.ts'
import { type Logger, silentLogger } from '../logger.ts'
import { createManager } from '../manager/manager.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { startTestServer } from '../testing/test-server.ts'
import { ControllerBuilder } from './builder.ts'
import type { MapContext } from './inputs.ts'
import { anyChange, generationChanged } from './predicates.ts'
import type { ReconcileContext } from './reconcile.ts'

type GadgetObject = ObjectOf<typeof Gadget>
type Build = (controller: ControllerBuilder<GadgetObject>, runs: string[]) => ControllerBuilder<GadgetObject>

const harnesses: Harness[] = []
afterEach(async () => {
  for (const harness of harnesses.splice(0)) await harness.stop()
})

/** Gadgets a, b and c exist and are reconciled; `woken` has the names of the runs since then. */
async function setUp(build: Build, log?: Logger) {
  const runs: string[] = []
  const harness = startHarness(
    Gadget,
    c => build(c, runs).reconcile(async gadget => void runs.push(gadget.metadata.name)),
    { ...(log && { log }) },
  )
  harnesses.push(harness)
  const { client } = harness
  for (const name of ['a', 'b', 'c']) await client.create(Gadget, { metadata: { name }, spec: { size: 1 } })
  await eventually(() => runs.length === 3)
  runs.length = 0
  const woken = async (count: number) => {
    await eventually(() => runs.length >= count)
    await settle()
    return runs.splice(0).sort()
  }
  return { ...harness, woken }
}

const part = (name: string, ...ownerReferences: OwnerReference[]) => ({
  metadata: { name, ownerReferences },
  spec: {},
})

describe('owns', () => {
  test('an owner is reconciled when its dependent is added, changes, including its status, or is deleted', async () => {
    const { client, woken } = await setUp(c => c.owns(Part))
    const created = await client.create(Part, part('p', ownedBy('Gadget', 'a')))
    expect(await woken(1)).toEqual(['a'])
    await client.patchStatus(Part, created, { phase: 'Ready' })
    expect(await woken(1)).toEqual(['a'])
    await client.delete(Part, 'p')
    expect(await woken(1)).toEqual(['a'])
  })

  test('when the controller reference changes, both owners are reconciled', async () => {
    const { client, woken } = await setUp(c => c.owns(Part))
    await client.create(Part, part('p', ownedBy('Gadget', 'a')))
    expect(await woken(1)).toEqual(['a'])
    await client.patch(Part, 'p', { metadata: { ownerReferences: [ownedBy('Gadget', 'b')] } })
    expect(await woken(2)).toEqual(['a', 'b'])
  })

  test('only the controller reference of this group and kind counts, whatever the version', async () => {
    const { client, woken } = await setUp(c => c.owns(Part))
    await client.create(
      Part,
      part(
        'p',
        ownedBy('Gadget', 'a', { controller: false }),
        ownedBy('Widget', 'b'),
        ownedBy('Gadget', 'b', { apiVersion: 'other.example.com/v1' }),
        ownedBy('Gadget', 'c', { apiVersion: 'demo.example.com/v2beta1' }),
      ),
    )
    expect(await woken(1)).toEqual(['c'])
  })

  test('matchEveryOwner reconciles every owner of the kind', async () => {
    const { client, woken } = await setUp(c => c.owns(Part, { matchEveryOwner: true }))
    const others = [ownedBy('Gadget', 'a', { controller: false }), ownedBy('Gadget', 'b')]
    await client.create(Part, part('p', ...others, ownedBy('Widget', 'c')))
    expect(await woken(2)).toEqual(['a', 'b'])
  })

  test('a filter selects changes of dependents', async () => {
    const { client, woken } = await setUp(c => c.owns(Part, { filter: generationChanged }))
    const created = await client.create(Part, part('p', ownedBy('Gadget', 'a')))
    expect(await woken(1)).toEqual(['a'])
    await client.patchStatus(Part, created, { phase: 'Ready' })
    expect(await woken(0)).toEqual([])
    await client.patch(Part, 'p', { spec: { colour: 'red' } })
    expect(await woken(1)).toEqual(['a'])
  })
})

describe('watches', () => {
  const gadgetOf = ({ spec: { gadget } }: ObjectOf<typeof Part>) => gadget

  test('a change reconciles the objects that both of its states map to, each once', async () => {
    const mapped: string[][] = []
    const { client, woken } = await setUp(c =>
      c.watches(Part, ({ spec: { gadget = '' } }) => {
        const names = [gadget, 'c', 'c']
        mapped.push(names)
        return names
      }),
    )
    await client.create(Part, { metadata: { name: 'p' }, spec: { gadget: 'a' } })
    expect(await woken(2)).toEqual(['a', 'c'])
    await client.patch(Part, 'p', { spec: { gadget: 'b' } })
    expect(await woken(3)).toEqual(['a', 'b', 'c'])
    await client.delete(Part, 'p')
    expect(await woken(2)).toEqual(['b', 'c'])
    expect(mapped).toHaveLength(4)
  })

  test('an update of only the status reconciles nothing, unless the filter asks for it', async () => {
    const status = await setUp(c => c.watches(Part, gadgetOf, { filter: anyChange }))
    const { client, woken } = await setUp(c => c.watches(Part, gadgetOf))
    for (const each of [status.client, client])
      await each.create(Part, { metadata: { name: 'p' }, spec: { gadget: 'a' } })
    expect(await status.woken(1)).toEqual(['a'])
    expect(await woken(1)).toEqual(['a'])
    for (const each of [status.client, client]) await each.patchStatus(Part, 'p', { phase: 'Ready' })
    expect(await status.woken(1)).toEqual(['a'])
    // The next event is the first to wake it.
    await client.patch(Part, 'p', { spec: { gadget: 'b' } })
    expect(await woken(2)).toEqual(['a', 'b'])
  })

  test('a name of a missing object, and no name, reconcile nothing and leave nothing behind', async () => {
    const { client, woken, controller } = await setUp(c => c.watches(Part, gadgetOf))
    await client.create(Part, { metadata: { name: 'p' }, spec: { gadget: 'nobody' } })
    await client.create(Part, { metadata: { name: 'q' }, spec: {} })
    expect(await woken(0)).toEqual([])
    expect(controller.queue).toEqual({ depth: 0, delayed: 0, processing: 0 })
  })

  test.each<[how: string, map: (part: ObjectOf<typeof Part>) => string | Promise<string>]>([
    [
      'throws',
      () => {
        throw new Error('no mapping')
      },
    ],
    ['rejects', () => Promise.reject(new Error('no mapping'))],
    // Possible in plain JavaScript.
    ['returns an object', () => JSON.parse('{"then":1}')],
    ['returns numbers', () => JSON.parse('[1]')],
    ['resolves to a number', async () => JSON.parse('1')],
  ])(
    'the error of a mapping that %s is logged, and other events and mappings are not affected',
    async (_how, bad) => {
      const lines: string[] = []
      const log: Logger = {
        ...silentLogger,
        error: (_fields, message) => lines.push(message),
        child: () => log,
      }
      const { client, woken } = await setUp(
        c => c.watches(Part, p => (p.spec.gadget === 'bad' ? bad(p) : 'b')).watches(Part, () => 'c'),
        log,
      )
      await client.create(Part, { metadata: { name: 'p' }, spec: { gadget: 'bad' } })
      expect(await woken(1)).toEqual(['c'])
      expect(lines).toEqual(['event mapping failed'])
      // The state before cannot be mapped; the one after can.
      await client.patch(Part, 'p', { spec: { gadget: 'good' } })
      expect(await woken(2)).toEqual(['b', 'c'])
    },
  )

  test('a mapping reads other kinds through their indexes', async () => {
    const { client, woken } = await setUp(c =>
      c.watches(Part, async ({ spec: { colour = '' } }, { lister }) => {
        const gadgets = await lister(Gadget)
        return gadgets.byIndex('spec.colour', colour).map(gadget => gadget.metadata.name)
      }),
    )
    await client.patch(Gadget, 'b', { spec: { colour: 'red' } })
    await woken(1)
    await client.create(Part, { metadata: { name: 'p' }, spec: { colour: 'red' } })
    expect(await woken(1)).toEqual(['b'])
  })

  test('a mapping that never settles delays no other event', async () => {
    const { client, woken } = await setUp(c =>
      c.watches(Part, ({ spec }) => (spec.gadget === undefined ? new Promise<never>(() => {}) : spec.gadget)),
    )
    await client.create(Part, { metadata: { name: 'p' }, spec: {} })
    await client.create(Part, { metadata: { name: 'q' }, spec: { gadget: 'a' } })
    expect(await woken(1)).toEqual(['a'])
  })

  test('a lister is the same in a mapping as in a reconcile', () => {
    expectTypeOf<MapContext['lister']>().toEqualTypeOf<ReconcileContext['lister']>()
  })

  test('the kind may be that of the controller', async () => {
    const { client, woken } = await setUp(c =>
      c.watches(Gadget, ({ spec: { size } }) => (size > 5 ? 'c' : [])),
    )
    await client.patch(Gadget, 'a', { spec: { size: 9 } })
    expect(await woken(2)).toEqual(['a', 'c'])
  })

  test('selectors limit the watched objects', async () => {
    await using server = await startTestServer({ models: [Gadget, Part] })
    const runs: string[] = []
    const manager = server.manager()
    manager.controller(Gadget, c =>
      c
        .watches(Part, gadgetOf, { labelSelector: 'tier=front' })
        .reconcile(async gadget => void runs.push(gadget.metadata.name)),
    )
    manager.start()
    await manager.synced()
    const { client } = server
    for (const name of ['a', 'b']) await client.create(Gadget, { metadata: { name }, spec: { size: 1 } })
    await eventually(() => runs.length === 2)
    await client.create(Part, { metadata: { name: 'p' }, spec: { gadget: 'a' } })
    await client.create(Part, { metadata: { name: 'q', labels: { tier: 'front' } }, spec: { gadget: 'b' } })
    await eventually(() => runs.length === 3)
    expect(runs[2]).toBe('b')
  })
})

describe('caches of other kinds', () => {
  test('no run starts before all have synced; a waiting controller logs which have not', async () => {
    const clock = new FakeClock()
    const server = new MemoryServer()
    const client = createClient(server)
    const warnings: object[] = []
    const log: Logger = { ...silentLogger, warn: fields => warnings.push(fields), child: () => log }
    for (const name of ['p', 'q']) await client.create(Part, { metadata: { name }, spec: { gadget: 'a' } })
    await client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
    const watch = server.watch.bind(server)
    let open: () => void = () => {}
    const opened = new Promise<void>(resolve => {
      open = resolve
    })
    server.watch = async (path, options) => {
      if (path.includes('/parts')) await opened
      return watch(path, options)
    }
    const seen: number[] = []
    const harness = startHarness(
      Gadget,
      c =>
        c
          .reads(Part)
          .reconcile(async (_gadget, { lister }) => void seen.push((await lister(Part)).list().length)),
      { server, clock, log },
    )
    harnesses.push(harness)
    await settle()
    expect(seen).toEqual([])
    await clock.advance(30_000)
    expect(warnings).toContainEqual({ kinds: ['parts.demo.example.com'] })
    open()
    await eventually(() => seen.length === 1)
    expect(seen).toEqual([2])
  })

  test('are shared among controllers, and closed with the last that reads them', async () => {
    const server = new MemoryServer()
    const manager = createManager({ client: createClient(server), drainTimeoutMs: 50 })
    const build = (name: string) =>
      manager.controller(Gadget, c =>
        c
          .named(name)
          .owns(Part)
          .reconcile(async () => {}),
      )
    const [one, other] = [build('one'), build('other')]
    manager.start()
    await manager.synced()
    expect(server.openWatches).toBe(2)
    await manager.remove(one)
    expect(server.openWatches).toBe(2)
    await manager.remove(other)
    expect(server.openWatches).toBe(0)
    await manager.stop()
  })

  test('initial dependents reconcile their owners at lower priority than live changes', async () => {
    const server = new MemoryServer()
    const client = createClient(server)
    for (let index = 0; index < 30; index++) {
      const name = `old${index}`
      await client.create(Gadget, { metadata: { name }, spec: { size: 1 } })
      await client.create(Part, part(`p${index}`, ownedBy('Gadget', name)))
    }
    const order: string[] = []
    const harness = startHarness(
      Gadget,
      c =>
        c
          .owns(Part)
          .concurrency(1)
          .reconcile(async (gadget, ctx) => {
            order.push(gadget.metadata.name)
            if (order.length > 1) return
            await ctx.client.create(Gadget, { metadata: { name: 'fresh' }, spec: { size: 1 } })
            await settle()
          }),
      { server },
    )
    harnesses.push(harness)
    await eventually(() => order.length >= 31)
    expect(order[1]).toBe('fresh')
  })

  test('an invalid selector throws when the controller is declared', () => {
    const builder = new ControllerBuilder(Gadget)
    expect(() => builder.owns(Part, { labelSelector: 'a in (' })).toThrow(SelectorError)
    expect(() => builder.watches(Part, () => 'a', { fieldSelector: '=' })).toThrow(SelectorError)
    expect(() => builder.reads(Part, { labelSelector: ',' })).toThrow(SelectorError)
  })

  test('a lister of an undeclared kind rejects and names the declaration to add', async () => {
    const Other = defineModel({
      group: 'demo.example.com',
      version: 'v1',
      kind: 'Other',
      singular: 'other',
      plural: 'others',
      schema: { spec: { type: 'object' } },
    })
    const errors: unknown[] = []
    const harness = startHarness(Gadget, c =>
      c
        .watches(Part, async (_part, { lister }) => {
          await lister(Other).catch((error: unknown) => errors.push(error))
          return 'x'
        })
        .reconcile(async (_gadget, { lister }) => {
          await lister(Other).catch((error: unknown) => errors.push(error))
        }),
    )
    harnesses.push(harness)
    await harness.client.create(Gadget, { metadata: { name: 'x' }, spec: { size: 1 } })
    await eventually(() => errors.length === 1)
    await harness.client.create(Part, { metadata: { name: 'p' }, spec: {} })
    await eventually(() => errors.length === 3)
    for (const error of errors) {
      expect(String(error)).toMatch(/TypeError: .*others.demo.example.com.*owns, watches or reads/)
    }
  })
})
