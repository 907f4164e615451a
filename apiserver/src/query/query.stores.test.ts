import type { ApiObject } from '@setpoint/controller-runtime/api'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { patientMs, startEtcd } from '../../../test/support/etcd.ts'
import {
  Gadget,
  inOrder,
  parametersOf,
  type Query,
  type Step,
  satisfies,
  spell,
  step,
} from '../../../test/support/query-oracle.ts'
import { openRooms, type Rooms } from '../../../test/support/rooms.ts'
import { defaultWriteOptions as options } from '../registry/index.ts'
import { FairScheduler } from '../scheduling/index.ts'
import { openEtcdStorage } from '../storage/etcd/index.ts'
import { parseListQuery, runQuery } from './index.ts'

const scheduler = new FairScheduler()

/** Holds an object that is declared deleted, so that it stays. */
const finalizer = 'demo.example.com/hold'

/** Writes a gadget through the registry, over any existing one. @returns it with the server's timestamps */
async function put(rooms: Rooms, gadget: Gadget): Promise<Gadget> {
  const { registry, served } = rooms
  await remove(rooms, gadget.name)
  const { name, labels, owner, n, tags } = gadget
  const metadata = { name, labels, finalizers: gadget.deleted ? [finalizer] : [] }
  const body = { apiVersion: Gadget.apiVersion, kind: Gadget.kind, metadata, spec: { owner, n, tags } }
  let { bytes } = await registry.create(served, JSON.parse(JSON.stringify(body)), options)
  if (gadget.deleted) bytes = (await registry.delete(served, name, {}, options)).bytes
  const stored: ApiObject = JSON.parse(bytes.toString())
  const { creationTimestamp, deletionTimestamp } = stored.metadata
  return { ...gadget, creationTimestamp, ...(deletionTimestamp && { deletionTimestamp }) }
}

async function remove({ registry, served }: Rooms, name: string): Promise<void> {
  const live = await registry.readLive(served, name)
  if (live === undefined) return
  const { deletionTimestamp } = live.stored.object.metadata
  if (deletionTimestamp === undefined) await registry.delete(served, name, {}, options)
  else
    await registry.patch(
      served,
      name,
      { type: 'merge', document: { metadata: { finalizers: null } } },
      'object',
      options,
    )
}

/** Lists through the server's rooms, right after the writes. */
async function check(
  { cache, gate, served }: Rooms,
  gadgets: readonly Gadget[],
  query: Query,
): Promise<void> {
  const parsed = parseListQuery(parametersOf(query), served.indexes)
  await gate.pass()
  const answer = await runQuery(cache.store.snapshot(), parsed, scheduler, { caller: 'ann' })
  const matching = gadgets.filter(gadget => query.terms.every(term => satisfies(gadget, spell(term).term)))
  const all = inOrder(matching, query.sort).map(({ name }) => name)
  const { page = 1, size } = query
  const expected = size === undefined ? (page === 1 ? all : []) : all.slice((page - 1) * size, page * size)
  expect(answer.kind === 'page' && answer.total).toBe(all.length)
  expect(answer.items.map(({ name }) => name)).toEqual(expected)
}

async function run(rooms: Rooms, state: Map<string, Gadget>, steps: readonly Step[]): Promise<void> {
  for (const { put: written, remove: removed, query } of steps) {
    for (const gadget of written) state.set(gadget.name, await put(rooms, gadget))
    for (const name of removed) {
      await remove(rooms, name)
      state.delete(name)
    }
    await check(rooms, [...state.values()], query)
  }
}

const cases = fc.array(step(12, 6), { minLength: 1, maxLength: 4 })

describe('a list begun after writes were acknowledged', () => {
  test('equals filtering and sorting the objects, on the embedded store', async () => {
    await using rooms = await openRooms(Gadget)
    const state = new Map<string, Gadget>()
    await fc.assert(
      fc.asyncProperty(cases, steps => run(rooms, state, steps)),
      { numRuns: 150, endOnFailure: true },
    )
  })

  test('equals filtering and sorting the objects, on etcd', async () => {
    const etcd = await startEtcd({ unsafeNoFsync: true })
    try {
      await using rooms = await openRooms(
        Gadget,
        await openEtcdStorage({ endpoints: [etcd.endpoint], deadlineMs: patientMs }),
      )
      const state = new Map<string, Gadget>()
      await fc.assert(
        fc.asyncProperty(cases, steps => run(rooms, state, steps)),
        { numRuns: 150, endOnFailure: true },
      )
    } finally {
      await etcd.stop()
    }
  })
})
