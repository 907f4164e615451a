import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { silentLogger } from '@setpoint/controller-runtime'
import { FakeClock } from '@setpoint/controller-runtime/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { bound, hold } from '../../../../test/support/rooms.ts'
import { decodeWire } from '../../model/index.ts'
import {
  defaultWriteOptions,
  type Registry,
  serviceWriteOptions,
  type WriteOptions,
} from '../../registry/index.ts'
import { assembleRooms, type ServerRooms, startBuiltInKinds } from '../../rooms.ts'
import { openEmbeddedStorage } from '../../storage/embedded/index.ts'
import type { Storage } from '../../storage/index.ts'
import { roleBoundsDefaults } from '../rbac/index.ts'
import { QuotaStatus, quotaStatusDefaults } from './quota-status.ts'

/** One of several servers on a store, whose changes reach it when the test lets them. */
class Server {
  readonly rooms: ServerRooms
  readonly #stopping = new AbortController()
  #following = Promise.resolve()

  constructor(storage: Storage) {
    const whenAllowed = () => this.#following
    this.rooms = assembleRooms({
      storage: {
        ...bound(storage),
        async *watch(...args: Parameters<Storage['watch']>) {
          for await (const batch of storage.watch(...args)) {
            await whenAllowed()
            yield batch
          }
        },
      },
      reservedDomain: 'setpoint.dev',
      basePath: '',
      log: silentLogger,
    })
    for (const served of this.rooms.builtIn.all) this.rooms.models.add(served)
  }

