import { afterEach, describe, expect, test } from 'vitest'
import { FaultyTransport } from '../../../test/support/sdk/faulty-transport.ts'
import { MemoryServer } from '../../../test/support/sdk/memory-server.ts'
import { Gadget } from '../../../test/support/sdk/sample-models.ts'
import type { ObjectOf } from '../api/model.ts'
import { createClient } from '../client/create-client.ts'
import { Lease } from '../kinds/lease.ts'
import { type Logger, silentLogger } from '../logger.ts'
import { definePlugin } from '../plugin/plugin.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { LeadershipLostError } from './leader-election.ts'
import { createManager, type Manager, type ManagerOptions } from './manager.ts'
import { setupPlugin } from './plugin-host.ts'

type GadgetObject = ObjectOf<typeof Gadget>
const noDelay = { takeMaxMs: () => 0, stop() {} }

const managers: { manager: Manager; clock: FakeClock }[] = []
afterEach(async () => {
  for (const { manager, clock } of managers.splice(0)) {
    const stopped = manager.stop({ force: true })
    await clock.advance(60_000)
    await stopped
  }
})

/** Managers of one election, each with its own clock and transport. */
class World {
  readonly server = new MemoryServer()
  readonly client = createClient(this.server)
  readonly clocks: FakeClock[] = []

  join(identity: string, options: Partial<ManagerOptions> = {}) {
    const clock = new FakeClock()
    const link = new FaultyTransport(this.server)
    const manager = createManager({
      transport: link,
      clock,
      eventLoopDelay: noDelay,
      leaderElection: { lease: 'work', identity, random: () => 0 },
      ...options,
    })
    managers.push({ manager, clock })
    this.clocks.push(clock)
    return { manager, clock, link }
  }

  async pass(ms: number, stepMs = 250): Promise<void> {
    for (let passed = 0; passed < ms; passed += stepMs) {
      for (const clock of this.clocks) await clock.advance(stepMs)
    }
  }

  async create(...names: string[]): Promise<void> {
    for (const name of names) await this.client.create(Gadget, { metadata: { name }, spec: { size: 1 } })
  }

  get holder() {
    return this.client.get(Lease, 'setpoint-system/work').then(({ spec }) => spec.holderIdentity)
  }

  phase(name: string): unknown {
    const status: unknown = this.server.peek('gadgets', name)?.status
    return typeof status === 'object' && status !== null && 'phase' in status ? status.phase : undefined
  }
}

/** A controller that records who reconciled what. */
function recording(manager: Manager, who: string, seen: string[]): void {
  manager.controller(Gadget, c => c.reconcile(({ metadata: { name } }) => void seen.push(`${who} ${name}`)))
}

