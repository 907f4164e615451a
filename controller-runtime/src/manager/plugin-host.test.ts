import { afterEach, describe, expect, expectTypeOf, test } from 'vitest'
import { eventually } from '../../../test/support/sdk/eventually.ts'
import { MemoryServer } from '../../../test/support/sdk/memory-server.ts'
import { Gadget } from '../../../test/support/sdk/sample-models.ts'
import type { ObjectOf } from '../api/model.ts'
import { createClient } from '../client/create-client.ts'
import type { TransportRequest } from '../client/transport.ts'
import { type Logger, silentLogger } from '../logger.ts'
import { definePlugin, isPlugin, type PluginContext } from '../plugin/plugin.ts'
import { ApiVersion, Get, Post } from '../plugin/routes.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { createManager } from './manager.ts'
import { pluginHostDefaults, setupPlugin } from './plugin-host.ts'

const cleanUps: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0)) await cleanUp()
})

function setUp(setup: (plugin: PluginContext) => void | Promise<void>) {
  const transport = new MemoryServer()
  const manager = createManager({ transport, drainTimeoutMs: 50 })
  cleanUps.push(() => manager.stop())
  const plugin = definePlugin({ name: 'demo', models: [Gadget], setup })
  return { transport, manager, plugin, host: { transport, manager, log: silentLogger } }
}

const create = (server: MemoryServer, name: string) =>
  createClient(server).create(Gadget, { metadata: { name }, spec: { size: 1 } })

class Endpoint {
  greeting = 'hello'
  greet() {
    return { body: this.greeting }
  }
}
Get('/greeting')(Endpoint.prototype, 'greet')

/**
 * What TypeScript generates for a class with `@ApiVersion`, `@Get` and `@Post`; the test runner supports no decorators.
 */
const initializers: ((this: unknown) => void)[] = []
class Decorated {
  constructor() {
    for (const initialize of initializers) initialize.call(this)
  }
  one() {
    return { body: 1 }
  }
  two() {
    return undefined
  }
}
const methodContext = (name: 'one' | 'two'): ClassMethodDecoratorContext => ({
  kind: 'method',
  name,
  static: false,
  private: false,
  access: { has: object => object instanceof Decorated, get: () => Decorated.prototype[name] },
  addInitializer: initialize => void initializers.push(initialize),
  metadata: {},
})
Get('/one')(Decorated.prototype.one, methodContext('one'))
Post('/two')(Decorated.prototype.two, methodContext('two'))
ApiVersion('uc.api.demo.example.com/v1')(Decorated)

