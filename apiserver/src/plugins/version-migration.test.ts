import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { defineModel, silentLogger } from '@setpoint/controller-runtime'
import type { Revision } from '@setpoint/controller-runtime/api'
import { FakeClock } from '@setpoint/controller-runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { bound } from '../../../test/support/rooms.ts'
import { ServedModel } from '../model/index.ts'
import { defaultWriteOptions, Registry } from '../registry/index.ts'
import { openEmbeddedStorage } from '../storage/embedded/index.ts'
import type { Storage } from '../storage/index.ts'
import { claimIndexes } from './index-claim.ts'
import { type MigrationState, VersionMigration, versionMigrationDefaults } from './version-migration.ts'

let dataDir: string
let storage: Storage
let clock: FakeClock
let stopped: AbortController
/** The texts that cannot be converted to v1. */
const bad = new Set<unknown>()

beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'setpoint-version-migration-'))
  storage = await openEmbeddedStorage({ dataDir })
  clock = new FakeClock()
  stopped = new AbortController()
  bad.clear()
})

afterEach(async () => {
  stopped.abort()
  await storage.close()
  await rm(dataDir, { recursive: true, force: true })
})

const group = 'migration.example.com'

/** A release of the plugin that stores its things in this version. */
function release(storedVersion: 'v1' | 'v1beta1'): ServedModel {
  return new ServedModel(
    defineModel({
      group,
      version: 'v1',
      kind: 'Thing',
      singular: 'thing',
      plural: 'things',
      schema: { spec: { type: 'object', properties: { size: { type: 'integer' } } } },
      storedVersion,
      versions: [
        {
          name: 'v1beta1',
          schema: { spec: { type: 'object', properties: { text: { type: 'string' } } } },
          toHub: ({ spec }) => {
            if (bad.has(spec.text)) throw new Error('it is bad')
            return { spec: { size: Number(spec.text) } }
          },
          fromHub: ({ spec }) => ({ spec: { text: String(spec.size) } }),
        },
      ],
    }),
  )
}

/** A server with this release that migrates through `over`. */
async function server(
  over: Storage = storage,
): Promise<{ run: () => Promise<void>; shown: MigrationState[] }> {
  const served = release('v1')
  const { records } = new Registry({ storage, reservedDomain: 'setpoint.dev' })
  const { signal } = stopped
  await claimIndexes({ storage, records, served, pluginVersion: '2.0.0', log: silentLogger, signal })
  const shown: MigrationState[] = []
  const migration = new VersionMigration({
    storage: over,
    records: new Registry({ storage: over, reservedDomain: 'setpoint.dev' }).records,
    served,
    log: silentLogger,
    signal,
    clock,
    changed: state => shown.push(state),
  })
  return { run: () => migration.run(), shown }
}

async function store(sizes: readonly number[]): Promise<void> {
  const served = release('v1beta1')
  const registry = new Registry({ storage, reservedDomain: 'setpoint.dev' })
  const { records } = registry
  const { signal } = stopped
  await claimIndexes({ storage, records, served, pluginVersion: '1.0.0', log: silentLogger, signal })
  for (const size of sizes) {
    const body = {
      apiVersion: `${group}/v1`,
      kind: 'Thing',
      metadata: { name: `thing-${size}` },
      spec: { size },
    }
    await registry.create(served, body, defaultWriteOptions)
  }
}

async function valueAt(key: string): Promise<{ value: unknown; revision: Revision | undefined }> {
  const { pair } = await storage.get(`${key}/${group}/things`)
  return { value: pair && JSON.parse(pair.value.toString()), revision: pair?.modRevision }
}

const note = () => valueAt('migrations')
const record = () => valueAt('models')

/** Lets a second pass again and again, with time for the store, until a migration is in this state. */
async function passUntil(isReached: () => boolean | Promise<boolean>): Promise<void> {
  await expect
    .poll(
      async () => {
        await clock.advance(1000)
        return isReached()
      },
      { interval: 1 },
    )
    .toBe(true)
}

const isFinished = async () => JSON.stringify((await note()).value ?? {}).includes('"finished":true')

describe('a migration', () => {
  it('is not repeated by a server that was looking when another one finished', async () => {
    await store([1, 2, 3])
    const first = await server()
    let reads = 0
    const second = await server({
      ...bound(storage),
      async get(key, options) {
        if (++reads === 2) {
          void first.run()
          await passUntil(isFinished)
        }
        return storage.get(key, options)
      },
    })
    void second.run()
    await passUntil(() => second.shown.at(-1)?.finished === true)
    const seenAt = clock.monotonic()
    await passUntil(() => clock.monotonic() - seenAt > 30_000)
    expect(second.shown.at(-1)).toMatchObject({ total: 3, done: 3 })
    expect((await note()).value).toMatchObject({ total: 3, done: 3, failed: 0, finished: true })
  })

  it('is finished from the moment on when the record has only the new version', async () => {
    await store([1, 2, 3])
    const seen: unknown[] = []
    const { run } = await server({
      ...bound(storage),
      async transact(transaction, options) {
        const result = await storage.transact(transaction, options)
        const { value } = await record()
        if (JSON.stringify(value).includes('"all":["v1"]')) seen.push((await note()).value)
        return result
      },
    })
    void run()
    await passUntil(isFinished)
    expect(seen).toEqual([expect.objectContaining({ total: 3, done: 3, finished: true })])
  })

  it('with failures is tried again after ten minutes by one of the servers that saw them', async () => {
    await store([1, 2, 3])
    bad.add('2')
    const servers = await Promise.all([server(), server()])
    for (const { run } of servers) void run()
    await passUntil(isFinished)
    const { value, revision } = await note()
    expect(value).toMatchObject({ total: 3, done: 2, failed: 1 })
    await passUntil(() => servers.every(({ shown }) => shown.at(-1)?.finished))
    const seenAt = clock.monotonic()
    await passUntil(() => clock.monotonic() - seenAt > versionMigrationDefaults.againMs - 60_000)
    expect((await note()).revision).toBe(revision)
    await passUntil(async () => (await note()).revision !== revision)
    await passUntil(isFinished)
    expect((await note()).value).toMatchObject({ total: 3, done: 2, failed: 1 })
  })

  it('that another server takes over still counts every object once', async () => {
    await store([1, 2, 3])
    let written = 0
    const killed = await server({
      ...bound(storage),
      transact(transaction, options) {
        const isObject = transaction.onSuccess.some(({ key }) => key.startsWith('objects/'))
        // After two objects and before the next note of its progress.
        if (isObject && ++written > 2) return new Promise(() => {})
        return storage.transact(transaction, options)
      },
    })
    void killed.run()
    await expect.poll(() => written).toBe(3)
    expect((await note()).value).toMatchObject({ total: 3, done: 0 })
    const second = await server()
    void second.run()
    await passUntil(isFinished)
    expect((await note()).value).toMatchObject({ total: 3, done: 3, failed: 0 })
  })
})
