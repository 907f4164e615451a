import { afterEach, describe, expect, test } from 'vitest'
import { eventually } from '../../../test/support/sdk/eventually.ts'
import { MemoryServer } from '../../../test/support/sdk/memory-server.ts'
import { Gadget } from '../../../test/support/sdk/sample-models.ts'
import { ApiError } from '../api/errors.ts'
import type { ObjectOf } from '../api/model.ts'
import type { Client } from '../client/client.ts'
import { createClient } from '../client/create-client.ts'
import { TransportError } from '../client/transport.ts'
import { systemClock } from '../clock.ts'
import { createManager } from '../manager/manager.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import type { ControllerBuilder } from './builder.ts'
import { anyChange } from './predicates.ts'
import { TerminalError } from './reconcile.ts'

type GadgetObject = ObjectOf<typeof Gadget>
const finalizer = 'demo.example.com/cleanup'

const cleanUps: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0)) await cleanUp()
})

/** A manager with one controller over a server in memory. With `clock`, the test advances time. */
function setUp(build: (controller: ControllerBuilder<GadgetObject>) => unknown, clock?: FakeClock) {
  const server = new MemoryServer()
  const client = createClient(server)
  const manager = createManager({
    client,
    clock: clock ?? systemClock,
    drainTimeoutMs: 50,
  })
  const controller = manager.controller(Gadget, build)
  manager.start()
  cleanUps.push(async () => {
    const stopped = manager.stop()
    await clock?.advance(60_000)
    await stopped
  })
  return { server, client, manager, controller }
}

function create(client: Client, name: string, size = 1, finalizers?: string[]): Promise<GadgetObject> {
  return client.create(Gadget, { metadata: { name, ...(finalizers && { finalizers }) }, spec: { size } })
}

/** Many turns of the event loop: everything that waits for no timer is done. */
const settle = async () => {
  for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate)
}
const never = () => new Promise<never>(() => {})

