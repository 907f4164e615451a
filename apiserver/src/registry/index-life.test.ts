import { createHash } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { defineModel, isApiError, multiValueIndex, singleValueIndex } from '@setpoint/controller-runtime'
import type { Revision } from '@setpoint/controller-runtime/api'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ServedModel } from '../model/served-model.ts'
import { decodeStored } from '../model/stored-object.ts'
import { openEmbeddedStorage } from '../storage/embedded/index.ts'
import type { KeyValue, Storage } from '../storage/index.ts'
import { Registry } from './registry.ts'
import { RebuildSupersededError, rebuildReservations } from './reservation-rebuild.ts'
import { decodeHolder, uniqueLimits } from './unique-index.ts'
import { defaultWriteOptions as options } from './write-options.ts'

/** Variables that the tests' index functions read. */
interface Spec {
  readonly code?: string
  readonly other?: string
  readonly many?: string[]
}

interface Declared {
  readonly name: string
  readonly version?: number
  readonly read: (spec: Spec) => string | undefined
}

const byCode: Declared = { name: 'code', read: spec => spec.code }
const byOther: Declared = { name: 'other', read: spec => spec.other }
/** The same index with another function. */
const byCodeLowerCase: Declared = { name: 'code', version: 2, read: spec => spec.code?.toLowerCase() }

/** One server with its version of the plugin, over the shared store. */
class Server {
  readonly served: ServedModel
  readonly registry: Registry
  readonly #storage: Storage

  constructor(storage: Storage, indexes: readonly Declared[], many = false) {
    const spec = {
      type: 'object',
      properties: {
        code: { type: 'string' },
        other: { type: 'string' },
        many: { type: 'array', items: { type: 'string' } },
      },
    } as const
    const model = defineModel({
      group: 'life.example.com',
      version: 'v1',
      kind: 'Thing',
      singular: 'thing',
      plural: 'things',
      schema: { spec },
      indexes: [
        ...indexes.map(({ name, version = 1, read }) =>
          singleValueIndex<{ spec: Spec }>({
            name,
            version,
            unique: true,
            indexFunc: thing => read(thing.spec),
          }),
        ),
        ...(many
          ? [
              multiValueIndex<{ spec: Spec }>({
                name: 'many',
                unique: true,
                indexFunc: thing => thing.spec.many ?? [],
              }),
            ]
          : []),
      ],
    })
    this.served = new ServedModel(model)
    this.registry = new Registry({ storage, reservedDomain: 'setpoint.dev' })
    this.#storage = storage
  }

  get standing(): string | undefined {
    return this.registry.records.standingOf(this.served)?.name
  }

  /** Returns the revision of the record if there are objects to recompute. */
  async claim(): Promise<Revision | undefined> {
    return (await this.registry.records.establish(this.served)).recompute
  }

  compute(revision: Revision, signal: AbortSignal = new AbortController().signal): Promise<void> {
    const key = this.registry.records.keyOf(this.served)
    return rebuildReservations({
      storage: this.#storage,
      served: this.served,
      record: { key, revision },
      signal,
    })
  }

  async start(): Promise<void> {
    const revision = await this.claim()
    if (revision === undefined) return
    await this.compute(revision)
    await this.registry.records.complete(this.served, revision)
  }

  body(name: string, spec: Spec, metadata: object = {}): object {
    return { apiVersion: 'life.example.com/v1', kind: 'Thing', metadata: { name, ...metadata }, spec }
  }

  create(name: string, spec: Spec, metadata: object = {}): Promise<unknown> {
    return this.registry.create(this.served, this.body(name, spec, metadata), options)
  }

  replace(name: string, spec: Spec, metadata: object = {}): Promise<unknown> {
    return this.registry.replace(this.served, name, this.body(name, spec, metadata), 'object', options)
  }

  delete(name: string): Promise<unknown> {
    return this.registry.delete(this.served, name, { versions: [] }, options)
  }
}

let dataDir: string
let storage: Storage

beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'setpoint-index-life-'))
  storage = await openEmbeddedStorage({ dataDir })
})

afterEach(async () => {
  await storage.close()
  await rm(dataDir, { recursive: true, force: true })
})

async function start(indexes: readonly Declared[], many = false): Promise<Server> {
  const server = new Server(storage, indexes, many)
  await server.start()
  return server
}

/** The outcome of a write: `ok`, or the code and reason of the refusal. */
async function outcome(write: Promise<unknown>): Promise<string> {
  try {
    await write
    return 'ok'
  } catch (error) {
    if (isApiError(error)) return `${error.code} ${error.reason}`
    throw error
  }
}

