import { afterEach, describe, expect, test } from 'vitest'
import { type Harness, settle, startHarness } from '../../../test/support/sdk/controller-harness.ts'
import { eventually } from '../../../test/support/sdk/eventually.ts'
import { MemoryServer } from '../../../test/support/sdk/memory-server.ts'
import { Gadget } from '../../../test/support/sdk/sample-models.ts'
import { ApiError } from '../api/errors.ts'
import type { ObjectOf } from '../api/model.ts'
import { createClient } from '../client/create-client.ts'
import { TransportError } from '../client/transport.ts'
import { type Logger, silentLogger } from '../logger.ts'
import { createManager } from '../manager/manager.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { ControllerBuilder } from './builder.ts'
import { Controller } from './controller.ts'

const harnesses: Harness[] = []
afterEach(async () => {
  for (const harness of harnesses.splice(0)) await harness.stop()
})

describe('retry', () => {
  test('a reconcile knows its attempt and whether it is the last; then it is not retried until a change', async () => {
    const clock = new FakeClock()
    const runs: [at: number, attempt: number, isLast: boolean][] = []
    const harness = startHarness(
      Gadget,
      c =>
        c.retry({ maxAttempts: 3, backoffBaseMs: 100, backoffMaxMs: 150 }).reconcile((_gadget, context) => {
          runs.push([clock.monotonic(), context.attempt, context.isLastAttempt])
          throw new Error('never')
        }),
      { clock },
    )
    harnesses.push(harness)
    await harness.client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
    await eventually(() => runs.length === 1)
    await clock.advance(3_600_000)
    expect(runs).toEqual([
      [0, 1, false],
      [100, 2, false],
      [250, 3, true],
    ])
    expect(harness.controller.queue.delayed).toBe(0)
    await harness.client.patch(Gadget, 'a', { spec: { size: 2 } })
    await eventually(() => runs.length === 4)
    expect(runs[3]?.slice(1)).toEqual([1, false])
  })

  test('finalize is retried without limit and never on its last attempt; the finalizer stays', async () => {
    const clock = new FakeClock()
    const finalizer = 'demo.example.com/cleanup'
    const attempts: [attempt: number, isLast: boolean][] = []
    const harness = startHarness(
      Gadget,
      c =>
        c.retry({ maxAttempts: 2 }).finalize(finalizer, (_gadget, { attempt, isLastAttempt }) => {
          attempts.push([attempt, isLastAttempt])
          if (attempts.length < 12) throw new Error('the outside is away')
        }),
      { clock },
    )
    harnesses.push(harness)
    const { client, server } = harness
    await client.create(Gadget, { metadata: { name: 'a', finalizers: [finalizer] }, spec: { size: 1 } })
    await client.delete(Gadget, 'a')
    await eventually(() => attempts.length >= 1)
    for (let round = 0; round < 10; round++) {
      expect(server.peek('gadgets', 'a')?.metadata.finalizers).toEqual([finalizer])
      await clock.advance(5 * 2 ** round)
    }
    await clock.advance(3_600_000)
    expect(attempts.length).toBe(12)
    expect(attempts.every(([, isLast]) => !isLast)).toBe(true)
    expect(server.peek('gadgets', 'a')).toBeUndefined()
  })

  test('an overall rate spreads the retries of many objects', async () => {
    const clock = new FakeClock()
    const at: number[] = []
    const harness = startHarness(
      Gadget,
      c =>
        c.retry({ rate: { perSecond: 1, burst: 2 } }).reconcile((_gadget, { attempt }) => {
          if (attempt === 1) throw new Error('once')
          at.push(clock.monotonic())
        }),
      { clock },
    )
    harnesses.push(harness)
    for (const name of ['a', 'b', 'c', 'd']) {
      await harness.client.create(Gadget, { metadata: { name }, spec: { size: 1 } })
    }
    await settle()
    await clock.advance(10_000)
    expect(at).toEqual([5, 5, 1000, 2000])
  })

  test('invalid options are rejected', () => {
    const builder = new ControllerBuilder(Gadget)
    expect(() => builder.retry({ maxAttempts: 0 })).toThrow(/integer from 1/)
    expect(() => builder.retry({ backoffBaseMs: -1 })).toThrow(/backoffBaseMs/)
    expect(() => builder.retry({ rate: { perSecond: 0, burst: 1 } })).toThrow(/rate/)
  })
})

describe('requeueAfterMs', () => {
  /** A gadget `a` whose n-th run returns `answers[n]`, and the last of them from then on. */
  async function setUp(...answers: readonly (number | undefined)[]) {
    const clock = new FakeClock()
    const runs: number[] = []
    const harness = startHarness(
      Gadget,
      c =>
        c.reconcile(async () => {
          runs.push(clock.monotonic())
          const requeueAfterMs = answers[Math.min(runs.length, answers.length) - 1]
          if (requeueAfterMs !== undefined) return { requeueAfterMs }
        }),
      { clock },
    )
    harnesses.push(harness)
    const gadget = await harness.client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
    await eventually(() => runs.length >= 1)
    await clock.advance(10_000)
    return { ...harness, clock, runs, gadget }
  }

  test('of 0 runs the object again at once', async () => {
    const { runs } = await setUp(0, undefined)
    expect(runs).toEqual([0, 0])
  })

  test('is kept if an event does not pass the filter', async () => {
    const { client, clock, runs, gadget } = await setUp(30_000, undefined)
    await client.patchStatus(Gadget, gadget, { phase: 'Ready' })
    await clock.advance(19_999)
    expect(runs).toEqual([0])
    await clock.advance(1)
    expect(runs).toEqual([0, 30_000])
  })

  test('is replaced by the result of a later run', async () => {
    const { client, clock, runs } = await setUp(30_000, 100_000, undefined)
    await client.patch(Gadget, 'a', { spec: { size: 2 } })
    await eventually(() => runs.length === 2)
    await clock.advance(99_999)
    expect(runs).toEqual([0, 10_000])
    await clock.advance(1)
    expect(runs).toEqual([0, 10_000, 110_000])
  })

  test('is cancelled by a run that returns nothing, and by the deletion of the object', async () => {
    const { client, clock, runs, controller } = await setUp(30_000, undefined)
    await client.patch(Gadget, 'a', { spec: { size: 2 } })
    await eventually(() => runs.length === 2)
    await clock.advance(3_600_000)
    expect(runs).toHaveLength(2)
    const other = await setUp(30_000)
    await other.client.delete(Gadget, 'a')
    await settle()
    expect([controller.queue, other.controller.queue]).toEqual([
      { depth: 0, delayed: 0, processing: 0 },
      { depth: 0, delayed: 0, processing: 0 },
    ])
  })
})

