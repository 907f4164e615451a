import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { defineModel, silentLogger, singleValueIndex } from '@setpoint/controller-runtime'
import { FakeClock } from '@setpoint/controller-runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ServedModel } from '../model/served-model.ts'
import { defaultWriteOptions, Registry, type Standing } from '../registry/index.ts'
import { openEmbeddedStorage } from '../storage/embedded/index.ts'
import {
  OutcomeUnknownError,
  type Storage,
  StoreFullError,
  StoreUnavailableError,
  type Transaction,
} from '../storage/index.ts'
import { claimIndexes } from './index-claim.ts'

let dataDir: string
let storage: Storage

beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'setpoint-index-claim-'))
  storage = await openEmbeddedStorage({ dataDir })
})

afterEach(async () => {
  await storage.close()
  await rm(dataDir, { recursive: true, force: true })
})

/** A version of the plugin with a unique index on each of these fields. */
function version(...fields: readonly string[]): ServedModel {
  return new ServedModel(
    defineModel({
      group: 'claim.example.com',
      version: 'v1',
      kind: 'Thing',
      singular: 'thing',
      plural: 'things',
      schema: { spec: { type: 'object' } },
      indexes: fields.map(name =>
        singleValueIndex({
          name,
          unique: true,
          indexFunc: thing => {
            const value = thing.spec[name]
            return typeof value === 'string' ? value : undefined
          },
        }),
      ),
    }),
  )
}

/** The store through a failing connection; `fault` chooses the failure. */
function troubled(fault: () => 'none' | 'before' | 'after' | 'full'): Storage {
  const reading = <T>(read: () => Promise<T>) =>
    fault() === 'before' ? Promise.reject(new StoreUnavailableError('away')) : read()
  return {
    get: (key, options) => reading(() => storage.get(key, options)),
    list: (prefix, options) => reading(() => storage.list(prefix, options)),
    head: options => reading(() => storage.head(options)),
    watch: (prefix, options) => storage.watch(prefix, options),
    space: options => storage.space(options),
    compact: (revision, options) => storage.compact(revision, options),
    close: () => Promise.resolve(),
    async transact(transaction: Transaction, options) {
      const what = fault()
      if (what === 'before') throw new StoreUnavailableError('away')
      if (what === 'full') throw new StoreFullError('full')
      const result = await storage.transact(transaction, options)
      if (what === 'after') throw new OutcomeUnknownError('no answer')
      return result
    },
  }
}

/** A claim over this store, with a clock that advances to each timer at once. */
async function claim(
  served: ServedModel,
  over: Storage,
  signal = new AbortController().signal,
): Promise<Standing> {
  const { records } = new Registry({ storage: over, reservedDomain: 'setpoint.dev' })
  const clock = new FakeClock()
  let settled = false
  const claiming = claimIndexes({ storage: over, records, served, log: silentLogger, signal, clock }).finally(
    () => {
      settled = true
    },
  )
  const waiting = (async () => {
    while (!settled) await clock.advance(1000)
  })()
  const [standing] = await Promise.all([claiming, waiting])
  return standing
}

async function fill(count: number): Promise<void> {
  const served = version()
  const registry = new Registry({ storage, reservedDomain: 'setpoint.dev' })
  await claim(served, storage)
  for (let i = 0; i < count; i++) {
    const metadata = { name: `thing-${i}` }
    const body = {
      apiVersion: 'claim.example.com/v1',
      kind: 'Thing',
      metadata,
      spec: { a: `${i}`, b: `${i}` },
    }
    await registry.create(served, body, defaultWriteOptions)
  }
}

async function reserved(): Promise<number> {
  return (await storage.list('unique/', { limit: 10_000 })).pairs.length
}