async function everything(prefix: string): Promise<readonly KeyValue[]> {
  const { pairs, more } = await storage.list(prefix, { limit: 10_000 })
  expect(more).toBe(false)
  return pairs
}

/** The holders as recorded in the objects. The reservation keys must agree. */
async function holdings(): Promise<Record<string, string>> {
  const recorded: Record<string, string> = {}
  const names = new Map<string, string>()
  for (const { value } of await everything('objects/life.example.com/things/')) {
    const { object, reservations } = decodeStored(value)
    for (const [index, values] of Object.entries(reservations)) {
      for (const held of values) {
        expect(recorded, 'one holder for each value').not.toHaveProperty([`${index}=${held}`])
        recorded[`${index}=${held}`] = object.metadata.name
        names.set(`${index}/${createHash('sha256').update(held).digest('base64url')}`, object.metadata.name)
      }
    }
  }
  const prefix = 'unique/life.example.com/things/'
  const reserved = (await everything(prefix)).map(
    ({ key, value }) => [key.slice(prefix.length), decodeHolder(value).name] as const,
  )
  expect(new Map(reserved)).toEqual(names)
  return recorded
}

describe('the record of a model', () => {
  it('is in force at once if there are no objects', async () => {
    const server = new Server(storage, [byCode])
    expect(await server.claim()).toBeUndefined()
    expect(server.standing).toBe('in force')
    expect(await outcome(server.create('a', { code: 'x' }))).toBe('ok')
  })

  it('lets a server with the same indexes start without a write', async () => {
    const first = await start([byCode])
    await first.create('a', { code: 'x' })
    const before = await everything('')
    await start([byCode])
    expect(await everything('')).toEqual(before)
  })

  it('stops the writes of every server, of either version, until everything is computed', async () => {
    const old = await start([byCode])
    await old.create('a', { code: 'x', other: 'y' }, { finalizers: ['example.com/f'] })
    await old.create('gone', {})
    const newer = new Server(storage, [byCode, byOther])
    const equal = new Server(storage, [byCode, byOther])
    const revision = await newer.claim()
    if (revision === undefined) throw new Error('there must be something to compute')
    expect(await equal.claim()).toBe(revision)
    for (const server of [old, newer, equal]) {
      expect(await outcome(server.create('b', { code: 'z', other: 'y' }))).toBe('503 ServiceUnavailable')
      expect(await outcome(server.replace('a', { code: 'z' }))).toBe('503 ServiceUnavailable')
    }
    // Releasing values never fails.
    expect(await outcome(old.delete('gone'))).toBe('ok')
    expect(await outcome(old.delete('a'))).toBe('ok')
    await newer.compute(revision)
    expect(await outcome(newer.create('b', { other: 'y' })), 'not before it is in force').toBe(
      '503 ServiceUnavailable',
    )
    expect((await newer.registry.records.complete(newer.served, revision)).name).toBe('in force')
    for (const server of [newer, equal]) {
      expect(await outcome(server.create('b', { other: 'y' }))).toBe('409 AlreadyExists')
      expect(await outcome(server.create(`c${server === equal}`, {}))).toBe('ok')
    }
    expect(await outcome(old.create('d', { code: 'z' }))).toBe('503 ServiceUnavailable')
    expect(old.standing).toBe('superseded')
    expect(await outcome(old.replace('a', { code: 'x', other: 'y' }, { finalizers: [] }))).toBe('ok')
    expect(await holdings()).toEqual({})
  })

  it('says that it is being recomputed after a crash, and the next server that starts finishes it', async () => {
    const old = await start([byCode])
    for (let i = 0; i < 300; i++) await old.create(`o${i}`, { code: `c${i}`, other: `v${i}` })
    const crashing = new Server(storage, [byCode, byOther])
    const revision = await crashing.claim()
    if (revision === undefined) throw new Error('there must be something to compute')
    const crash = new AbortController()
    const key = crashing.registry.records.keyOf(crashing.served)
    const computing = rebuildReservations({
      storage,
      served: crashing.served,
      record: { key, revision },
      signal: crash.signal,
      onProgress: () => crash.abort(),
    })
    await expect(computing).rejects.toThrow()
    const half = Object.keys(await holdings()).filter(held => held.startsWith('other=')).length
    expect(half).toBeGreaterThan(0)
    expect(half).toBeLessThan(300)
    expect(await outcome(old.create('late', {}))).toBe('503 ServiceUnavailable')
    const next = await start([byCode, byOther])
    expect(next.standing).toBe('in force')
    const all = await holdings()
    for (let i = 0; i < 300; i++) expect(all[`other=v${i}`]).toBe(`o${i}`)
  })

  it('never goes back to a lower version of an index, even after that index was removed', async () => {
    const second = await start([byCodeLowerCase])
    await second.create('a', { code: 'X' })
    const before = await everything('')
    const first = await start([byCode])
    expect(first.standing).toBe('superseded')
    expect(await outcome(first.create('b', {}))).toBe('503 ServiceUnavailable')
    expect(await everything(''), 'nothing was written').toEqual(before)
    expect(await outcome(second.create('b', { code: 'x' }))).toBe('409 AlreadyExists')
    const third = await start([])
    expect(third.standing).toBe('in force')
    expect(await holdings()).toEqual({})
    expect((await start([byCode])).standing).toBe('superseded')
    expect((await start([byCodeLowerCase])).standing).toBe('in force')
    expect(await holdings()).toEqual({ 'code=x': 'a' })
  })

  it('follows the latest start if indexes were only added or removed, and no running server reverts it', async () => {
    const left = await start([byCode])
    await left.create('a', { code: 'x', other: 'y' })
    const right = await start([byOther])
    expect(await holdings()).toEqual({ 'other=y': 'a' })
    const record = await storage.get('models/life.example.com/things')
    for (let i = 0; i < 3; i++) {
      expect(await outcome(left.create('b', {}))).toBe('503 ServiceUnavailable')
      expect(await outcome(right.replace('a', { code: 'x', other: `y${i}` }))).toBe('ok')
    }
    expect((await storage.get('models/life.example.com/things')).pair).toEqual(record.pair)
    await start([byCode])
    expect(await outcome(right.create('b', {}))).toBe('503 ServiceUnavailable')
    expect(await outcome(left.create('b', {})), 'its own set is back').toBe('ok')
    expect(left.standing).toBe('in force')
  })

  it('stops a computation that another server has superseded', async () => {
    const old = await start([byCode])
    for (let i = 0; i < 20; i++) await old.create(`o${i}`, { code: `c${i}`, other: `v${i}` })
    const overtaken = new Server(storage, [byCode, byOther])
    const revision = await overtaken.claim()
    if (revision === undefined) throw new Error('there must be something to compute')
    await start([byOther])
    await expect(overtaken.compute(revision)).rejects.toThrow(RebuildSupersededError)
    expect((await overtaken.registry.records.complete(overtaken.served, revision)).name).toBe('superseded')
  })

  it('recomputes everything if the record is unreadable', async () => {
    const first = await start([byCode])
    await first.create('a', { code: 'x' })
    const { pair } = await storage.get('models/life.example.com/things')
    if (pair === undefined) throw new Error('no record')
    for (const value of ['nonsense', '[]', '{"unique":{"code":"one"}}']) {
      await storage.transact({
        compares: [],
        onSuccess: [{ type: 'put', key: pair.key, value: Buffer.from(value) }],
      })
      expect(await outcome(first.create('b', {}))).toBe('503 ServiceUnavailable')
      expect((await start([byCode])).standing).toBe('in force')
    }
    expect(await outcome(first.create('b', {}))).toBe('ok')
  })
})

