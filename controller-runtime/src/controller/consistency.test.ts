import { afterEach, describe, expect, test } from 'vitest'
import { ownedBy, settle } from '../../../test/support/sdk/controller-harness.ts'
import { eventually } from '../../../test/support/sdk/eventually.ts'
import { MemoryServer } from '../../../test/support/sdk/memory-server.ts'
import { Gadget, Part } from '../../../test/support/sdk/sample-models.ts'
import type { ObjectOf } from '../api/model.ts'
import { createClient } from '../client/create-client.ts'
import { type Transport, TransportError, type WatchConnection } from '../client/transport.ts'
import { createManager, type Manager } from '../manager/manager.ts'
import type { ControllerBuilder } from './builder.ts'

type GadgetObject = ObjectOf<typeof Gadget>
type Build = (controller: ControllerBuilder<GadgetObject>) => unknown

const finalizer = 'demo.example.com/cleanup'
const managers: Manager[] = []
afterEach(async () => {
  await Promise.all(managers.splice(0).map(manager => manager.stop()))
})

function start(transport: Transport, ...builds: readonly Build[]): Manager {
  const manager = createManager({ transport, drainTimeoutMs: 5 })
  managers.push(manager)
  builds.forEach((build, at) => {
    manager.controller(Gadget, c => build(c.named(`controller-${at}`)))
  })
  manager.start()
  return manager
}

const create = (server: MemoryServer, name: string, finalizers?: string[]) =>
  createClient(server).create(Gadget, {
    metadata: { name, ...(finalizers && { finalizers }) },
    spec: { size: 1 },
  })

describe('two controllers of one object', () => {
  test('that remove their finalizers at the same time both clean up, and neither removes the other’s', async () => {
    const server = new MemoryServer()
    const names = Array.from({ length: 25 }, (_, index) => `g${index}`)
    const cleaned: string[] = []
    const build =
      (own: string): Build =>
      c =>
        c.finalize(own, async gadget => {
          expect(server.peek('gadgets', gadget.metadata.name)?.metadata.finalizers).toContain(own)
          await settle()
          cleaned.push(`${own} ${gadget.metadata.name}`)
        })
    const [one, other] = ['one.example.com/x', 'other.example.com/x']
    for (const name of names) await create(server, name)
    start(server, build(one), build(other))
    const finalizersOf = (name: string) => server.peek('gadgets', name)?.metadata.finalizers ?? []
    await eventually(() => names.every(name => finalizersOf(name).length === 2))
    for (const name of names) await createClient(server).delete(Gadget, name)
    await eventually(() => names.every(name => server.peek('gadgets', name) === undefined))
    expect(new Set(cleaned).size).toBe(2 * names.length)
  })
})

describe('finalize', () => {
  test('is called for an object that was never reconciled', async () => {
    const server = new MemoryServer()
    const calls: string[] = []
    await create(server, 'a', [finalizer])
    await createClient(server).delete(Gadget, 'a')
    start(server, c =>
      c
        .reconcile(async () => void calls.push('reconcile'))
        .finalize(finalizer, async () => void calls.push('finalize')),
    )
    await eventually(() => server.peek('gadgets', 'a') === undefined)
    expect(calls).toEqual(['finalize'])
  })
})