describe('reconcile', () => {
  test('runs for existing and new objects and for changes, each time with the newest state', async () => {
    const seen: string[] = []
    const { client, manager } = setUp(c =>
      c.reconcile(async gadget => void seen.push(`${gadget.metadata.name} ${gadget.spec.size}`)),
    )
    await manager.synced()
    const a = await create(client, 'a')
    await eventually(() => seen.length === 1)
    await client.update(Gadget, { ...a, spec: { size: 2 } })
    await eventually(() => seen.length === 2)
    expect(seen).toEqual(['a 1', 'a 2'])
  })

  test('an object is never in two runs at once, and changes meanwhile are not missed', async () => {
    let running = 0
    let last = 0
    const { client } = setUp(c =>
      c.concurrency(4).reconcile(async gadget => {
        expect(++running).toBe(1)
        await settle()
        last = gadget.spec.size
        running--
      }),
    )
    await create(client, 'a')
    for (let size = 2; size <= 50; size++) {
      await client.patch(Gadget, 'a', { spec: { size } })
      if (size % 7 === 0) await settle()
    }
    await eventually(() => last === 50)
  })

  test('at most `concurrency` objects are reconciled at once', async () => {
    let running = 0
    let most = 0
    let done = 0
    const { client } = setUp(c =>
      c.concurrency(3).reconcile(async () => {
        most = Math.max(most, ++running)
        await eventually(() => most === 3)
        await settle()
        running--
        done++
      }),
    )
    for (let index = 0; index < 10; index++) await create(client, `g${index}`)
    await eventually(() => done === 10)
    expect(most).toBe(3)
  })

  test('a change of only the status triggers no run; one of labels, spec or finalizers does', async () => {
    let runs = 0
    const { client, controller } = setUp(c => c.reconcile(async () => void runs++))
    const a = await create(client, 'a')
    await eventually(() => runs === 1)
    await client.patchStatus(Gadget, a, { phase: 'Ready' })
    await settle()
    expect(runs).toBe(1)
    await client.patch(Gadget, 'a', { metadata: { labels: { tier: 'front' } } })
    await eventually(() => runs === 2)
    await client.patch(Gadget, 'a', { metadata: { finalizers: ['other.example.com/x'] } })
    await eventually(() => runs === 3)
    await client.patch(Gadget, 'a', { spec: { size: 9 } })
    await eventually(() => runs === 4)
    expect(controller.counts.failed).toBe(0)
  })

  test('a status written by each run does not trigger the next', async () => {
    let runs = 0
    const { client } = setUp(c =>
      c.reconcile(async (gadget, ctx) => {
        await ctx.client.patchStatus(Gadget, gadget, { seen: ++runs })
        return { requeueAfterMs: 3_600_000 }
      }),
    )
    await create(client, 'a')
    await eventually(() => runs === 1)
    await settle()
    expect(runs).toBe(1)
  })

  test('filterUpdates overrides the default', async () => {
    let runs = 0
    const { client } = setUp(c => c.filterUpdates(anyChange).reconcile(async () => void runs++))
    const a = await create(client, 'a')
    await eventually(() => runs === 1)
    await client.patchStatus(Gadget, a, { phase: 'Ready' })
    await eventually(() => runs === 2)
  })

  test('requeueAfterMs requeues after that time, or earlier on a change', async () => {
    const clock = new FakeClock()
    const runs: number[] = []
    const { client } = setUp(
      c =>
        c.reconcile(() => {
          runs.push(clock.monotonic())
          return { requeueAfterMs: 30_000 }
        }),
      clock,
    )
    await create(client, 'a')
    await eventually(() => runs.length === 1)
    await clock.advance(29_999)
    expect(runs).toHaveLength(1)
    await clock.advance(1)
    expect(runs).toHaveLength(2)
    await clock.advance(10_000)
    await client.patch(Gadget, 'a', { spec: { size: 5 } })
    await eventually(() => runs.length === 3)
    await clock.advance(29_999)
    expect(runs).toHaveLength(3)
    await clock.advance(1)
    expect(runs).toEqual([0, 30_000, 40_000, 70_000])
  })

  test('a deleted object is not reconciled, and leaves no key behind', async () => {
    const clock = new FakeClock()
    let runs = 0
    const { client, controller, manager } = setUp(
      c =>
        c.reconcile(() => {
          runs++
          throw new Error('always')
        }),
      clock,
    )
    await create(client, 'a')
    await eventually(() => runs === 1)
    await client.delete(Gadget, 'a')
    await eventually(() => manager.informer(Gadget).size === 0)
    await settle()
    await clock.advance(3_600_000)
    expect(runs).toBe(1)
    expect(controller.queue).toEqual({ depth: 0, delayed: 0, processing: 0 })
  })

  test('initial objects do not delay a live change', async () => {
    const order: string[] = []
    const server = new MemoryServer()
    const client = createClient(server)
    for (let index = 0; index < 50; index++) await create(client, `old${index}`)
    const manager = createManager({ client })
    cleanUps.push(() => manager.stop())
    manager.controller(Gadget, c =>
      c.concurrency(1).reconcile(async gadget => {
        order.push(gadget.metadata.name)
        if (order.length === 1) await create(client, 'fresh')
        await settle()
      }),
    )
    manager.start()
    await eventually(() => order.length === 51)
    expect(order.indexOf('fresh')).toBeLessThan(5)
  })
})