  async start(): Promise<void> {
    this.rooms.follower.start()
    await startBuiltInKinds(this.rooms, { log: silentLogger, signal: this.#stopping.signal })
  }

  /** Keeps changes from this server until the result is called. */
  lag(): () => void {
    const { held, release } = hold()
    this.#following = held
    return release
  }

  async create(kind: string, key: string, content: object = {}, options: Partial<WriteOptions> = {}) {
    const served = this.#kind(kind)
    const [namespace, name] = key.split('/')
    const { apiVersion } = served.model
    const body = { apiVersion, kind, metadata: name === undefined ? { name: key } : { name }, ...content }
    const place = name === undefined ? {} : { namespace }
    await this.rooms.registry.create(served, body, { ...defaultWriteOptions, ...place, ...options })
  }

  async patch(kind: string, key: string, document: object): Promise<void> {
    const patch = { type: 'merge', document } as const
    await this.rooms.registry.patch(this.#kind(kind), key, patch, 'object', defaultWriteOptions)
  }

  async delete(kind: string, key: string): Promise<void> {
    await this.rooms.registry.delete(this.#kind(kind), key, {}, defaultWriteOptions)
  }

  /** The object in the cache, after all that was acknowledged. */
  async read(kind: string, key: string) {
    await this.rooms.gate.pass()
    const entry = this.rooms.follower.cacheOf(this.#kind(kind))?.store.get(key)
    return entry && decodeWire(entry.bytes)
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.rooms.follower.stop()
  }

  #kind(kind: string) {
    const served = this.rooms.builtIn.all.find(({ model }) => model.kind === kind)
    if (served === undefined) throw new Error(`${kind} is not served`)
    return served
  }
}

const quotaOf = (hard: object) => ({ spec: { hard } })
const textOf = (length: number) => ({ data: { text: 'x'.repeat(length) } })
const refused = (message: string) =>
  expect.objectContaining({ code: 403, reason: 'Forbidden', message: expect.stringContaining(message) })

describe('a namespace', () => {
  let dataDir: string
  let storage: Storage
  let one: Server
  let two: Server
  let made = 0

  beforeAll(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'setpoint-test-'))
    storage = await openEmbeddedStorage({ dataDir, durable: false })
    one = new Server(storage)
    two = new Server(storage)
    for (const server of [one, two]) await server.start()
  })
  afterAll(async () => {
    await one?.stop()
    await two?.stop()
    await storage?.close()
    await rm(dataDir, { recursive: true, force: true })
  })

  /** Returns a new namespace with a quota, which every server knows. */
  const namespaceWith = async (hard: object | undefined): Promise<string> => {
    const name = `n${++made}`
    await one.create('Namespace', name)
    if (hard !== undefined) await one.create('ResourceQuota', `${name}/team`, quotaOf(hard))
    for (const server of [one, two]) await server.rooms.gate.pass()
    return name
  }

  it('takes no more objects than its quota allows, however many are created at once', async () => {
    const name = await namespaceWith({ 'count/configmaps': '10' })
    const attempts = Array.from({ length: 50 }, (_, n) => one.create('ConfigMap', `${name}/c${n}`))
    const results = await Promise.allSettled(attempts)
    const errors = results.flatMap(result => (result.status === 'rejected' ? [result.reason] : []))
    expect(errors).toHaveLength(40)
    for (const error of errors)
      expect(error).toEqual(
        refused(
          'is forbidden: exceeded quota: team, requested: count/configmaps=1, used: count/configmaps=10, limited: count/configmaps=10',
        ),
      )
    await one.create('Secret', `${name}/other`)
    await one.create('ConfigMap', 'default/elsewhere')
  })

  it('has room again as soon as a deletion is acknowledged, by whichever server', async () => {
    const name = await namespaceWith({ configmaps: '1' })
    for (let round = 0; round < 20; round++) {
      await one.create('ConfigMap', `${name}/c`)
      await two.rooms.gate.pass()
      const catchUp = two.lag()
      await one.delete('ConfigMap', `${name}/c`)
      const creating = two.create('ConfigMap', `${name}/d`)
      setImmediate(catchUp)
      await creating
      await expect(one.create('ConfigMap', `${name}/c`)).rejects.toEqual(refused('used: configmaps=1'))
      await one.delete('ConfigMap', `${name}/d`)
    }
  })

  it('refuses nothing by a quota that has been raised or deleted', async () => {
    const name = await namespaceWith({ 'count/secrets': '0' })
    await expect(two.create('Secret', `${name}/a`)).rejects.toEqual(refused('limited: count/secrets=0'))
    let catchUp = two.lag()
    await one.patch('ResourceQuota', `${name}/team`, quotaOf({ 'count/secrets': '1' }))
    setImmediate(catchUp)
    await two.create('Secret', `${name}/a`)
    catchUp = two.lag()
    await one.delete('ResourceQuota', `${name}/team`)
    setImmediate(catchUp)
    await two.create('Secret', `${name}/b`)
  })

  it('takes no more bytes than its quota allows, but what is there may shrink and be deleted', async () => {
    const name = await namespaceWith({ 'setpoint.dev/bytes': '4Ki' })
    await one.create('ConfigMap', `${name}/a`, textOf(1_500))
    await one.create('Secret', `${name}/b`, { stringData: { text: 'x'.repeat(700) } })
    await expect(one.create('ConfigMap', `${name}/c`, textOf(1_500))).rejects.toEqual(
      refused('limited: setpoint.dev/bytes=4Ki'),
    )
    await expect(one.patch('ConfigMap', `${name}/a`, textOf(3_500))).rejects.toEqual(
      refused('exceeded quota: team, requested: setpoint.dev/bytes=2000,'),
    )
    await one.patch('ResourceQuota', `${name}/team`, quotaOf({ 'setpoint.dev/bytes': '10' }))
    await one.rooms.gate.pass()
    await expect(one.patch('ConfigMap', `${name}/a`, textOf(1_501))).rejects.toEqual(refused('=1,'))
    await one.patch('ConfigMap', `${name}/a`, textOf(1_499))
    await one.patch('ConfigMap', `${name}/a`, textOf(1_499))
    await one.delete('ConfigMap', `${name}/a`)
    expect(await one.read('ConfigMap', `${name}/a`)).toBeUndefined()
  })

  it('lets objects with finalizers be deleted past its quota', async () => {
    const name = await namespaceWith(undefined)
    await one.create('ConfigMap', `${name}/a`, {
      metadata: { name: 'a', finalizers: ['example.com/x', 'example.com/y'] },
    })
    await one.create('ResourceQuota', `${name}/team`, quotaOf({ 'setpoint.dev/bytes': '0', configmaps: '0' }))
    await one.rooms.gate.pass()
    await one.delete('ConfigMap', `${name}/a`)
    await one.patch('ConfigMap', `${name}/a`, { metadata: { finalizers: ['example.com/x'] } })
    await one.patch('ConfigMap', `${name}/a`, { metadata: { finalizers: null } })
    expect(await one.read('ConfigMap', `${name}/a`)).toBeUndefined()
  })

  it('counts dry runs and applies, and no write of the server itself', async () => {
    const name = await namespaceWith({ 'count/configmaps': '1' })
    for (let n = 0; n < 3; n++) await one.create('ConfigMap', `${name}/dry`, {}, { dryRun: true })
    await one.create('ConfigMap', `${name}/a`)
    await expect(one.create('ConfigMap', `${name}/dry`, {}, { dryRun: true })).rejects.toEqual(
      refused('used: count/configmaps=1'),
    )
    const served = one.rooms.builtIn.all.find(({ model }) => model.kind === 'ConfigMap')
    if (served === undefined) throw new Error('no ConfigMap')
    const document = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'applied' } }
    const apply = one.rooms.registry.apply(
      served,
      `${name}/applied`,
      { document, force: false },
      'object',
      defaultWriteOptions,
    )
    await expect(apply).rejects.toEqual(refused('used: count/configmaps=1'))
    await one.create('ConfigMap', `${name}/b`, {}, serviceWriteOptions)
  })