describe('stored objects with the same unique value', () => {
  it('cede it to the oldest, even if a younger one held it under the earlier function', async () => {
    const old = await start([byCode])
    await old.create('older', { code: 'X' })
    await old.create('younger', { code: 'x' })
    await old.create('youngest', { code: 'xX' })
    const before = await everything('objects/')
    await start([byCodeLowerCase])
    expect(await holdings()).toEqual({ 'code=x': 'older', 'code=xx': 'youngest' })
    const after = await everything('objects/')
    const content = (pairs: readonly KeyValue[]) => pairs.map(({ value }) => decodeStored(value).object)
    expect(content(after)).toEqual(content(before))
  })

  it('can keep it without holding it, cannot take another held value, and hold it once it is free', async () => {
    const old = await start([])
    await old.create('a', { code: 'x' })
    await old.create('b', { code: 'x' })
    await old.create('c', { code: 'y' })
    const newer = await start([byCode])
    expect(await outcome(newer.replace('b', { code: 'x', other: 'changed' }))).toBe('ok')
    expect(await outcome(newer.replace('b', { code: 'y' }))).toBe('409 AlreadyExists')
    expect(await holdings()).toEqual({ 'code=x': 'a', 'code=y': 'c' })
    await newer.replace('a', { code: 'z' })
    expect(await outcome(newer.replace('b', { code: 'x', other: 'changed again' }))).toBe('ok')
    expect(await holdings()).toEqual({ 'code=x': 'b', 'code=y': 'c', 'code=z': 'a' })
    expect(await outcome(newer.replace('a', { code: 'x' }))).toBe('409 AlreadyExists')
  })

  it('may hold some of their values, and each value has at most one holder', async () => {
    const old = await start([])
    const values = Array.from({ length: uniqueLimits.valuesPerObject + 15 }, (_, i) => `v${i}`)
    await old.create('a', { many: values.slice(0, 5) })
    await old.create('b', { many: values })
    const newer = await start([], true)
    const held = Object.values(await holdings())
    expect(held.filter(name => name === 'a')).toHaveLength(5)
    expect(held.filter(name => name === 'b')).toHaveLength(uniqueLimits.valuesPerObject - 5)
    expect(await outcome(newer.replace('b', { many: values, other: 'changed' }))).toBe('ok')
    const still = Object.values(await holdings()).filter(name => name === 'b')
    expect(still.length).toBeLessThanOrEqual(uniqueLimits.valuesPerObject)
    expect(await outcome(newer.create('c', { many: values.map(value => `c${value}`) }))).toBe('422 Invalid')
  })

  it('end in the same state for every server, order and number of rebuilds, and do not affect other objects', async () => {
    const value = fc.constantFrom('x', 'X', 'y', 'Y', 'z', undefined)
    const specs = fc.array(fc.record({ code: value, other: value }), { minLength: 1, maxLength: 25 })
    await fc.assert(
      fc.asyncProperty(specs, async given => {
        const emptied = await everything('')
        for (const { key } of emptied)
          await storage.transact({ compares: [], onSuccess: [{ type: 'delete', key }] })
        const old = await start([byCode])
        const accepted: { name: string; code: string | undefined; other: string | undefined }[] = []
        for (const [i, { code, other }] of given.entries()) {
          // Names are not in the order of ages, because pages are read by name.
          const name = `o${(i * 7) % 100}-${i}`
          const spec = { ...(code !== undefined && { code }), ...(other !== undefined && { other }) }
          if ((await outcome(old.create(name, spec))) === 'ok') accepted.push({ name, code, other })
        }
        const servers = [0, 1].map(() => new Server(storage, [byCodeLowerCase, byOther]))
        await Promise.all(servers.map(server => server.start().catch(ignoreOvertaken)))
        const expected: Record<string, string> = {}
        for (const { name, code, other } of accepted) {
          if (code !== undefined) expected[`code=${code.toLowerCase()}`] ??= name
          if (other !== undefined) expected[`other=${other}`] ??= name
        }
        expect(await holdings()).toEqual(expected)
        const before = await everything('objects/')
        await storage.transact({
          compares: [],
          onSuccess: [{ type: 'put', key: 'models/life.example.com/things', value: Buffer.from('?') }],
        })
        await start([byCodeLowerCase, byOther])
        expect(await everything('objects/'), 'nothing differed').toEqual(before)
      }),
      { numRuns: 40 },
    )
  })
})