describe('failures', () => {
  test('are retried with a back-off that doubles from 5 ms, counted in `attempt`, and reset by a success', async () => {
    const clock = new FakeClock()
    const runs: [at: number, attempt: number][] = []
    let failing = true
    const { client } = setUp(
      c =>
        c.reconcile(async (_gadget, { attempt }) => {
          runs.push([clock.monotonic(), attempt])
          if (failing) throw new Error('not yet')
        }),
      clock,
    )
    await create(client, 'a')
    await eventually(() => runs.length === 1)
    await clock.advance(5 + 10 + 20)
    failing = false
    await clock.advance(40)
    expect(runs).toEqual([
      [0, 1],
      [5, 2],
      [15, 3],
      [35, 4],
      [75, 5],
    ])
    await client.patch(Gadget, 'a', { spec: { size: 3 } })
    await eventually(() => runs.length === 6)
    expect(runs[5]?.[1]).toBe(1)
  })

  test.each([
    [
      'throws',
      () => {
        throw new Error('thrown')
      },
    ],
    ['rejects', () => Promise.reject(new Error('rejected'))],
    ['rejects with nothing', () => Promise.reject(undefined)],
    ['returns a requeueAfterMs that is not a number', () => ({ requeueAfterMs: Number.NaN })],
    ['never settles', never],
  ])('a reconcile that %s delays its own object only', async (_how, fail) => {
    const clock = new FakeClock()
    const good: string[] = []
    let begun = false
    const { client } = setUp(
      c =>
        c
          .concurrency(1)
          .timeoutMs(1000)
          .reconcile(gadget => {
            begun = true
            if (gadget.metadata.name === 'bad') return fail()
            good.push(gadget.metadata.name)
          }),
      clock,
    )
    await create(client, 'bad')
    await eventually(() => begun)
    await create(client, 'good')
    await settle()
    await clock.advance(1000)
    await eventually(() => good.length === 1)
  })

  test('a TerminalError is not retried before the next change', async () => {
    const clock = new FakeClock()
    let runs = 0
    const { client } = setUp(
      c =>
        c.reconcile(() => {
          runs++
          throw new TerminalError('hopeless')
        }),
      clock,
    )
    await create(client, 'a')
    await eventually(() => runs === 1)
    await clock.advance(3_600_000)
    expect(runs).toBe(1)
    await client.patch(Gadget, 'a', { spec: { size: 3 } })
    await eventually(() => runs === 2)
  })

  test('Retry-After is respected', async () => {
    const clock = new FakeClock()
    let runs = 0
    const { client } = setUp(
      c =>
        c.reconcile(() => {
          runs++
          throw new ApiError('TooManyRequests', 'slow down', { retryAfterSeconds: 7 })
        }),
      clock,
    )
    await create(client, 'a')
    await eventually(() => runs === 1)
    await clock.advance(6999)
    expect(runs).toBe(1)
    await clock.advance(1)
    expect(runs).toBe(2)
  })

  test('a run that times out is aborted and cannot write; its object stays locked until it settles', async () => {
    const clock = new FakeClock()
    const runs: string[] = []
    let release: () => void = () => {}
    const { client, server, controller } = setUp(
      c =>
        c.timeoutMs(1000).reconcile(async (gadget, ctx) => {
          runs.push(ctx.signal.aborted ? 'aborted' : `attempt ${ctx.attempt}`)
          if (ctx.attempt > 1) return
          await new Promise<void>(resolve => {
            release = resolve
          })
          expect(ctx.signal.aborted).toBe(true)
          await ctx.client.patchStatus(Gadget, gadget, { phase: 'TooLate' })
        }),
      clock,
    )
    await create(client, 'a')
    await eventually(() => runs.length === 1)
    await clock.advance(1000)
    await client.patch(Gadget, 'a', { spec: { size: 2 } })
    await clock.advance(60_000)
    expect(runs).toEqual(['attempt 1'])
    expect(controller.counts).toMatchObject({ timedOut: 1 })
    release()
    await eventually(() => runs.length === 2)
    expect(runs[1]).toBe('attempt 2')
    expect(server.peek('gadgets', 'a')?.status).toBeUndefined()
  })
})

