import { rm } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, test } from 'vitest'
import { firstReceptions, Receiver, testKey } from '../plugins/webhooks/src/testing/receiver.ts'
import { Api, Collection, objectOf } from './support/api.ts'
import { type EtcdProcess, startEtcd } from './support/etcd.ts'
import { arrayOf, fieldsOf, textOf } from './support/json.ts'
import { itemsOf, leasesOf } from './support/kinds.ts'
import { type Running, type ServerProcess, spawnProgram, startServer } from './support/server.ts'
import { copyFixture, eventually, stores } from './support/worlds.ts'

/** The built plugin in the built program, with processes that are killed. */
const patience = 600_000
const webhooks = fileURLToPath(new URL('../plugins/webhooks', import.meta.url))
const env = {
  SETPOINT_PLUGIN_WEBHOOKS_SIGNING_KEYS: JSON.stringify({ main: testKey }),
  SETPOINT_PLUGIN_WEBHOOKS_ALLOWED_NETWORKS: '127.0.0.1/32',
}

const cleanups: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean()
})

function cleaned<T extends { stop(): Promise<unknown> }>(started: T): T {
  cleanups.push(() => started.stop())
  return started
}

async function itemsPlugin(): Promise<string> {
  const plugin = await copyFixture('items-plugin')
  cleanups.push(() => rm(plugin, { recursive: true, force: true }))
  return plugin
}

function subscriptionsOf(api: Api): Collection {
  return new Collection(api, 'webhooks.example.com/v1alpha1', 'Subscription', 'subscriptions')
}

/** Creates a subscription of items and waits until it watches. */
async function subscribe(api: Api, receiver: Receiver, spec: object = {}): Promise<void> {
  const kinds = [{ apiVersion: 'items.example.com/v1', kind: 'Item' }]
  const backoff = { minSeconds: 0.1, maxSeconds: 1 }
  await subscriptionsOf(api).create('s', { kinds, url: receiver.url, signingKey: 'main', backoff, ...spec })
  await eventually(async () => expect(await conditionsOf(api)).toContain('Ready True'), 240_000)
}

async function conditionsOf(api: Api): Promise<string[]> {
  const { status } = await subscriptionsOf(api).read('s')
  return arrayOf(status.conditions ?? []).map(each => {
    const { type, status } = fieldsOf(each)
    return `${type} ${status}`
  })
}

/** Changes objects one after another and records the versions of the writes that were acknowledged. */
class Writers {
  readonly acknowledged = new Map<string, bigint[]>()
  readonly done: Promise<unknown>
  #written = 0

  constructor(api: () => Api, objects: number, changes: number) {
    const names = Array.from({ length: objects }, (_, n) => `o${n}`)
    this.done = Promise.all(names.map(name => this.#write(api, name, changes)))
  }

  get written(): number {
    return this.#written
  }

  async #write(api: () => Api, name: string, changes: number): Promise<void> {
    for (let step = 0; step < changes; step++) {
      // While a server is away, or if it was killed before it could respond, the write is repeated.
      await eventually(async () => {
        const items = itemsOf(api())
        const body = items.body(name, { op: `${step}` })
        const sent = step === 0 ? await api().post(items.path, body) : await api().put(items.at(name), body)
        const status = sent.status === 409 ? 409 : sent.status === 201 ? 201 : 200
        const version =
          status === 409 ? (await items.read(name)).metadata.version : objectOf(sent, status).metadata.version
        this.#acknowledge(name, BigInt(version))
      }, 240_000)
    }
  }

  #acknowledge(name: string, version: bigint): void {
    const versions = this.acknowledged.get(name) ?? []
    this.acknowledged.set(name, versions)
    if (version !== versions.at(-1)) versions.push(version)
    this.#written++
  }
}

/**
 * Waits until every acknowledged change was received, and checks that the first receptions of each object's changes
 * came in order. A change that is received for the first time after a later one of its object is missing from them.
 */
async function everythingArrives(receiver: Receiver, { acknowledged }: Writers): Promise<void> {
  await eventually(() => {
    const received = firstReceptions(receiver.received)
    const missing = [...acknowledged].flatMap(([name, versions]) => {
      const arrived = new Set(received.get(name))
      return versions.filter(version => !arrived.has(version)).map(version => `${name} ${version}`)
    })
    expect(missing).toEqual([])
  }, 240_000)
  expect(receiver.refused).toEqual([])
}