describe('a standby manager', () => {
  test('runs and writes nothing, while its caches are synced', async () => {
    const world = new World()
    const seen: string[] = []
    await world.create('a')
    const first = world.join('first')
    recording(first.manager, 'first', seen)
    first.manager.start()
    await world.pass(500)
    const second = world.join('second')
    recording(second.manager, 'second', seen)
    second.manager.start()
    await world.pass(500)
    await world.create('b')
    await world.pass(30_000)
    expect(seen).toEqual(['first a', 'first b'])
    expect(
      second.manager
        .informer(Gadget)
        .list()
        .map(({ metadata: { name } }) => name),
    ).toEqual(['a', 'b'])
    expect(second.manager.leadership).toMatchObject({ isLeader: false, leader: 'first' })
    expect(() => second.manager.leadershipGuard()).toThrow(LeadershipLostError)
    await expect(second.manager.client.delete(Gadget, 'a')).rejects.toThrow(LeadershipLostError)
    expect((await second.manager.client.get(Gadget, 'a')).metadata.name).toBe('a')
    expect(second.manager.health()).toMatchObject({ live: true, ready: true })
  })

  test('takes over with synced caches: it reconciles everything at once and lists nothing', async () => {
    const world = new World()
    const seen: string[] = []
    const names = Array.from({ length: 50 }, (_, n) => `g-${String(n).padStart(2, '0')}`)
    await world.create(...names)
    const first = world.join('first')
    first.manager.controller(Gadget, c => c.reconcile(() => {}))
    first.manager.start()
    await world.pass(500)
    const second = world.join('second')
    recording(second.manager, 'second', seen)
    second.manager.start()
    await world.pass(5_000)
    const watches = world.server.openWatches
    world.server.requests.length = 0
    await first.manager.stop()
    await world.pass(250)
    expect(seen).toEqual(names.map(name => `second ${name}`))
    expect(
      world.server.requests.filter(request => request.startsWith('GET') && request.includes('gadgets')),
    ).toEqual([])
    // The watches of the first are gone, and so is the one with which the second watched the lease.
    expect(world.server.openWatches).toBe(watches - 2)
  })

  test('never becomes active after it was stopped, even if it acquires the lease at that moment', async () => {
    const world = new World()
    const seen: string[] = []
    await world.create('a')
    const { manager } = world.join('only')
    recording(manager, 'only', seen)
    let answer: () => void = () => {}
    world.server.onAnswer = ({ method, path }) => {
      if (method !== 'POST' || !path.includes('leases')) return
      return new Promise<void>(resolve => {
        answer = resolve
      })
    }
    manager.start()
    await world.pass(250)
    const stopped = manager.stop()
    answer()
    await world.pass(1_000)
    await stopped
    expect(seen).toEqual([])
    expect(await world.holder).toBe('')
  })

  test('does not acquire the lease while it stops, however long that takes', async () => {
    const world = new World()
    const first = world.join('first')
    first.manager.start()
    await world.pass(500)
    const second = world.join('second')
    second.manager.add({
      name: 'slow to end',
      needsLeader: false,
      run: ({ signal }) =>
        new Promise(resolve => {
          signal.addEventListener('abort', () => second.clock.setTimeout(() => resolve(), 20_000))
        }),
    })
    second.manager.start()
    await world.pass(3_000)
    const stopped = second.manager.stop()
    await world.pass(250)
    await first.manager.stop()
    await world.pass(19_000)
    expect(await world.holder).toBe('')
    await world.pass(2_000)
    await stopped
    expect(await world.holder).toBe('')
  })

  test('that is stopped before its caches have synced does not join the election', async () => {
    const world = new World()
    const { manager, link } = world.join('only')
    recording(manager, 'only', [])
    link.state = 'silent'
    manager.start()
    await world.pass(1_000)
    const stopped = manager.stop()
    await world.pass(5_000)
    await stopped
    link.state = 'up'
    await world.pass(60_000)
    expect(world.server.peek('leases', 'setpoint-system/work')).toBeUndefined()
  })
})

describe('a manager that loses its lease', () => {
  test('aborts runs in progress, refuses their writes, starts none, and stands by', async () => {
    const world = new World()
    await world.create('a')
    const { manager, link } = world.join('first')
    const story: string[] = []
    manager.controller(Gadget, c =>
      c.reconcile(async (object: GadgetObject, { client, signal }) => {
        story.push('begun')
        await new Promise(resolve => signal.addEventListener('abort', resolve))
        story.push(signal.reason instanceof LeadershipLostError ? 'aborted' : 'stopped')
        await client.patchStatus(Gadget, object, { phase: 'TooLate' }).catch(() => story.push('refused'))
      }),
    )
    manager.start()
    await world.pass(5_000)
    expect(story).toEqual(['begun'])
    link.state = 'down'
    await world.pass(11_000)
    expect(story).toEqual(['begun', 'aborted', 'refused'])
    const second = world.join('second')
    const seen: string[] = []
    recording(second.manager, 'second', seen)
    second.manager.start()
    await world.create('b')
    await world.pass(20_000)
    link.state = 'up'
    await world.pass(30_000)
    expect(seen).toEqual(['second a', 'second b'])
    expect(story).toEqual(['begun', 'aborted', 'refused'])
    expect(world.phase('a')).toBeUndefined()
    expect(manager.leadership).toMatchObject({ isLeader: false, leader: 'second' })
    // Its caches are still synced: it could take over at once.
    expect(manager.informer(Gadget).size).toBe(2)
  })

  test('and acquires it again reconciles everything except objects that a run still holds', async () => {
    const world = new World()
    await world.create('a', 'b')
    const { manager, link } = world.join('only')
    const story: string[] = []
    let end: () => void = () => {}
    manager.controller(Gadget, c =>
      c.concurrency(2).reconcile(({ metadata: { name } }) => {
        story.push(name)
        // Ignores its signal.
        if (name === 'a' && story.length <= 2) {
          return new Promise<void>(resolve => {
            end = resolve
          })
        }
      }),
    )
    manager.start()
    await world.pass(5_000)
    expect(story.sort()).toEqual(['a', 'b'])
    link.state = 'down'
    await world.pass(12_000)
    link.state = 'up'
    await world.pass(10_000)
    expect(manager.leadership?.isLeader).toBe(true)
    expect(story).toEqual(['a', 'b', 'b'])
    end()
    await world.pass(1_000)
    expect(story).toEqual(['a', 'b', 'b', 'a'])
  })

  test('because its event loop was blocked for a minute writes nothing afterwards, not even in that run', async () => {
    const world = new World()
    await world.create('a')
    const { manager, clock } = world.join('stalled')
    const story: string[] = []
    manager.controller(Gadget, c =>
      c.reconcile(async (object: GadgetObject, { client }) => {
        story.push('begun')
        if (story.length > 1) return
        clock.stall(60_000)
        await client.patchStatus(Gadget, object, { phase: 'TooLate' }).catch(error => {
          story.push(error instanceof LeadershipLostError ? 'refused' : String(error))
          throw error
        })
        story.push('written')
      }),
    )
    manager.start()
    await world.pass(250)
    expect(story.slice(0, 2)).toEqual(['begun', 'refused'])
    expect(story).not.toContain('written')
    expect(world.phase('a')).toBeUndefined()
  })
})