describe('a claim of a model', () => {
  it('completes over a store that is unavailable, full, or loses responses', async () => {
    await fill(120)
    // Every seventh call fails, each time in another way. A different pattern follows.
    let calls = 0
    const ways = ['before', 'after', 'full'] as const
    const fault = () => {
      calls++
      return calls % 7 === 0 ? (ways[(calls / 7) % ways.length] ?? 'none') : 'none'
    }
    // A retry starts from the first object, but settled objects need no call, so it gets further each time.
    expect((await claim(version('a'), troubled(fault))).name).toBe('in force')
    expect(await reserved()).toBe(120)
    expect((await claim(version('b'), troubled(fault))).name).toBe('in force')
    expect(await reserved()).toBe(120)
  })

  it('is made once: superseded while the store is down, it does not reclaim the model', async () => {
    await fill(30)
    let away = false
    let calls = 0
    const overtaken = troubled(() => {
      calls++
      if (calls === 20) away = true
      return away ? 'before' : 'none'
    })
    const standing = claim(version('a'), overtaken)
    await expect.poll(() => away).toBe(true)
    expect((await claim(version('b'), storage)).name).toBe('in force')
    away = false
    expect(await standing).toMatchObject({ name: 'superseded' })
    expect((await claim(version('b'), storage)).name).toBe('in force')
    expect(await reserved()).toBe(30)
  })

  it('ends when the server stops', async () => {
    await fill(1)
    const stop = new AbortController()
    const claiming = claim(
      version('a'),
      troubled(() => 'before'),
      stop.signal,
    )
    stop.abort(new Error('stopping'))
    await expect(claiming).rejects.toThrow('stopping')
  })

  it('skips a stored value that is not an object', async () => {
    await fill(3)
    const key = 'objects/claim.example.com/things/broken'
    await storage.transact({
      compares: [],
      onSuccess: [{ type: 'put', key, value: Buffer.from('no object') }],
    })
    expect((await claim(version('a'), storage)).name).toBe('in force')
    expect(await reserved()).toBe(3)
    expect((await storage.get(key)).pair?.value.toString()).toBe('no object')
  })
})

describe('a namespaced kind', () => {
  const log = silentLogger
  const { signal } = new AbortController()

  function kind(scope: 'Cluster' | 'Namespaced', uniqueWithin?: 'namespace'): ServedModel {
    return new ServedModel(
      defineModel({
        group: 'claim.example.com',
        version: 'v1',
        kind: 'Seat',
        singular: 'seat',
        plural: 'seats',
        scope,
        schema: { spec: { type: 'object', properties: { code: { type: 'string' } } } },
        indexes: [
          singleValueIndex({
            name: 'spec.code',
            unique: true,
            ...(uniqueWithin && { uniqueWithin }),
            indexFunc: ({ spec }) => spec.code,
          }),
        ],
      }),
    )
  }

  /** A server that has claimed the kind. */
  async function server(served: ServedModel) {
    const registry = new Registry({ storage, reservedDomain: 'setpoint.dev' })
    await claimIndexes({ storage, records: registry.records, served, log, signal })
    return (namespace: string, name: string, code: string) => {
      const { apiVersion, kind: kindName } = served.model
      const body = { apiVersion, kind: kindName, metadata: { name }, spec: { code } }
      const options = served.indexes.isNamespaced
        ? { ...defaultWriteOptions, namespace }
        : defaultWriteOptions
      return registry.create(served, body, options)
    }
  }

  it('is not started under another scope while objects are stored', async () => {
    const create = await server(kind('Namespaced'))
    await create('a', 'one', 'x')
    await expect(server(kind('Cluster'))).rejects.toThrow(
      'the scope of Seat has changed to Cluster, but seats.claim.example.com "a/one" is stored under the other one',
    )
  })

  it('has the scope of the server that started last while it is empty, and other servers refuse writes', async () => {
    const first = await server(kind('Cluster'))
    const second = await server(kind('Namespaced'))
    await expect(first('', 'one', 'x')).rejects.toMatchObject({
      code: 503,
      message: expect.stringContaining('serves it with the scope Namespaced, not Cluster'),
    })
    await second('a', 'one', 'x')
    await expect(server(kind('Cluster'))).rejects.toThrow('the scope of a kind cannot change')
    await second('a', 'two', 'y')
  })

  it('computes its reservations again when values become unique within each namespace, and back', async () => {
    const before = await server(kind('Namespaced'))
    await before('a', 'one', 'x')
    await expect(before('b', 'one', 'x')).rejects.toMatchObject({ code: 409 })
    const within = await server(kind('Namespaced', 'namespace'))
    await within('b', 'one', 'x')
    await expect(within('b', 'two', 'x')).rejects.toMatchObject({ code: 409 })
    await expect(before('a', 'two', 'y')).rejects.toMatchObject({ code: 503 })
    const after = await server(kind('Namespaced'))
    // The oldest object holds the value again.
    await expect(after('b', 'three', 'x')).rejects.toMatchObject({
      code: 409,
      message: expect.stringContaining('"a/one"'),
    })
  })
})
