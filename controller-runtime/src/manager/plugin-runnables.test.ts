import { Registry } from 'prom-client'
import { afterEach, describe, expect, test } from 'vitest'
import { MemoryServer } from '../../../test/support/sdk/memory-server.ts'
import { Gadget } from '../../../test/support/sdk/sample-models.ts'
import { createClient } from '../client/create-client.ts'
import { type Transport, TransportError } from '../client/transport.ts'
import { Lease } from '../kinds/lease.ts'
import type { Logger } from '../logger.ts'
import { definePlugin, type PluginContext } from '../plugin/plugin.ts'
import type { PluginRunContext } from '../plugin/runnables.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { createManager, type ManagerOptions } from './manager.ts'
import { type PluginHostOptions, setupPlugin } from './plugin-host.ts'

const cleanUps: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0)) await cleanUp()
})

interface Line {
  readonly message: string
  readonly [field: string]: unknown
}

function recordingLog(lines: Line[], bound: object = {}): Logger {
  const write = (fields: object, message: string) => void lines.push({ ...bound, ...fields, message })
  const child = (fields: object) => recordingLog(lines, { ...bound, ...fields })
  return { debug() {}, info: write, warn: write, error: write, child }
}

/** One process with the controllers of plugins, on a fake clock. */
function startProcess({
  server = new MemoryServer(),
  ...options
}: { readonly server?: Transport } & Partial<ManagerOptions> = {}) {
  const clock = new FakeClock()
  const registry = new Registry()
  const lines: Line[] = []
  const log = recordingLog(lines)
  const manager = createManager({ transport: server, clock, registry, log, ...options })
  manager.start()
  cleanUps.push(async () => {
    const stopped = manager.stop({ force: true })
    await clock.advance(60_000)
    await stopped
  })
  return {
    clock,
    lines,
    manager,
    registry,
    host: (setup: (plugin: PluginContext) => void, given: Partial<PluginHostOptions> = {}) =>
      setupPlugin(definePlugin({ name: 'demo', setup }), {
        transport: server,
        manager,
        clock,
        log,
        ...given,
      }),
    /** The value of a series, such as `setpoint_runnable_running{runnable="demo/a"}`. */
    async series(text: string): Promise<number | undefined> {
      const line = (await registry.metrics()).split('\n').find(each => each.startsWith(`${text} `))
      return line === undefined ? undefined : Number(line.slice(text.length))
    },
  }
}

const aborted = (signal: AbortSignal) =>
  new Promise<void>(resolve => signal.addEventListener('abort', () => resolve()))
const settle = (clock: FakeClock) => clock.advance(0)