describe('runnables', () => {
  test('run on every manager or only on the leader, and again when it leads again', async () => {
    const world = new World()
    const story: string[] = []
    const joined = ['first', 'second'].map(identity => {
      const member = world.join(identity)
      for (const needsLeader of [true, false]) {
        member.manager.add({
          name: needsLeader ? 'leads' : 'everywhere',
          needsLeader,
          async run({ signal }) {
            const what = `${identity} ${needsLeader ? 'leads' : 'everywhere'}`
            story.push(what)
            await new Promise(resolve => signal.addEventListener('abort', resolve))
            story.push(`${what} ended`)
          },
        })
      }
      return member
    })
    const [first, second] = joined
    first?.manager.start()
    await world.pass(500)
    second?.manager.start()
    await world.pass(500)
    expect(story).toEqual(['first everywhere', 'first leads', 'second everywhere'])
    if (first) first.link.state = 'down'
    await world.pass(11_000)
    expect(story.slice(3)).toEqual(['first leads ended'])
    await world.pass(10_000)
    expect(story.slice(4)).toEqual(['second leads'])
  })

  test('are restarted with back-off after a failure, and not after they have returned', async () => {
    const world = new World()
    const { manager } = world.join('only')
    let runs = 0
    manager.add({
      name: 'flaky',
      run() {
        if (++runs < 4) throw new Error('not yet')
      },
    })
    manager.start()
    await world.pass(60_000)
    expect(runs).toBe(4)
  })

  test('write through the leadership guard only if they need the leader', async () => {
    const world = new World()
    await world.create('a', 'b')
    const { manager, link } = world.join('only')
    const outcomes: string[] = []
    for (const needsLeader of [true, false]) {
      manager.add({
        name: `${needsLeader}`,
        needsLeader,
        async run({ client }) {
          await new Promise(resolve => {
            release.push(resolve)
          })
          const outcome = await client.delete(Gadget, needsLeader ? 'a' : 'b').then(
            () => 'deleted',
            error => error.name,
          )
          outcomes.push(`${needsLeader} ${outcome}`)
        },
      })
    }
    const release: ((value: unknown) => void)[] = []
    manager.start()
    await world.pass(500)
    link.state = 'down'
    await world.pass(12_000)
    link.state = 'up'
    for (const each of release) each(undefined)
    await world.clocks[0]?.advance(0)
    expect(outcomes.sort()).toEqual(['false deleted', 'true LeadershipLostError'])
  })

  test('and controllers must have distinct names', () => {
    const { manager } = new World().join('only')
    manager.add({ name: 'one', run() {} })
    expect(() => manager.add({ name: 'one', run() {} })).toThrow(/a runnable named one already/)
    expect(() => manager.controller(Gadget, c => c.named('one').reconcile(() => {}))).toThrow(/one/)
  })
})