describe('read your own writes', () => {
  test('a run sees the last write of the previous run', async () => {
    const clock = new FakeClock()
    const seen: (number | undefined)[] = []
    const { client, server, controller } = setUp(
      c =>
        c.reconcile(async (gadget, ctx) => {
          const before = gadget.status?.seen ?? 0
          seen.push(before)
          if (before < 3) {
            server.holdWatches()
            await ctx.client.patchStatus(Gadget, gadget, { seen: before + 1 })
            return { requeueAfterMs: 0 }
          }
        }),
      clock,
    )
    await create(client, 'a')
    for (let round = 1; round <= 3; round++) {
      await eventually(() => seen.length === round)
      await settle()
      await eventually(() => controller.queue.processing === 1)
      server.releaseWatches()
    }
    await eventually(() => seen.length === 4)
    expect(seen).toEqual([0, 1, 2, 3])
  })

  test('a stale cache requeues the run, repeatedly, and never blocks others', async () => {
    const clock = new FakeClock()
    const runs: string[] = []
    const { client, server, controller } = setUp(
      c =>
        c.concurrency(1).reconcile(async (gadget, ctx) => {
          runs.push(gadget.metadata.name)
          if (gadget.metadata.name === 'a' && gadget.status?.seen === undefined) {
            server.holdWatches()
            await ctx.client.patchStatus(Gadget, gadget, { seen: 1 })
            return { requeueAfterMs: 0 }
          }
        }),
      clock,
    )
    await create(client, 'b')
    await create(client, 'a')
    await eventually(() => runs.length === 2)
    await settle()
    await clock.advance(5000)
    await settle()
    await clock.advance(1000)
    await settle()
    await clock.advance(5000)
    await settle()
    expect(runs).toEqual(['b', 'a'])
    expect(controller.counts.stale).toBe(2)
    server.releaseWatches()
    await settle()
    await clock.advance(1000)
    await eventually(() => runs.length === 3)
  })

  test('a write of unknown outcome is looked up before the next run', async () => {
    const seen: (number | undefined)[] = []
    const { client, server } = setUp(c =>
      c.reconcile(async (gadget, ctx) => {
        seen.push(gadget.status?.seen)
        if (gadget.status?.seen === undefined) await ctx.client.patchStatus(Gadget, gadget, { seen: 1 })
      }),
    )
    server.onAnswer = request => {
      if (request.method !== 'PATCH') return
      server.onAnswer = () => {}
      server.holdWatches()
      server.onRequest = ({ method }) => {
        if (method === 'GET') server.releaseWatches()
      }
      throw new TransportError('the answer got lost')
    }
    await create(client, 'a')
    await eventually(() => seen.length === 2)
    expect(seen).toEqual([undefined, 1])
    expect(server.requests.filter(request => request.startsWith('PATCH'))).toHaveLength(1)
  })

  test('an object that a run has deleted is not reconciled from a stale cache', async () => {
    let runs = 0
    const { client, server } = setUp(c =>
      c.reconcile(async (gadget, ctx) => {
        runs++
        server.holdWatches()
        await ctx.client.delete(Gadget, gadget.metadata.name)
        return { requeueAfterMs: 0 }
      }),
    )
    await create(client, 'a')
    await eventually(() => runs === 1)
    await settle()
    server.releaseWatches()
    await settle()
    expect(runs).toBe(1)
  })
})