describe('the failures of a plugin', () => {
  test('have the latest error of a runnable, until a restarted one has worked for a minute', async () => {
    const { clock, host } = startProcess()
    let changes = 0
    let runs = 0
    const hosted = await host(
      plugin =>
        plugin.runnable('flaky', ({ signal }) => {
          if (++runs < 4) throw new Error(`failure ${runs}`)
          return aborted(signal)
        }),
      { onFailures: () => void changes++ },
    )
    await settle(clock)
    const failure = (n: number) => ({
      source: 'runnable flaky',
      message: `it fails and is restarted with back-off: failure ${n}`,
    })
    expect(hosted.failures).toEqual([failure(1)])
    while (runs < 4) await clock.advance(1)
    expect(hosted.failures).toEqual([failure(3)])
    await clock.advance(59_999)
    expect([hosted.failures, changes]).toEqual([[failure(3)], 3])
    await clock.advance(1)
    expect([hosted.failures, changes]).toEqual([[], 4])
    await clock.advance(600_000)
    expect(changes).toBe(4)
  })

  test('lose that of a runnable that has returned', async () => {
    const { clock, host } = startProcess()
    let runs = 0
    const hosted = await host(plugin =>
      plugin.runnable('second-time', () => {
        if (++runs === 1) throw 'no luck'
      }),
    )
    await settle(clock)
    expect(hosted.failures).toMatchObject([{ message: expect.stringMatching(/: no luck$/) }])
    await clock.advance(1_000)
    expect([runs, hosted.failures]).toEqual([2, []])
  })

  test('have that of a schedule until its next run succeeds', async () => {
    const { clock, host } = startProcess()
    let runs = 0
    const hosted = await host(plugin =>
      plugin.schedule('tick', '2m', () => {
        if (++runs < 3) throw new Error(`failure ${runs}`)
      }),
    )
    for (const n of [1, 2]) {
      await clock.advance(120_000)
      expect(hosted.failures).toEqual([
        { source: 'schedule tick', message: `its last run has failed: failure ${n}` },
      ])
    }
    await clock.advance(120_000)
    expect([runs, hosted.failures]).toEqual([3, []])
  })

  test('do not have an outage of the server', async () => {
    const server = new MemoryServer()
    const { clock, host } = startProcess({ server })
    const hosted = await host(plugin => {
      plugin.runnable('reader', async ({ client }) => void (await client.get(Gadget, 'a')))
      plugin.schedule('tick', '1s', async ({ client }) => void (await client.get(Gadget, 'a')))
    })
    server.onRequest = () => {
      throw new TransportError('no response')
    }
    await clock.advance(60_000)
    expect(hosted.failures).toEqual([])
  })

  test('end in this process with its leadership', async () => {
    const { clock, host, manager } = startProcess()
    const hosted = await host(plugin => {
      plugin.runnable('flaky', () => Promise.reject(new Error('no luck')))
      plugin.schedule('tick', '1s', () => Promise.reject(new Error('no luck')))
    })
    await clock.advance(1_000)
    expect(hosted.failures).toHaveLength(2)
    const stopped = manager.stop()
    await clock.advance(60_000)
    await stopped
    expect(hosted.failures).toEqual([])
  })
})