describe('stop', () => {
  test('ends the runs, then closes the watches, and releases the lease last', async () => {
    const world = new World()
    await world.create('a')
    const { manager } = world.join('only')
    const story: string[] = []
    let end: () => void = () => {}
    manager.controller(Gadget, c =>
      c.reconcile(async () => {
        await new Promise<void>(resolve => {
          end = resolve
        })
        story.push('run ended')
      }),
    )
    manager.start()
    await world.pass(500)
    world.server.onRequest = ({ method, path, body = '' }) => {
      if (method !== 'PUT' || !path.includes('leases')) return
      const released = body.includes('"holderIdentity":""')
      story.push(released ? `released with ${world.server.openWatches} watches` : 'renewed')
    }
    const stopped = manager.stop()
    // Longer than a lease: it renews while it drains.
    await world.pass(20_000)
    expect(new Set(story)).toEqual(new Set(['renewed']))
    expect(await world.holder).toBe('only')
    end()
    await world.pass(250)
    await stopped
    expect(story.filter(line => line !== 'renewed')).toEqual(['run ended', 'released with 0 watches'])
  })

  test('leaves the lease to expire if a run has not ended', async () => {
    const world = new World()
    await world.create('a')
    const { manager } = world.join('only', { drainTimeoutMs: 3_000 })
    manager.controller(Gadget, c => c.reconcile(() => new Promise<never>(() => {})))
    manager.start()
    await world.pass(500)
    const stopped = manager.stop()
    await world.pass(10_000)
    await stopped
    expect(await world.holder).toBe('only')
    expect(() => manager.leadershipGuard()).toThrow(LeadershipLostError)
  })

  test('leaves the lease to expire if a runnable has not ended', async () => {
    const world = new World()
    const { manager } = world.join('only', { drainTimeoutMs: 3_000 })
    manager.add({ name: 'deaf', run: () => new Promise<never>(() => {}) })
    manager.start()
    await world.pass(500)
    const stopped = manager.stop()
    await world.pass(10_000)
    await stopped
    expect(await world.holder).toBe('only')
  })

  test('with force, also in a second call, aborts the runs at once and still releases the lease', async () => {
    const world = new World()
    await world.create('a')
    const { manager } = world.join('only')
    let reason: unknown
    manager.controller(Gadget, c =>
      c.reconcile(async (_, { signal }) => {
        await new Promise(resolve => signal.addEventListener('abort', resolve))
        reason = signal.reason
      }),
    )
    manager.start()
    await world.pass(500)
    let over = false
    const stopped = manager.stop().then(() => {
      over = true
    })
    await world.pass(5_000)
    expect([over, reason]).toEqual([false, undefined])
    void manager.stop({ force: true })
    await world.pass(250)
    await stopped
    expect(reason).toMatchObject({ name: 'AbortError' })
    expect(await world.holder).toBe('')
  })
})

