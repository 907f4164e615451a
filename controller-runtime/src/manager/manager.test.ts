import { afterEach, describe, expect, test } from 'vitest'
import { eventually } from '../../../test/support/sdk/eventually.ts'
import { MemoryServer } from '../../../test/support/sdk/memory-server.ts'
import { bookmark, Gadget, gadget, PlainGadget } from '../../../test/support/sdk/sample-models.ts'
import { ScriptedWatchServer } from '../../../test/support/sdk/scripted-watch-server.ts'
import type { ObjectOf } from '../api/model.ts'
import { createClient } from '../client/create-client.ts'
import { HttpTransport } from '../client/http-transport.ts'
import { type Transport, TransportError } from '../client/transport.ts'
import type { Runnable } from '../runnable.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { createManager, type Manager, type ManagerOptions } from './manager.ts'

const cleanUps: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0)) await cleanUp()
})

function setUp(options: Partial<ManagerOptions> = {}) {
  const server = new MemoryServer()
  const client = createClient(server)
  const manager = createManager({ client, drainTimeoutMs: 50, ...options })
  cleanUps.push(() => manager.stop())
  const create = (name: string, size = 1) => client.create(Gadget, { metadata: { name }, spec: { size } })
  return { server, client, manager, create }
}

/** Many turns of the event loop: everything that waits for no timer is done. */
const settle = async () => {
  for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate)
}

describe('start', () => {
  test('waits for a server that is away, then runs everything', async () => {
    const server = await ScriptedWatchServer.start([
      watch => {
        watch.send({ type: 'ADDED', object: gadget('a', 5) })
        watch.send(bookmark(7, true))
      },
    ])
    await server.stop()
    const transport = new HttpTransport({ server: server.url })
    const manager = createManager({ transport })
    cleanUps.push(
      () => manager.stop(),
      () => transport.close(),
      () => server.stop(),
    )
    const seen: string[] = []
    manager.controller(Gadget, c => c.reconcile(async ({ metadata: { name } }) => void seen.push(name)))
    manager.start()
    const impatient = AbortSignal.timeout(50)
    await expect(manager.synced(impatient)).rejects.toMatchObject({ name: 'TimeoutError' })
    await server.listen()
    await manager.synced()
    await eventually(() => seen.length === 1)
    expect(seen).toEqual(['a'])
  })

  test('a controller that is added later starts at once', async () => {
    const { manager, create } = setUp()
    manager.start()
    await create('a')
    const seen: string[] = []
    manager.controller(Gadget, c => c.reconcile(async ({ metadata: { name } }) => void seen.push(name)))
    await eventually(() => seen.length === 1)
  })

  test('controllers of one model share one watch', async () => {
    let watches = 0
    const memory = new MemoryServer()
    const transport: Transport = {
      request: request => memory.request(request),
      watch: (path, options) => {
        watches++
        return memory.watch(path, options)
      },
    }
    const { manager } = setUp({ transport, client: createClient(transport) })
    const seen: string[] = []
    for (const name of ['one', 'two']) {
      manager.controller(Gadget, c => c.named(name).reconcile(async () => void seen.push(name)))
    }
    manager.controller(PlainGadget, c => c.reconcile(async () => {}))
    expect(manager.informer(Gadget)).toBe(manager.informer({ ...Gadget }))
    manager.start()
    await manager.synced()
    await createClient(memory).create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
    await eventually(() => seen.length === 2)
    expect(seen.sort()).toEqual(['one', 'two'])
    expect(watches).toBe(2)
  })

  test('rejects two controllers of the same name', () => {
    const { manager } = setUp()
    const build = () => manager.controller(Gadget, c => c.reconcile(() => {}))
    build()
    expect(build).toThrow(/gadgets\.demo\.example\.com/)
  })
})