describe.each(stores)('on the %s store', store => {
  async function start(args: readonly string[] = []): Promise<{ server: ServerProcess; receiver: Receiver }> {
    const etcd = store === 'etcd' ? cleaned(await startEtcd({ unsafeNoFsync: true })) : undefined
    const plugins = [webhooks, await itemsPlugin()]
    const server = cleaned(await startServer({ store, plugins, env, args, ...(etcd && { etcd }) }))
    return { server, receiver: cleaned(await Receiver.start()) }
  }

  test('a server that is killed in the middle of 600 changes loses none, and keeps the order of each object', {
    timeout: patience,
  }, async () => {
    const { server, receiver } = await start()
    await subscribe(new Api(server.url), receiver)
    const writers = new Writers(() => new Api(server.url), 40, 15)
    for (const count of [100, 300]) {
      await expect.poll(() => receiver.received.length, { timeout: 240_000 }).toBeGreaterThan(count)
      await server.restart()
    }
    await writers.done
    await everythingArrives(receiver, writers)
    expect(receiver.received.length).toBeGreaterThanOrEqual(600)
  })

  test('changes made while the receiver is down arrive when it is back', { timeout: patience }, async () => {
    const { server, receiver } = await start()
    const api = new Api(server.url)
    await subscribe(api, receiver)
    await receiver.stop()
    const writers = new Writers(() => api, 20, 5)
    await writers.done
    await eventually(async () => expect(await conditionsOf(api)).toContain('Delivering False'))
    await server.restart()
    await receiver.listen()
    await everythingArrives(receiver, writers)
    await eventually(async () => expect(await conditionsOf(new Api(server.url))).toContain('Delivering True'))
  })
})

describe('with two processes of controllers on etcd', () => {
  let etcd: EtcdProcess
  let server: ServerProcess
  let receiver: Receiver

  async function start(): Promise<void> {
    etcd = cleaned(await startEtcd({ unsafeNoFsync: true }))
    const plugins = [webhooks, await itemsPlugin()]
    server = cleaned(await startServer({ store: 'etcd', etcd, plugins, env, args: ['--role', 'apiserver'] }))
    receiver = cleaned(await Receiver.start())
  }

  async function controllers(): Promise<Running> {
    const args = ['serve', '--role', 'controllers', '--server', server.url, '--plugin', webhooks]
    const running = spawnProgram(args, { env })
    cleanups.push(() => running.kill('SIGKILL'))
    await running.says(/^setpoint controllers running against /)
    return running
  }

  /** Waits until another process than `before` holds the lease, and returns the holder. */
  const leader = (before = '') =>
    eventually(async () => {
      const { spec } = await leasesOf(new Api(server.url)).read('setpoint-controllers')
      const holder = textOf(spec.holderIdentity)
      expect([before, '']).not.toContain(holder)
      return holder
    }, 240_000)

  test('the other goes on when the leader is killed', { timeout: patience }, async () => {
    await start()
    const first = await controllers()
    const held = await leader()
    await controllers()
    await subscribe(new Api(server.url), receiver)
    const writers = new Writers(() => new Api(server.url), 40, 15)
    await expect.poll(() => receiver.received.length, { timeout: 240_000 }).toBeGreaterThan(150)
    await first.kill('SIGKILL')
    await leader(held)
    await writers.done
    await everythingArrives(receiver, writers)
  })

  test('a leader that was suspended repeats changes at most, and never changes their order', {
    timeout: patience,
  }, async () => {
    await start()
    const first = await controllers()
    const held = await leader()
    await controllers()
    await subscribe(new Api(server.url), receiver)
    const writers = new Writers(() => new Api(server.url), 40, 15)
    await expect.poll(() => receiver.received.length, { timeout: 240_000 }).toBeGreaterThan(150)
    first.child.kill('SIGSTOP')
    await leader(held)
    const before = receiver.received.length
    await expect.poll(() => receiver.received.length, { timeout: 240_000 }).toBeGreaterThan(before)
    first.child.kill('SIGCONT')
    await writers.done
    await everythingArrives(receiver, writers)
  })

  test('after the history was lost, the current state is delivered and marked', {
    timeout: patience,
  }, async () => {
    await start()
    const first = await controllers()
    const api = new Api(server.url)
    await subscribe(api, receiver)
    await itemsOf(api).create('kept', { op: '0' })
    await itemsOf(api).create('removed', { op: '0' })
    await expect.poll(() => receiver.received.length).toBe(2)
    // Until the progress is stored.
    await eventually(async () => expect((await subscriptionsOf(api).read('s')).status.delivered).toBe(2))
    await first.kill('SIGKILL')
    await itemsOf(api).create('new', { op: '0' })
    await api.delete(itemsOf(api).at('removed'))
    const { version } = await itemsOf(api).list()
    // The server keeps recent changes in memory, too.
    await server.kill()
    const body = JSON.stringify({ revision: version })
    const compacted = await fetch(`${etcd.endpoint}/v3/kv/compaction`, { method: 'POST', body })
    expect(compacted.status).toBe(200)
    await server.restart()
    await controllers()
    await expect
      .poll(() => receiver.received.slice(2).map(({ event, name }) => `${event} ${name}`), {
        timeout: 240_000,
      })
      .toEqual(['resync kept', 'resync new', 'resynced '])
  })
})