describe('finalizers', () => {
  test('the finalizer is added before the first reconcile', async () => {
    const first: (readonly string[] | undefined)[] = []
    const { client, server } = setUp(c =>
      c
        .reconcile(async gadget => {
          first.push(server.peek('gadgets', gadget.metadata.name)?.metadata.finalizers)
          expect(gadget.metadata.finalizers).toContain(finalizer)
        })
        .finalize(finalizer, async () => {}),
    )
    await create(client, 'a')
    await create(client, 'b', 1, ['other.example.com/x'])
    await eventually(() => first.length === 2)
    expect(first).toEqual([[finalizer], ['other.example.com/x', finalizer]])
  })

  test('no reconcile starts until the finalizer is added', async () => {
    let runs = 0
    const { client, server } = setUp(c =>
      c.reconcile(async () => void runs++).finalize(finalizer, async () => {}),
    )
    let refused = 0
    server.onRequest = request => {
      if (request.method !== 'PATCH') return
      if (refused++ < 3) throw new ApiError('ServiceUnavailable', 'not now')
    }
    await create(client, 'a')
    await eventually(() => runs === 1)
    expect(refused).toBe(4)
  })

  test('after finalize succeeds, the finalizer and the object are removed', async () => {
    const cleaned: string[] = []
    const { client, server } = setUp(c =>
      c
        .reconcile(async () => {})
        .finalize(finalizer, async gadget => {
          expect(gadget.metadata.deletionTimestamp).toBeDefined()
          expect(server.peek('gadgets', 'a')?.metadata.finalizers).toEqual([finalizer])
          await settle()
          cleaned.push(gadget.metadata.name)
        }),
    )
    await create(client, 'a')
    await eventually(() => server.peek('gadgets', 'a')?.metadata.finalizers?.length === 1)
    await client.delete(Gadget, 'a')
    await eventually(() => server.peek('gadgets', 'a') === undefined)
    expect(cleaned).toEqual(['a'])
  })

  test('if finalize fails, the finalizer stays and finalize is retried', async () => {
    let attempts = 0
    const { client, server } = setUp(c =>
      c.finalize(finalizer, async () => {
        if (++attempts < 4) throw new Error('the outside is away')
        expect(server.peek('gadgets', 'a')?.metadata.finalizers).toEqual([finalizer])
      }),
    )
    await create(client, 'a')
    await eventually(() => server.peek('gadgets', 'a')?.metadata.finalizers?.length === 1)
    await client.delete(Gadget, 'a')
    await eventually(() => server.peek('gadgets', 'a') === undefined)
    expect(attempts).toBe(4)
  })

  test('if finalize times out, the finalizer stays, even if finalize resolves later', async () => {
    const clock = new FakeClock()
    let release: () => void = () => {}
    let attempts = 0
    const { client, server } = setUp(
      c =>
        c.timeoutMs(1000).finalize(finalizer, async () => {
          if (++attempts > 1) throw new Error('still not')
          await new Promise<void>(resolve => {
            release = resolve
          })
        }),
      clock,
    )
    await create(client, 'a')
    await eventually(() => server.peek('gadgets', 'a')?.metadata.finalizers?.length === 1)
    await client.delete(Gadget, 'a')
    await eventually(() => attempts === 1)
    await clock.advance(1000)
    release()
    while (attempts < 2) {
      await settle()
      await clock.advance(100)
    }
    expect(server.peek('gadgets', 'a')?.metadata.finalizers).toEqual([finalizer])
  })

  test('only its own finalizer is removed, whatever others do to the list meanwhile', async () => {
    const { client, server } = setUp(c =>
      c.finalize(finalizer, async gadget => {
        // Another controller is faster: our finalizer moves from the second place to the first.
        await client.patch(Gadget, gadget.metadata.name, {
          metadata: { finalizers: [finalizer, 'z.example.com/z'] },
        })
      }),
    )
    await create(client, 'a', 1, ['a.example.com/a', finalizer, 'z.example.com/z'])
    await client.delete(Gadget, 'a')
    await eventually(() => server.peek('gadgets', 'a')?.metadata.finalizers?.length === 1)
    expect(server.peek('gadgets', 'a')?.metadata.finalizers).toEqual(['z.example.com/z'])
  })

  test('finalize does not touch a recreated object of the same name', async () => {
    let later: GadgetObject | undefined
    const { client, server } = setUp(c =>
      c.finalize(finalizer, async () => {
        // Someone forces the old object out and creates a new one.
        await client.patch(Gadget, 'a', { metadata: { finalizers: null } })
        later = await create(client, 'a', 2, [finalizer])
      }),
    )
    await create(client, 'a', 1, [finalizer])
    await client.delete(Gadget, 'a')
    await eventually(() => later !== undefined)
    await settle()
    expect(server.peek('gadgets', 'a')?.metadata).toEqual(later?.metadata)
  })

  test('a deleting object without our finalizer is ignored', async () => {
    const server = new MemoryServer()
    const client = createClient(server)
    await create(client, 'a', 1, ['other.example.com/x'])
    await client.delete(Gadget, 'a')
    const touched: string[] = []
    const manager = createManager({ client })
    cleanUps.push(() => manager.stop())
    const touch = async ({ metadata: { name } }: GadgetObject) => void touched.push(name)
    manager.controller(Gadget, c => c.reconcile(touch).finalize(finalizer, touch))
    manager.start()
    await create(client, 'b')
    await eventually(() => touched.length === 1)
    expect(touched).toEqual(['b'])
    expect(server.peek('gadgets', 'a')?.metadata.finalizers).toEqual(['other.example.com/x'])
  })

  test('without finalize, deleting objects are passed to reconcile', async () => {
    const seen: boolean[] = []
    const { client } = setUp(c =>
      c.reconcile(async ({ metadata }) => void seen.push(metadata.deletionTimestamp !== undefined)),
    )
    await create(client, 'a', 1, ['other.example.com/x'])
    await eventually(() => seen.length === 1)
    await client.delete(Gadget, 'a')
    await eventually(() => seen.length === 2)
    expect(seen).toEqual([false, true])
  })

  test('an update filter hides neither the finalizer nor the deletion', async () => {
    const seen: string[] = []
    const { client, server } = setUp(c =>
      c
        .filterUpdates(() => false)
        .reconcile(async () => void seen.push('reconcile'))
        .finalize(finalizer, async () => void seen.push('finalize')),
    )
    await create(client, 'a')
    await eventually(() => seen.length === 1)
    await client.delete(Gadget, 'a')
    await eventually(() => server.peek('gadgets', 'a') === undefined)
    expect(seen).toEqual(['reconcile', 'finalize'])
  })

  test('a process that dies between two requests leaves an object that the next one cleans up', async () => {
    // The n-th request and all later ones fail; then a new manager takes over.
    for (let survive = 0; survive < 4; survive++) {
      for (const carriedOut of [false, true]) {
        const server = new MemoryServer()
        const client = createClient(server)
        const outside = new Set<string>()
        const build = (c: ControllerBuilder<GadgetObject>) =>
          c
            .reconcile(async (gadget, ctx) => {
              outside.add(gadget.metadata.uid)
              await ctx.client.patchStatus(Gadget, gadget, { phase: 'Ready' })
            })
            .finalize(finalizer, async gadget => void outside.delete(gadget.metadata.uid))
        let writes = 0
        const dying = createManager({
          client: createClient({
            watch: (path, options) => server.watch(path, options),
            request: async request => {
              const dead = writes++ >= survive
              if (dead && (!carriedOut || writes - 1 > survive)) throw new TransportError('dead')
              const answer = await server.request(request)
              if (dead) throw new TransportError('dead')
              return answer
            },
          }),
          drainTimeoutMs: 5,
        })
        dying.controller(Gadget, build)
        dying.start()
        await create(client, 'a')
        await settle()
        if (survive >= 2) await client.delete(Gadget, 'a')
        await settle()
        await dying.stop()
        const next = createManager({ client, drainTimeoutMs: 5 })
        next.controller(Gadget, build)
        next.start()
        if (survive < 2) {
          await eventually(() => server.peek('gadgets', 'a')?.status !== undefined)
          expect(server.peek('gadgets', 'a')?.metadata.finalizers).toEqual([finalizer])
          await client.delete(Gadget, 'a')
        }
        await eventually(() => server.peek('gadgets', 'a') === undefined)
        expect(outside).toEqual(new Set())
        await next.stop()
      }
    }
  })
})