describe('log lines', () => {
  test('have controller, object, attempt, reason and reconcile id', async () => {
    const lines: object[] = []
    const logWith = (fields: object): Logger => ({
      ...silentLogger,
      info: more => void lines.push({ ...fields, ...more }),
      child: more => logWith({ ...fields, ...more }),
    })
    const ids: string[] = []
    const harness = startHarness(
      Gadget,
      c =>
        c.reconcile(async (_gadget, { log, reconcileId }) => {
          ids.push(reconcileId)
          log.info({}, 'here')
        }),
      { log: logWith({}) },
    )
    harnesses.push(harness)
    await harness.manager.synced()
    await harness.client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
    await eventually(() => ids.length === 1)
    const run = { controller: 'gadgets.demo.example.com', object: 'a', attempt: 1, reason: 'added' }
    expect(lines).toContainEqual({ ...run, reconcileId: ids[0] })
    expect(ids[0]).toMatch(/^[0-9a-f-]{36}$/)
  })
})

describe('a failure', () => {
  test.each([
    new TransportError('connect ECONNREFUSED 127.0.0.1:8090'),
    new ApiError('ServiceUnavailable', 'the store cannot be reached'),
    new ApiError('Timeout', 'the outcome is unknown'),
    new ApiError('TooManyRequests', 'later'),
  ])('that is temporary logs one line with the delay and without a stack: %s', async error => {
    const [line] = await linesOf(error)
    expect(line).toMatchObject({ object: 'a', attempt: 1, error: error.message, delayMs: 5 })
    expect(line).not.toHaveProperty('err')
  })

  test.each([new Error('a fault'), new ApiError('Invalid', 'no such colour')])(
    'of the reconcile itself logs its stack: %s',
    async error => {
      const [line] = await linesOf(error)
      expect(line).toMatchObject({ object: 'a', attempt: 1, err: error, delayMs: 5 })
    },
  )

  /** The log lines of a reconcile that fails once. */
  async function linesOf(error: Error): Promise<object[]> {
    const lines: object[] = []
    const logWith = (fields: object): Logger => ({
      ...silentLogger,
      warn: more => void lines.push({ ...fields, ...more }),
      child: more => logWith({ ...fields, ...more }),
    })
    const clock = new FakeClock()
    const throwing = () => {
      throw error
    }
    const harness = startHarness(Gadget, c => c.reconcile(throwing), { clock, log: logWith({}) })
    harnesses.push(harness)
    await harness.client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
    await eventually(() => harness.controller.counts.failed === 1)
    expect(lines).toHaveLength(1)
    return lines
  }
})

describe('the leadership guard', () => {
  /** A controller whose leadership the test ends and restores. */
  function setUp(reconcile: (context: { close(): void; write(): Promise<unknown> }) => Promise<void>) {
    const clock = new FakeClock()
    const server = new MemoryServer()
    const client = createClient(server)
    const leadership = { lost: false }
    const manager = createManager({ client, clock, drainTimeoutMs: 50 })
    const builder = new ControllerBuilder(Gadget).reconcile(
      async (gadget: ObjectOf<typeof Gadget>, context) =>
        reconcile({
          close: () => {
            leadership.lost = true
          },
          write: () => context.client.patchStatus(Gadget, gadget, { phase: 'Ready' }),
        }),
    )
    const controller = new Controller(builder.build(), {
      client,
      clock,
      leadershipGuard: () => {
        if (leadership.lost) throw new Error('no longer the leader')
      },
    })
    manager.add(controller)
    manager.start()
    harnesses.push({
      server,
      client,
      manager,
      controller,
      stop: async () => {
        const stopped = manager.stop()
        await clock.advance(60_000)
        await stopped
      },
    })
    return { clock, server, client, controller, leadership }
  }

  test('while it is closed, runs are requeued and not counted as failed', async () => {
    let runs = 0
    const { clock, client, controller, leadership } = setUp(async () => void runs++)
    leadership.lost = true
    await client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
    await settle()
    await clock.advance(10_000)
    expect(runs).toBe(0)
    expect(controller.counts.failed).toBe(0)
    leadership.lost = false
    await clock.advance(1_000)
    expect(runs).toBe(1)
  })

  test('a run in progress writes nothing after it closes', async () => {
    const outcomes: string[] = []
    const { client, server, controller } = setUp(async ({ close, write }) => {
      close()
      await write()
    })
    void (async () => {
      for await (const { outcome } of controller.results()) outcomes.push(outcome)
    })()
    await client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
    await eventually(() => outcomes.length === 1)
    expect(outcomes).toEqual(['notLeader'])
    expect(server.peek('gadgets', 'a')?.status).toBeUndefined()
    expect(server.requests.filter(request => request.startsWith('PATCH'))).toEqual([])
  })
})