describe('health', () => {
  test('reports caches that have not synced and a stuck election, and is otherwise ok', async () => {
    const world = new World()
    const { manager, link } = world.join('only')
    recording(manager, 'only', [])
    manager.add({ name: 'deaf', run: () => new Promise<never>(() => {}) })
    expect(manager.health()).toMatchObject({
      live: true,
      ready: false,
      readiness: [
        { name: 'informer/gadgets.demo.example.com', problem: 'the cache has not synced' },
        { name: 'leader-election', problem: 'no attempt at the lease has succeeded yet' },
      ],
    })
    manager.start()
    await world.pass(5_000)
    expect(manager.health()).toMatchObject({ live: true, ready: true })
    // Work that does not end after the lease is lost keeps this process from leading again.
    link.state = 'down'
    await world.pass(40_000)
    expect(manager.health()).toMatchObject({
      live: false,
      liveness: [
        { name: 'leader-election', problem: expect.stringContaining('no attempt at the lease work') },
      ],
    })
  })

  /** A manager that leads and one that stands by, both ready. */
  async function leaderAndStandby() {
    const world = new World()
    const first = world.join('first')
    first.manager.start()
    await world.pass(500)
    const second = world.join('second')
    const problem = ({ manager }: typeof first) => manager.health().readiness.at(-1)?.problem
    expect(problem(second)).toBe('no attempt at the lease has succeeded yet')
    second.manager.start()
    await world.pass(5_000)
    expect([first, second].map(({ manager }) => manager.health().ready)).toEqual([true, true])
    return { world, first, second, problem }
  }

  test('a standby whose attempts at the lease fail is not ready after the time of a lease, until one succeeds', async () => {
    const { world, first, second, problem } = await leaderAndStandby()
    second.link.state = 'down'
    await world.pass(11_000)
    expect(second.manager.health()).toMatchObject({ live: true, ready: true })
    await world.pass(8_000)
    // Its watch of the lease still shows a live leader.
    expect(second.manager.leadership).toMatchObject({ leader: 'first' })
    expect(problem(second)).toMatch(/^no attempt at the lease has succeeded for \d\d s: the link is down$/)
    expect(second.manager.health()).toMatchObject({ live: true, ready: false })
    expect(first.manager.health()).toMatchObject({ ready: true })
    second.link.state = 'up'
    await world.pass(5_000)
    expect(second.manager.health()).toMatchObject({ ready: true })
  })

  test('of managers whose server is away, none is ready once the lease is lost, and each is when one leads', async () => {
    const { world, first, second, problem } = await leaderAndStandby()
    for (const { link } of [first, second]) link.state = 'down'
    await world.pass(12_500)
    expect(problem(first)).toBe('this process has lost the lease')
    expect(second.manager.health()).toMatchObject({ ready: true })
    await world.pass(10_000)
    for (const each of [first, second]) {
      expect(each.manager.health()).toMatchObject({ live: true, ready: false })
      expect(problem(each)).toMatch(/^no attempt at the lease has succeeded for \d\d s: the link is down$/)
    }
    for (const { link } of [first, second]) link.state = 'up'
    await world.pass(10_000)
    for (const { manager } of [first, second]) expect(manager.health()).toMatchObject({ ready: true })
  })

  test('a standby whose leader has not renewed for the time of its lease is not ready', async () => {
    const { world, first, second, problem } = await leaderAndStandby()
    first.link.state = 'down'
    await world.pass(12_000)
    expect(second.manager.health()).toMatchObject({ ready: true })
    // Before it could try again.
    second.clock.stall(4_000)
    expect(problem(second)).toBe('the lease of first has expired')
    await world.pass(1_000)
    expect(second.manager.leadership).toMatchObject({ isLeader: true })
    expect(second.manager.health()).toMatchObject({ ready: true })
  })

  test('an event loop that was blocked for a retry period is logged once', async () => {
    const world = new World()
    const delays = [10, 2_500, 100]
    const warnings: object[] = []
    const log: Logger = {
      debug() {},
      info() {},
      warn: (fields, message) => void (message.includes('event loop') && warnings.push(fields)),
      error() {},
      child: () => log,
    }
    const { manager } = world.join('only', {
      log,
      eventLoopDelay: { takeMaxMs: () => delays.shift() ?? 0, stop() {} },
    })
    manager.start()
    await world.pass(10_000)
    expect(warnings).toEqual([{ delayMs: 2_500 }])
  })
})

describe('a plugin', () => {
  test('writes through the leadership guard in its controllers, and without it in its routes', async () => {
    const world = new World()
    await world.create('a', 'b')
    const { manager, clock, link } = world.join('only')
    const outcomes: string[] = []
    const plugin = definePlugin({
      name: 'demo',
      models: [Gadget],
      setup(context) {
        context.controller(Gadget, c =>
          c.reconcile(async (object: GadgetObject, { client, signal }) => {
            if (object.metadata.name !== 'a') return
            await new Promise(resolve => signal.addEventListener('abort', resolve))
            link.state = 'up'
            await client.delete(Gadget, 'a').catch(() => outcomes.push('refused'))
          }),
        )
      },
    })
    const hosted = await setupPlugin(plugin, { transport: link, log: silentLogger, manager, clock })
    manager.start()
    await world.pass(500)
    link.state = 'down'
    await world.pass(11_000)
    expect(outcomes).toEqual(['refused'])
    expect(world.server.peek('gadgets', 'a')).toBeDefined()
    await hosted.client.delete(Gadget, 'b')
    expect(world.server.peek('gadgets', 'b')).toBeUndefined()
  })
})

test('an election needs a transport, which the leadership guard wraps', () => {
  const client = createClient(new MemoryServer())
  expect(() => createManager({ client, leaderElection: { lease: 'work' } })).toThrow(TypeError)
})

test('without an election a manager is active at once, and its leadership guard does not throw', async () => {
  const world = new World()
  await world.create('a')
  const manager = createManager({ transport: world.server })
  const seen: string[] = []
  recording(manager, 'alone', seen)
  manager.start()
  await manager.synced()
  manager.leadershipGuard()
  expect(manager.leadership).toBeUndefined()
  await manager.stop()
})