describe('a process that dies between two requests of a reconcile', () => {
  /** Creates two parts and a status, and deletes the parts again; every step reads before it writes. */
  const build: Build = c =>
    c
      .owns(Part)
      .reconcile(async (gadget, { client, lister }) => {
        const parts = await lister(Part)
        const { name } = gadget.metadata
        for (const side of ['left', 'right']) {
          if (parts.get(`${name}-${side}`) !== undefined) continue
          const metadata = { name: `${name}-${side}`, ownerReferences: [ownedBy('Gadget', name)] }
          await client.create(Part, { metadata, spec: { gadget: name } })
        }
        if (gadget.status?.phase !== 'Ready') await client.patchStatus(Gadget, gadget, { phase: 'Ready' })
      })
      .finalize(finalizer, async (gadget, { client, lister }) => {
        for (const part of (await lister(Part)).byIndex('spec.gadget', gadget.metadata.name)) {
          await client.delete(Part, part.metadata.name)
        }
      })

  /** A transport that fails for good after this many requests; the last one may have been executed. */
  function dying(server: MemoryServer, survive: number, carriedOut: boolean): Transport {
    let requests = 0
    return {
      watch: (path, options) => server.watch(path, options),
      request: async request => {
        const number = requests++
        if (number > survive || (number === survive && !carriedOut)) throw new TransportError('dead')
        const answer = await server.request(request)
        if (number === survive) throw new TransportError('dead')
        return answer
      },
    }
  }

  const partsOf = (server: MemoryServer) =>
    ['a-left', 'a-right'].filter(name => server.peek('parts', name) !== undefined)

  test.each([true, false])(
    'is followed by one that completes the work (last request executed: %s)',
    async carriedOut => {
      for (let survive = 0; survive < 6; survive++) {
        const server = new MemoryServer()
        await create(server, 'a')
        const first = start(dying(server, survive, carriedOut), build)
        await settle()
        await first.stop()
        start(server, build)
        await eventually(() => server.peek('gadgets', 'a')?.status !== undefined)
        expect(partsOf(server)).toEqual(['a-left', 'a-right'])
        expect(server.peek('gadgets', 'a')?.metadata.finalizers).toEqual([finalizer])
      }
    },
  )

  test.each([true, false])(
    'leaves nothing behind when the object is deleted (last request executed: %s)',
    async carriedOut => {
      for (let survive = 0; survive < 5; survive++) {
        const server = new MemoryServer()
        await create(server, 'a')
        const before = start(server, build)
        await eventually(() => server.peek('gadgets', 'a')?.status !== undefined)
        await before.stop()
        await createClient(server).delete(Gadget, 'a')
        const second = start(dying(server, survive, carriedOut), build)
        await settle()
        await second.stop()
        start(server, build)
        await eventually(() => server.peek('gadgets', 'a') === undefined)
        expect(partsOf(server)).toEqual([])
      }
    },
  )
})

/** A first watch as from a stale replica until `catchUp` is called; everything else is live. */
class OldReplica implements Transport {
  readonly #server: MemoryServer
  readonly #frames: readonly string[]
  #caughtUp = false
  #end: () => void = () => {}

  private constructor(server: MemoryServer, frames: readonly string[]) {
    this.#server = server
    this.#frames = frames
  }

  /** Stores what the server returns for gadgets now. */
  static async of(server: MemoryServer, count: number): Promise<OldReplica> {
    const abort = new AbortController()
    const frames: string[] = []
    const watch = await server.watch('/apis/demo.example.com/v1/gadgets?watch=true', { signal: abort.signal })
    for await (const frame of watch) {
      frames.push(frame)
      if (frames.length === count + 1) break
    }
    abort.abort()
    return new OldReplica(server, frames)
  }

  /** The stale watch breaks; it resumes from an up-to-date replica. */
  catchUp(): void {
    this.#caughtUp = true
    this.#end()
  }

  request: Transport['request'] = request => this.#server.request(request)