function ignoreOvertaken(error: unknown): void {
  if (!(error instanceof RebuildSupersededError)) throw error
}

describe('a stored object that a new index function cannot handle', () => {
  const picky: Declared = {
    name: 'code',
    version: 2,
    read: spec => {
      if (spec.code === 'bad') throw new Error('not this one')
      return spec.code
    },
  }

  it('releases its values, can be changed elsewhere, and can be deleted', async () => {
    const old = await start([byCode])
    await old.create('a', { code: 'bad' }, { finalizers: ['example.com/f'] })
    await old.create('b', { code: 'good' })
    const newer = await start([picky])
    expect(await holdings()).toEqual({ 'code=good': 'b' })
    expect(await outcome(newer.create('c', { code: 'bad' }))).toBe('422 Invalid')
    expect(await outcome(newer.replace('b', { code: 'bad' }))).toBe('422 Invalid')
    const kept = { finalizers: ['example.com/f'] }
    expect(await outcome(newer.replace('a', { code: 'bad', other: 'changed' }, kept))).toBe('ok')
    expect(await outcome(newer.delete('a'))).toBe('ok')
    expect(await outcome(newer.replace('a', { code: 'bad', other: 'changed' }))).toBe('ok')
    expect(await newer.registry.readLive(newer.served, 'a')).toBeUndefined()
  })
})