describe('setupPlugin', () => {
  test('collects controllers and routes, and runs the controllers as the plugin', async () => {
    const seen: string[] = []
    const { transport, manager, plugin, host } = setUp(context => {
      context.controller(Gadget, c =>
        c.reconcile(async (gadget: ObjectOf<typeof Gadget>, { client }) => {
          seen.push(gadget.metadata.name)
          await client.patchStatus(Gadget, gadget, { phase: 'Ready' })
        }),
      )
      context.routes('console.api.demo.example.com/v1', r =>
        r.get('/gadgets/:name/summary', () => ({ body: 'x' })),
      )
      context.routes(Decorated)
      context.routes(Endpoint)
    })
    const headers: TransportRequest['headers'][] = []
    transport.onRequest = request => {
      if (request.method === 'PATCH') headers.push(request.headers)
    }
    const hosted = await setupPlugin(plugin, host)
    expect(hosted.controllers.map(controller => controller.name)).toEqual(['demo/gadgets.demo.example.com'])
    expect(
      hosted.routes.flatMap(({ groupVersion, routes }) =>
        routes.map(({ method, pattern }) => `${method} ${groupVersion}${pattern}`),
      ),
    ).toEqual([
      'GET console.api.demo.example.com/v1/gadgets/:name/summary',
      'GET uc.api.demo.example.com/v1/one',
      'POST uc.api.demo.example.com/v1/two',
    ])
    expect(hosted.unmarkedClasses).toEqual(['Endpoint'])
    manager.start()
    await create(transport, 'a')
    await eventually(() => headers.length === 1)
    expect(seen).toEqual(['a'])
    expect(headers[0]).toMatchObject({ 'x-setpoint-plugin': 'demo' })
  })

  test('routes carry their summary, and refuse any other option', async () => {
    const { plugin, host } = setUp(context =>
      context.routes('api.demo.example.com/v1', r => {
        r.get('/a', () => undefined, { summary: 'Shows a.' })
        // @ts-expect-error plain JavaScript may pass anything
        expect(() => r.get('/b', () => undefined, { sumary: 'x' })).toThrow('"sumary" is unknown')
        // @ts-expect-error plain JavaScript may pass anything
        expect(() => r.get('/b', () => undefined, { summary: 1 })).toThrow('summary must be a string')
      }),
    )
    const { routes } = await setupPlugin(plugin, host)
    expect(routes[0]?.routes).toMatchObject([{ method: 'GET', pattern: '/a', summary: 'Shows a.' }])
  })

  test('plain JavaScript declares endpoints by calls, and methods keep their `this`', async () => {
    ApiVersion('api.demo.example.com/v1')(Endpoint)
    const { plugin, host } = setUp(context => context.routes(Endpoint))
    const { routes } = await setupPlugin(plugin, host)
    const handler = routes[0]?.routes[0]?.handler
    const request = {
      method: 'GET',
      path: '/',
      params: {},
      query: new URLSearchParams(),
      headers: {},
      body: undefined,
      user: { name: 'x', groups: [] },
      client: createClient(new MemoryServer()),
      log: silentLogger,
      signal: new AbortController().signal,
    }
    expect(await handler?.(request)).toEqual({ body: 'hello' })
  })

  test('a class serves the routes of its base class, too, under its own ApiVersion only', async () => {
    class Base {
      zero() {
        return undefined
      }
      one() {
        return { body: 'base' }
      }
    }
    Get('/zero')(Base.prototype, 'zero')
    Get('/one')(Base.prototype, 'one')
    ApiVersion('api.demo.example.com/v1')(Base)
    class Extended extends Base {
      override one() {
        return { body: 'extended' }
      }
      two() {
        return undefined
      }
    }
    Get('/one')(Extended.prototype, 'one')
    Get('/two')(Extended.prototype, 'two')
    const unmarked = setUp(context => context.routes(Extended))
    expect(await setupPlugin(unmarked.plugin, unmarked.host)).toMatchObject({
      routes: [],
      unmarkedClasses: ['Extended'],
    })
    ApiVersion('console.api.demo.example.com/v1')(Extended)
    const { plugin, host } = setUp(context => context.routes(Extended))
    const [group] = (await setupPlugin(plugin, host)).routes
    expect(group?.groupVersion).toBe('console.api.demo.example.com/v1')
    expect(group?.routes.map(({ pattern }) => pattern)).toEqual(['/zero', '/one', '/two'])
  })

  test('a handler has typed parameters from its pattern', async () => {
    const { plugin, host } = setUp(context =>
      context.routes('api.demo.example.com/v1', routes =>
        routes.get('/shelves/:shelf/gadgets/:name', ({ params }) => {
          expectTypeOf(params).toExtend<{ shelf: string; name: string }>()
          expectTypeOf(params).not.toExtend<{ id: string }>()
          return { body: params.name }
        }),
      ),
    )
    const { routes } = await setupPlugin(plugin, host)
    expect(routes[0]?.routes).toMatchObject([{ method: 'GET', pattern: '/shelves/:shelf/gadgets/:name' }])
  })

  test('a failed setup starts nothing and aborts the signal', async () => {
    let signal: AbortSignal | undefined
    let runs = 0
    const { transport, manager, plugin, host } = setUp(async context => {
      signal = context.signal
      context.controller(Gadget, c => c.reconcile(() => void runs++))
      throw new Error('no database')
    })
    manager.start()
    await expect(setupPlugin(plugin, host)).rejects.toThrow('no database')
    expect(signal?.aborted).toBe(true)
    await create(transport, 'a')
    for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate)
    expect(runs).toBe(0)
  })

  test('a setup that never ends times out', async () => {
    const { plugin, host } = setUp(() => new Promise(() => {}))
    const clock = new FakeClock()
    const refused = expect(setupPlugin(plugin, { ...host, clock })).rejects.toThrow(/within 30000 ms/)
    await clock.advance(pluginHostDefaults.setupTimeoutMs)
    await refused
  })

  test('registering after setup throws', async () => {
    let context: PluginContext | undefined
    const { plugin, host } = setUp(given => {
      context = given
    })
    await setupPlugin(plugin, host)
    expect(() => context?.controller(Gadget, c => c.reconcile(() => {}))).toThrow(/during setup/)
    expect(() => context?.routes('g.example.com/v1', () => {})).toThrow(/during setup/)
  })

  test('an invalid registration throws and names the mistake', async () => {
    const cases: [(context: PluginContext) => void, RegExp][] = [
      [c => c.controller(Gadget, () => {}), /neither reconcile nor finalize/],
      [c => c.controller(Gadget, b => b.finalize('no-domain', () => {})), /<domain>\/<name>/],
      [c => c.controller(Gadget, b => b.concurrency(0).reconcile(() => {})), /integer from 1/],
      [c => c.controller(Gadget, b => b.timeoutMs(-1).reconcile(() => {})), /above 0/],
      [c => c.controller(Gadget, async b => void b.reconcile(() => {})), /not async/],
      [c => c.routes('g.example.com/v1', async r => void r.get('/x', () => undefined)), /not async/],
      [c => c.routes('nonsense', r => r.get('/x', () => undefined)), /<group>\/<version>/],
      [c => c.routes('g.example.com/v1', r => r.get('x', () => undefined)), /starts with/],
    ]
    for (const [setup, message] of cases) {
      const { plugin, host } = setUp(setup)
      await expect(setupPlugin(plugin, host)).rejects.toThrow(message)
    }
  })

  test('stop aborts the signal, drains the controllers, and does not affect other plugins', async () => {
    const seen: string[] = []
    const build = (name: string) =>
      definePlugin({
        name,
        setup: context => context.controller(Gadget, c => c.reconcile(async () => void seen.push(name))),
      })
    const { transport, manager, host } = setUp(() => {})
    const one = await setupPlugin(build('one'), host)
    await setupPlugin(build('two'), host)
    manager.start()
    await manager.synced()
    await one.stop()
    expect(one.signal.aborted).toBe(true)
    await create(transport, 'a')
    await eventually(() => seen.length === 1)
    expect(seen).toEqual(['two'])
  })
})