describe('stop', () => {
  test('takes no new work, lets runs finish, and ends within its timeout', async () => {
    const { manager, create } = setUp({ drainTimeoutMs: 60_000 })
    const begun: string[] = []
    const finished: string[] = []
    let release: () => void = () => {}
    manager.controller(Gadget, c =>
      c.concurrency(1).reconcile(async ({ metadata: { name } }, { signal }) => {
        begun.push(name)
        await new Promise<void>(resolve => {
          release = resolve
        })
        expect(signal.aborted).toBe(false)
        finished.push(name)
      }),
    )
    manager.start()
    await create('a')
    await create('b')
    await eventually(() => begun.length === 1)
    let stopped = false
    const stopping = manager.stop().then(() => {
      stopped = true
    })
    await create('c')
    await settle()
    expect(stopped).toBe(false)
    release()
    await stopping
    expect(begun).toEqual(['a'])
    expect(finished).toEqual(['a'])
  })

  test('aborts runs that take too long, which can then not write', async () => {
    const { manager, create, server } = setUp({ drainTimeoutMs: 30 })
    const outcomes: string[] = []
    let begun = false
    manager.controller(Gadget, c =>
      c.reconcile(async (object: ObjectOf<typeof Gadget>, { client, signal }) => {
        begun = true
        await new Promise(resolve => signal.addEventListener('abort', resolve))
        await client.patchStatus(Gadget, object, { phase: 'TooLate' }).then(
          () => outcomes.push('written'),
          () => outcomes.push('refused'),
        )
      }),
    )
    manager.start()
    await create('a')
    await eventually(() => begun)
    await manager.stop()
    await eventually(() => outcomes.length === 1)
    expect(outcomes).toEqual(['refused'])
    expect(server.peek('gadgets', 'a')?.status).toBeUndefined()
  })

  test('does not wait for a run that never settles and ignores its signal', async () => {
    const clock = new FakeClock()
    const { manager, create } = setUp({ clock, drainTimeoutMs: 10_000 })
    let begun = false
    manager.controller(Gadget, c =>
      c.reconcile(() => {
        begun = true
        return new Promise<never>(() => {})
      }),
    )
    manager.start()
    await create('a')
    await eventually(() => begun)
    let stopped = false
    const stopping = manager.stop().then(() => {
      stopped = true
    })
    while (!stopped) await clock.advance(1_000)
    await stopping
    expect(clock.monotonic()).toBeLessThanOrEqual(15_000)
  })

  test('can be called twice, before start, and with the server away', async () => {
    const { manager } = setUp()
    await Promise.all([manager.stop(), manager.stop()])
    manager.start()
    expect(() => manager.controller(Gadget, c => c.reconcile(() => {}))).toThrow(/stopped/)

    const away: Transport = {
      request: () => Promise.reject(new TransportError('away')),
      watch: () => Promise.reject(new TransportError('away')),
    }
    const other = createManager({ transport: away })
    other.controller(Gadget, c => c.reconcile(() => {}))
    other.start()
    const synced = other.synced()
    await settle()
    await other.stop()
    await expect(synced).rejects.toMatchObject({ name: 'AbortError' })
  })

  test('does not wait for a transport whose watch ignores its signal', async () => {
    const stuck: Transport = {
      request: () => Promise.reject(new TransportError('away')),
      watch: async () => ({
        end: new Promise(() => {}),
        close: () => {},
        [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => {}) }),
      }),
    }
    const manager = createManager({ transport: stuck })
    manager.controller(Gadget, c => c.reconcile(() => {}))
    manager.start()
    await settle()
    await manager.stop()
  })
})

describe('remove', () => {
  test('stops one controller, and the watch with the last', async () => {
    const { manager, create, server } = setUp()
    const seen: string[] = []
    const one = manager.controller(Gadget, c => c.named('one').reconcile(async () => void seen.push('one')))
    const two = manager.controller(Gadget, c => c.named('two').reconcile(async () => void seen.push('two')))
    manager.start()
    await manager.synced()
    await manager.remove(one)
    await create('a')
    await eventually(() => seen.length === 1)
    expect(seen).toEqual(['two'])
    await manager.remove(two)
    expect(server.openWatches).toBe(0)
  })

  test('leaves a controller and a runnable of the same name that were added instead', async () => {
    const { client, manager, create } = setUp()
    const seen: string[] = []
    const reconcile = async () => void seen.push('reconciled')
    const add = (to: Manager) => to.controller(Gadget, c => c.named('gadgets').reconcile(reconcile))
    const ticker = (): Runnable => ({
      name: 'ticker',
      run: ({ signal }) => new Promise(resolve => signal.addEventListener('abort', () => resolve())),
    })
    const added = ticker()
    add(manager)
    manager.add(added)
    manager.start()
    await manager.synced()
    await manager.remove(add(createManager({ client })))
    await manager.remove(ticker())
    expect(() => manager.add(added)).toThrow('a runnable named ticker already exists')
    await create('a')
    await eventually(() => seen.length === 1)
  })
})

test('a manager needs a transport or a client', () => {
  expect(() => createManager({})).toThrow(TypeError)
})