  watch: Transport['watch'] = async (path, options): Promise<WatchConnection> => {
    if (this.#caughtUp) return this.#server.watch(path, options)
    const frames = this.#frames
    const ended = new Promise<void>(resolve => {
      this.#end = resolve
      options.signal.addEventListener('abort', () => resolve(), { once: true })
    })
    return {
      end: ended.then(() => ({ code: 1006, reason: 'cut' })),
      close: () => this.#end(),
      async *[Symbol.asyncIterator]() {
        yield* frames
        await ended
      },
    }
  }
}

describe('a controller that starts from a stale replica', () => {
  test('overwrites nothing newer: its writes conflict, and it converges once it is up to date', async () => {
    const server = new MemoryServer()
    const gadget = await create(server, 'a')
    const replica = await OldReplica.of(server, 1)
    await createClient(server).updateStatus(Gadget, { ...gadget, status: { seen: 1 } })
    const seen: (number | undefined)[] = []
    start(replica, c =>
      c.reconcile(async (object, { client }) => {
        seen.push(object.status?.seen)
        if (object.status?.seen === undefined) {
          await client.updateStatus(Gadget, { ...object, status: { seen: 100 } })
        }
      }),
    )
    await eventually(() => seen.length >= 2)
    expect(new Set(seen)).toEqual(new Set([undefined]))
    expect(server.peek('gadgets', 'a')?.status).toEqual({ seen: 1 })
    replica.catchUp()
    await eventually(() => seen.includes(1))
    await settle()
    expect(server.peek('gadgets', 'a')?.status).toEqual({ seen: 1 })
  })

  test('does not touch a recreated object of the same name', async () => {
    const server = new MemoryServer()
    await create(server, 'a', [finalizer])
    await createClient(server).delete(Gadget, 'a')
    const replica = await OldReplica.of(server, 1)
    await createClient(server).patch(Gadget, 'a', { metadata: { finalizers: null } })
    const anew = await create(server, 'a', [finalizer])
    const cleaned: string[] = []
    start(replica, c => c.finalize(finalizer, async ({ metadata }) => void cleaned.push(metadata.uid)))
    await eventually(() => cleaned.length === 1)
    await settle()
    expect(cleaned[0]).not.toBe(anew.metadata.uid)
    expect(server.peek('gadgets', 'a')?.metadata).toEqual(anew.metadata)
    replica.catchUp()
    await settle()
    expect(server.peek('gadgets', 'a')?.metadata).toEqual(anew.metadata)
  })
})

describe('missed states', () => {
  test('a controller converges to the newest state, whatever lay between', async () => {
    const server = new MemoryServer()
    const client = createClient(server)
    const outside = new Map<string, number>()
    const manager = start(server, c =>
      c
        .reconcile(async gadget => void outside.set(gadget.metadata.uid, gadget.spec.size))
        .finalize(finalizer, async gadget => void outside.delete(gadget.metadata.uid)),
    )
    await manager.synced()
    const kept = await create(server, 'kept')
    const gone = await create(server, 'gone')
    await eventually(() => outside.size === 2)
    server.holdWatches()
    for (const size of [2, 3, 4]) await client.patch(Gadget, 'kept', { spec: { size } })
    await client.delete(Gadget, 'gone')
    await create(server, 'brief')
    await client.delete(Gadget, 'brief')
    server.compact()
    server.cutWatches()
    server.releaseWatches()
    await eventually(() => server.peek('gadgets', 'gone') === undefined)
    await eventually(() => outside.get(kept.metadata.uid) === 4)
    expect([...outside.keys()]).toEqual([kept.metadata.uid])
    expect(outside.has(gone.metadata.uid)).toBe(false)
  })

  test('a dependent deleted while disconnected triggers a reconcile of its owner', async () => {
    const server = new MemoryServer()
    const client = createClient(server)
    const manager = start(server, c =>
      c.owns(Part).reconcile(async (gadget, { client: own, lister }) => {
        const { name } = gadget.metadata
        if ((await lister(Part)).get(name) !== undefined) return
        await own.create(Part, { metadata: { name, ownerReferences: [ownedBy('Gadget', name)] }, spec: {} })
      }),
    )
    await manager.synced()
    await create(server, 'a')
    await eventually(() => server.peek('parts', 'a') !== undefined)
    await settle()
    const { uid } = server.peek('parts', 'a')?.metadata ?? {}
    server.holdWatches()
    await client.delete(Part, 'a')
    server.compact()
    server.cutWatches()
    server.releaseWatches()
    await eventually(() => (server.peek('parts', 'a')?.metadata.uid ?? uid) !== uid)
  })
})