test('definePlugin rejects invalid declarations, and isPlugin recognizes its result', () => {
  expect(() => definePlugin({ name: 'No Spaces' })).toThrow(TypeError)
  const plugin = definePlugin({ name: 'demo' })
  expect(isPlugin(plugin)).toBe(true)
  expect(isPlugin({ name: 'demo', models: [] })).toBe(false)
  const lines: string[] = []
  const log: Logger = { ...silentLogger, warn: (_fields, message) => lines.push(message), child: () => log }
  class Unmarked {}
  const unmarked = definePlugin({ name: 'demo', setup: context => context.routes(Unmarked) })
  return setupPlugin(unmarked, { transport: new MemoryServer(), log }).then(({ unmarkedClasses }) => {
    expect(unmarkedClasses).toEqual(['Unmarked'])
    expect(lines).toEqual(['class without ApiVersion is not exposed'])
  })
})

test('a plugin and its reconcilers take time and randomness from their context', async () => {
  const clock = new FakeClock()
  const drawn: string[] = []
  const times: number[] = []
  const { manager, plugin, host, transport } = setUp(context => {
    drawn.push(context.random('key', 3).toString())
    times.push(context.clock.now())
    context.controller(Gadget, builder =>
      builder.reconcile((_gadget, { clock, random }) => {
        drawn.push(random('serial').toString())
        times.push(clock.now())
      }),
    )
  })
  const randomSource = (name: string, bytes = 16) => Buffer.from(`${name}:${bytes}`)
  await setupPlugin(plugin, { ...host, clock, randomSource })
  manager.start()
  await create(transport, 'a')
  await eventually(() => drawn.length === 2)
  expect(drawn).toEqual(['key:3', 'a/serial:16'])
  expect(times).toEqual([clock.now(), clock.now()])
})

test('the randomness of production has the requested length and does not repeat', async () => {
  const values: Buffer[] = []
  const { plugin, host } = setUp(({ random }) => {
    values.push(random('serial'), random('serial'), random('key', 32))
  })
  await setupPlugin(plugin, host)
  expect(values.map(value => value.length)).toEqual([16, 16, 32])
  expect(values[0]).not.toEqual(values[1])
})
