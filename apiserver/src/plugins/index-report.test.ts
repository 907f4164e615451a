import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { defineModel, silentLogger, singleValueIndex } from '@setpoint/controller-runtime'
import { FakeClock } from '@setpoint/controller-runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { LogFollower } from '../cache/index.ts'
import { ServedModel } from '../model/served-model.ts'
import { defaultWriteOptions, Registry } from '../registry/index.ts'
import { openEmbeddedStorage } from '../storage/embedded/index.ts'
import type { Storage } from '../storage/index.ts'
import { claimIndexes } from './index-claim.ts'
import { type IndexFindings, IndexReport, reportDefaults } from './index-report.ts'

const apiVersion = 'report.example.com/v1'
const kind = 'Thing'

/** A version of the plugin. Its index has a fault, and is unique on request. */
function version(unique: boolean, sensitive = false): ServedModel {
  return new ServedModel(
    defineModel({
      group: 'report.example.com',
      version: 'v1',
      kind,
      singular: 'thing',
      plural: 'things',
      sensitive,
      schema: { spec: { type: 'object', properties: { code: { type: 'string' } } } },
      indexes: [
        singleValueIndex({
          name: 'code',
          unique,
          indexFunc: thing => {
            if (thing.spec.code?.startsWith('bad')) throw new Error(`cannot read ${thing.spec.code}`)
            return thing.spec.code
          },
        }),
      ],
    }),
  )
}

let dataDir: string
let storage: Storage
let follower: LogFollower
const stop = new AbortController()

beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'setpoint-index-report-'))
  storage = await openEmbeddedStorage({ dataDir })
  follower = new LogFollower({ storage, log: silentLogger })
  follower.start()
})

afterEach(async () => {
  await follower.stop()
  await storage.close()
  await rm(dataDir, { recursive: true, force: true })
})

interface Watched {
  readonly reports: IndexFindings[]
  readonly clock: FakeClock
  /** The messages of the last report. */
  messages(): string[]
}

async function claim(served: ServedModel): Promise<Registry> {
  const registry = new Registry({ storage, reservedDomain: 'setpoint.dev' })
  await claimIndexes({ storage, records: registry.records, served, log: silentLogger, signal: stop.signal })
  return registry
}

/** A started server of this version, and its reports. */
async function start(served: ServedModel): Promise<Watched & { readonly registry: Registry }> {
  const registry = await claim(served)
  const cache = await follower.add(served, stop.signal)
  const reports: IndexFindings[] = []
  const clock = new FakeClock()
  const changed = (findings: IndexFindings) => reports.push(findings)
  const report = new IndexReport({ cache, registry, log: silentLogger, signal: stop.signal, changed, clock })
  await report.report()
  return {
    registry,
    reports,
    clock,
    messages: () => reports.at(-1)?.problems.map(({ message }) => message) ?? [],
  }
}

/** Advances the time until the last report says this. */
async function untilReported(watched: Watched, messages: readonly string[]): Promise<void> {
  await expect
    .poll(
      async () => {
        await watched.clock.advance(reportDefaults.intervalMs)
        return watched.messages()
      },
      { interval: 5 },
    )
    .toEqual(messages)
}

function create(registry: Registry, served: ServedModel, name: string, code: string): Promise<unknown> {
  return registry.create(
    served,
    { apiVersion, kind, metadata: { name }, spec: { code } },
    defaultWriteOptions,
  )
}

/** Writes objects that this version's functions refuse, as a server with other functions does. */
async function createCareless(name: string, code: string): Promise<void> {
  const json = JSON.stringify({
    apiVersion,
    kind,
    metadata: { name, uid: name, generation: 1 },
    spec: { code },
  })
  await storage.transact({
    compares: [],
    onSuccess: [
      { type: 'put', key: `objects/report.example.com/things/${name}`, value: Buffer.from(`{}\n${json}`) },
    ],
  })
}

const clash = '"younger" has the value "x", which "older" holds'

describe('the report of a model', () => {
  it('is empty without problems, and is not repeated', async () => {
    const served = version(true)
    const watched = await start(served)
    await create(watched.registry, served, 'a', 'x')
    expect(watched.reports).toEqual([{ standing: { name: 'in force' }, problems: [] }])
    expect(watched.clock.pendingTimers).toBe(0)
  })

  it('is made once per interval and counts the problems that it does not list', async () => {
    const served = version(false)
    const watched = await start(served)
    for (let i = 0; i < 50; i++) await createCareless(`o${i}`, `bad ${i}`)
    await expect.poll(() => follower.cacheOf(served)?.problems.size).toBe(50)
    expect(watched.reports).toHaveLength(1)
    await watched.clock.advance(reportDefaults.intervalMs)
    await expect.poll(() => watched.reports.length).toBe(2)
    expect(watched.messages()).toHaveLength(reportDefaults.shownProblems + 1)
    expect(watched.messages()[0]).toBe('fails for "o0": cannot read bad 0')
    expect(watched.messages().at(-1)).toBe('30 more of these problems are not listed')
  })

  it('names the holder of a value and drops a resolved clash', async () => {
    const plain = version(false)
    const before = await claim(plain)
    await create(before, plain, 'older', 'x')
    await create(before, plain, 'younger', 'x')
    const served = version(true)
    const watched = await start(served)
    expect(watched.messages()).toEqual([clash])
    await watched.registry.delete(served, 'older', { versions: [] }, defaultWriteOptions)
    const free =
      '"younger" has the value "x", which it takes only when it is written; if the function of the index has changed, raise the version of the index, so that every object takes its value'
    await untilReported(await start(served), [free])
    const patch = { type: 'merge', document: { metadata: { labels: { a: 'b' } } } } as const
    await watched.registry.patch(served, 'younger', patch, 'object', defaultWriteOptions)
    expect((await start(served)).messages()).toEqual([])
  })

  it('has no values of a sensitive kind', async () => {
    const plain = version(false, true)
    const before = await claim(plain)
    await create(before, plain, 'older', 'x')
    await create(before, plain, 'younger', 'x')
    expect((await start(version(true, true))).messages()).toEqual([
      '"younger" has a value, which "older" holds',
    ])
  })

  it('omits clashes of a set that is not in force, and reports them when it is again', async () => {
    const plain = version(false)
    const before = await claim(plain)
    await create(before, plain, 'older', 'x')
    await create(before, plain, 'younger', 'x')
    const watched = await start(version(true))
    expect(watched.messages()).toEqual([clash])
    await claim(plain)
    await expect
      .poll(async () => {
        await watched.clock.advance(reportDefaults.intervalMs)
        return watched.reports.at(-1)?.standing.name
      })
      .toBe('superseded')
    expect(watched.messages()).toEqual([expect.stringContaining('writes get 503')])
    await claim(version(true))
    await untilReported(watched, [clash])
  })
})