  it('gives room back when a creation fails', async () => {
    const name = await namespaceWith({ 'count/configmaps': '2' })
    await one.create('ConfigMap', `${name}/a`)
    const again = Array.from({ length: 5 }, () => one.create('ConfigMap', `${name}/a`))
    for (const result of await Promise.allSettled(again)) expect(result.status).toBe('rejected')
    await one.create('ConfigMap', `${name}/b`)
  })

  it('has the amounts in the status of its quotas, whoever writes', async () => {
    const hard = { 'count/configmaps': '5', 'setpoint.dev/bytes': '1Mi', pods: '3' }
    const name = await namespaceWith(hard)
    await one.create('ConfigMap', `${name}/a`)
    await two.create('ConfigMap', `${name}/b`)
    const sizes = await Promise.all(['a', 'b'].map(each => one.read('ConfigMap', `${name}/${each}`)))
    const bytes = sizes.reduce((sum, object) => sum + JSON.stringify(object).length, 0)
    const statusOf = async () => (await one.read('ResourceQuota', `${name}/team`))?.status
    const used = { 'count/configmaps': '2', 'setpoint.dev/bytes': String(bytes) }
    await expect.poll(statusOf, { timeout: 10_000 }).toEqual({ hard, used })
    await two.delete('ConfigMap', `${name}/b`)
    await expect.poll(statusOf, { timeout: 10_000 }).toMatchObject({ used: { 'count/configmaps': '1' } })
    // Without a change there is nothing to write.
    let writes = 0
    const clock = new FakeClock()
    const stopping = new AbortController()
    const patch: Registry['patch'] = (...args) => {
      writes++
      return one.rooms.registry.patch(...args)
    }
    const { quotas, follower, builtIn } = one.rooms
    const parts = { kind: builtIn.resourceQuotas, quotas, follower, registry: { patch }, log: silentLogger }
    const running = new QuotaStatus({ ...parts, clock }).run(stopping.signal)
    for (let looks = 0; looks < 3; looks++) await clock.advance(quotaStatusDefaults.intervalMs)
    expect(writes).toBe(0)
    stopping.abort()
    await running
  })

  it('bounds what its roles cost, and leaves those that are there in force', async () => {
    const name = await namespaceWith(undefined)
    const names = (count: number) => Array.from({ length: count }, (_, n) => `n${n}`)
    const role = (count: number) => ({
      rules: [{ verbs: ['get'], apiGroups: [''], resources: ['configmaps'], resourceNames: names(count) }],
    })
    const { combinations } = roleBoundsDefaults
    for (const half of ['a', 'b']) await one.create('Role', `${name}/${half}`, role(combinations / 2))
    await expect(one.create('Role', `${name}/c`, role(1))).rejects.toEqual(
      refused(
        `roles.rbac.authorization.k8s.io "c" is forbidden: exceeded the server's limits of a namespace, requested: combinations=1, used: combinations=${combinations}, limited: combinations=${combinations}`,
      ),
    )
    await one.patch('Role', `${name}/a`, { metadata: { labels: { a: 'b' } } })
    await one.patch('Role', `${name}/a`, role(combinations / 2 - 1))
    await one.create('Role', `${name}/c`, role(1))
    await one.delete('Role', `${name}/b`)
    await two.create('Role', `${name}/d`, role(combinations / 2))
  })

  it('bounds the subjects of its bindings', async () => {
    const name = await namespaceWith(undefined)
    const apiGroup = 'rbac.authorization.k8s.io'
    const binding = (count: number) => ({
      roleRef: { apiGroup, kind: 'ClusterRole', name: 'view' },
      subjects: Array.from({ length: count }, (_, n) => ({ apiGroup, kind: 'User', name: `u${n}` })),
    })
    const many = roleBoundsDefaults.subjects / 2
    await one.create('RoleBinding', `${name}/a0`, binding(many))
    await one.create('RoleBinding', `${name}/a`, binding(many - 1))
    await one.create('RoleBinding', `${name}/b`, binding(0))
    await expect(one.create('RoleBinding', `${name}/c`, binding(0))).rejects.toEqual(
      refused('requested: subjects=1'),
    )
  })
})