describe('a runnable', () => {
  test('runs from the start of the plugin to its stop, with the client of the plugin', async () => {
    const server = new MemoryServer()
    const { clock, host, series } = startProcess({ server })
    const story: string[] = []
    const headers: unknown[] = []
    server.onRequest = request => headers.push(request.headers?.['x-setpoint-plugin'])
    const hosted = await host(plugin =>
      plugin.runnable('warm-up', async ({ client, signal }) => {
        story.push('begins')
        await client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
        await aborted(signal)
        story.push(`ends: ${signal.reason.name}`)
      }),
    )
    await settle(clock)
    expect(story).toEqual(['begins'])
    expect(headers).toEqual(['demo'])
    expect(hosted.runnables.map(({ name }) => name)).toEqual(['demo/warm-up'])
    expect(await series('setpoint_runnable_running{runnable="demo/warm-up"}')).toBe(1)
    await hosted.stop()
    expect(story).toEqual(['begins', 'ends: AbortError'])
    expect(await series('setpoint_runnable_running{runnable="demo/warm-up"}')).toBeUndefined()
  })

  test('that throws is restarted with back-off, logged with the name of the plugin, and counted', async () => {
    const { clock, host, lines, series } = startProcess()
    let runs = 0
    await host(plugin =>
      plugin.runnable('flaky', ({ signal }) => {
        if (++runs < 4) throw new Error(`failure ${runs}`)
        return aborted(signal)
      }),
    )
    await settle(clock)
    expect([runs, await series('setpoint_runnable_running{runnable="demo/flaky"}')]).toEqual([1, 0])
    await clock.advance(60_000)
    expect(runs).toBe(4)
    expect(await series('setpoint_runnable_failures_total{runnable="demo/flaky"}')).toBe(3)
    expect(await series('setpoint_runnable_running{runnable="demo/flaky"}')).toBe(1)
    expect(lines.filter(({ message }) => message === 'runnable failed, restarting')).toEqual(
      [1, 2, 3].map(n =>
        expect.objectContaining({
          ...{ plugin: 'demo', runnable: 'demo/flaky', delayMs: expect.any(Number) },
          err: new Error(`failure ${n}`),
        }),
      ),
    )
  })

  test('has the clock and the randomness of the plugin, like a schedule', async () => {
    const { clock, host } = startProcess()
    const drawn: string[] = []
    const randomSource = (name: string, bytes = 16) => {
      drawn.push(`${name} ${bytes}`)
      return Buffer.alloc(bytes)
    }
    const times: number[] = []
    const run = (context: PluginRunContext) => {
      times.push(context.clock.now())
      expect(context.random('serial', 4)).toHaveLength(4)
    }
    await host(
      plugin => {
        plugin.runnable('once', run)
        plugin.schedule('tick', '1s', run)
      },
      { randomSource },
    )
    await clock.advance(1_000)
    expect(drawn).toEqual(['once/serial 4', 'tick/serial 4'])
    expect(times).toEqual([clock.now() - 1_000, clock.now()])
  })

  test('that ran for a minute is restarted as after its first failure', async () => {
    const { clock, host, lines } = startProcess()
    let fail = () => {}
    await host(plugin =>
      plugin.runnable('long', () => {
        return new Promise((_, reject) => {
          fail = () => reject(new Error('over'))
        })
      }),
    )
    for (let n = 0; n < 10; n++) {
      await clock.advance(60_000)
      fail()
      await clock.advance(1_000)
    }
    const delays = lines.flatMap(({ delayMs }) => (typeof delayMs === 'number' ? [delayMs] : []))
    expect(delays.length).toBe(10)
    expect(Math.max(...delays)).toBeLessThanOrEqual(1_000)
  })

  test('that ignores its signal does not hold the stop of the plugin past the grace', async () => {
    const { clock, host, lines } = startProcess({ drainTimeoutMs: 5_000 })
    const hosted = await host(plugin => plugin.runnable('deaf', () => new Promise<never>(() => {})))
    await settle(clock)
    let isStopped = false
    const stopped = hosted.stop().then(() => {
      isStopped = true
    })
    await clock.advance(4_999)
    expect(isStopped).toBe(false)
    await clock.advance(1)
    await stopped
    expect(lines).toContainEqual(
      expect.objectContaining({ runnable: 'demo/deaf', message: 'runnable has not ended in time' }),
    )
  })

  test('can be set up again under the same name after the plugin has stopped', async () => {
    const { clock, host, series } = startProcess()
    for (let n = 1; n <= 2; n++) {
      let runs = 0
      const hosted = await host(plugin => {
        plugin.runnable('again', ({ signal }) => {
          runs++
          return aborted(signal)
        })
        plugin.metrics.gauge({ name: 'round', help: 'The round.' }).set(n)
      })
      await settle(clock)
      expect([runs, await series('plugin_demo_round')]).toEqual([1, n])
      await hosted.stop()
      expect(await series('plugin_demo_round')).toBeUndefined()
    }
  })

  test('is replaced at a reload, which sets the new code up before it stops the old one', async () => {
    const { clock, host, manager, series } = startProcess()
    const story: string[] = []
    const code = (version: number) => (plugin: PluginContext) => {
      plugin.metrics.gauge({ name: 'version', help: 'The version.' }).set(version)
      plugin.runnable('work', async ({ signal }) => {
        story.push(`${version} begins`)
        await aborted(signal)
        story.push(`${version} ends`)
      })
    }
    const old = await host(code(1))
    await settle(clock)
    const next = await setupPlugin(definePlugin({ name: 'demo', setup: code(2) }), {
      ...{ transport: new MemoryServer(), clock, builtFor: manager },
    })
    await old.stop()
    for (const runnable of next.runnables) manager.add(runnable)
    await settle(clock)
    expect(story).toEqual(['1 begins', '1 ends', '2 begins'])
    expect(await series('plugin_demo_version')).toBe(2)
    expect(await series('setpoint_runnable_running{runnable="demo/work"}')).toBe(1)
  })

  test.each<[string, (plugin: PluginContext) => void, string]>([
    ['a name twice', p => twice(p.runnable.bind(p), 'a', () => {}), 'named "a" already exists'],
    [
      'the name of a schedule',
      p => {
        p.schedule('a', '5m', () => {})
        p.runnable('a', () => {})
      },
      'a runnable or schedule named "a" already exists',
    ],
    ['a bad name', p => p.runnable('A b', () => {}), 'the name "A b" of a runnable must be'],
    ['a double dash', p => p.schedule('a--b', '5m', () => {}), 'the name "a--b" of a schedule must be'],
    ['no function', p => Reflect.apply(p.runnable, p, ['a']), 'runnable a: run must be a function'],
    [
      'an unknown option',
      p => Reflect.apply(p.runnable, p, ['a', () => {}, { leaderelected: true }]),
      'the option "leaderelected" is unknown; valid is leaderElected',
    ],
    [
      'an option of another type',
      p => Reflect.apply(p.runnable, p, ['a', () => {}, { leaderElected: 'no' }]),
      'leaderElected must be true or false',
    ],
    [
      'an invalid expression',
      p => p.schedule('a', 'often', () => {}),
      'plugin demo: schedule a: the expression "often" is not valid',
    ],
  ])('with %s stops the setup of the plugin', async (_, setup, message) => {
    await expect(startProcess().host(setup)).rejects.toThrow(message)
  })

  test('can only be registered during setup, like a schedule and a metric', async () => {
    const { host } = startProcess()
    const late: (() => unknown)[] = []
    await host(plugin => {
      late.push(
        () => plugin.runnable('a', () => {}),
        () => plugin.schedule('b', '5m', () => {}),
        () => plugin.metrics.counter({ name: 'c', help: 'x' }),
      )
    })
    for (const register of late) expect(register).toThrow('can only be registered during setup')
  })
})

function twice(register: (name: string, run: () => void) => void, name: string, run: () => void): void {
  register(name, run)
  register(name, run)
}

describe('of two processes with an election', () => {
  function elect(setup: (plugin: PluginContext, who: string) => void) {
    const server = new MemoryServer()
    const join = (identity: string) => {
      const leaderElection = { lease: 'work', identity, random: () => 0 }
      const eventLoopDelay = { takeMaxMs: () => 0, stop() {} }
      const process = startProcess({ server, leaderElection, eventLoopDelay })
      return { ...process, hosted: process.host(plugin => setup(plugin, identity)) }
    }
    const members = [join('one'), join('two')] as const
    const pass = async (ms: number, stepMs = 250) => {
      for (let passed = 0; passed < ms; passed += stepMs)
        for (const { clock } of members) await clock.advance(stepMs)
    }
    return { server, members, pass }
  }

  test('the leader runs a runnable; both run one that is not leader elected', async () => {
    const story: string[] = []
    const { members, pass } = elect((plugin, who) => {
      const run = (what: string) => async (context: PluginRunContext) => {
        story.push(`${who} ${what}`)
        await aborted(context.signal)
        story.push(`${who} ${what} ended`)
      }
      plugin.runnable('leads', run('leads'))
      plugin.runnable('everywhere', run('everywhere'), { leaderElected: false })
    })
    await pass(1_000)
    expect(story.sort()).toEqual(['one everywhere', 'one leads', 'two everywhere'])
    const stopped = members[0].manager.stop()
    await pass(10_000)
    await stopped
    expect(story.slice(3).sort()).toEqual(['one everywhere ended', 'one leads ended', 'two leads'])
  })

  test('the lease is not released while a runnable of a stopped plugin still runs', async () => {
    const { server, members, pass } = elect(plugin =>
      plugin.runnable('deaf', () => new Promise<never>(() => {})),
    )
    await pass(1_000)
    const stopped = (await members[0].hosted).stop()
    await pass(26_000)
    await stopped
    const ended = members[0].manager.stop()
    await pass(3_000)
    await ended
    const lease = await createClient(server).get(Lease, 'setpoint-system/work')
    expect(lease.spec.holderIdentity).toBe('one')
  })

  test('each due run of a schedule happens on one of them, and continues on the next leader', async () => {
    const story: string[] = []
    const { members, pass } = elect((plugin, who) =>
      plugin.schedule('tick', '1m', () => void story.push(who)),
    )
    await pass(150_000)
    expect(story).toEqual(['one', 'one'])
    const stopped = members[0].manager.stop()
    await pass(60_000)
    await stopped
    expect(story).toEqual(['one', 'one', 'two'])
  })
})
