import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Clock, defineModel, type Model, silentLogger } from '@setpoint/controller-runtime'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { LogFollower } from '../cache/index.ts'
import { encodeStored, loadRules, noReservations, ServedModel } from '../model/index.ts'
import { openEmbeddedStorage } from '../storage/embedded/index.ts'
import type { Storage } from '../storage/index.ts'
import { StoredViolations, violationDefaults } from './stored-violations.ts'

const apiVersion = 'violations.example.com/v1'

/** A kind whose hook calls back for each object, and whose rule takes time in proportion to the list's square. */
function kind(checked: (name: string) => void = () => {}): Model {
  return defineModel({
    group: 'violations.example.com',
    version: 'v1',
    kind: 'Thing',
    singular: 'thing',
    plural: 'things',
    schema: {
      spec: {
        type: 'object',
        properties: {
          list: {
            type: 'array',
            items: { type: 'integer' },
            'x-kubernetes-validations': [{ rule: 'self.all(a, self.all(b, a <= b || b <= a))' }],
          },
        },
      },
    },
    validate: ({ metadata }) => {
      checked(metadata.name)
      return [{ field: 'spec', message: 'is never right' }]
    },
  })
}

/** A clock that advances by a millisecond at each look. Pauses end at once. */
class CountingClock implements Clock {
  readonly pauses: number[] = []
  onPause: () => void = () => {}
  #time = 0

  now(): number {
    return this.#time
  }

  monotonic(): number {
    return this.#time++
  }

  setTimeout(callback: () => void, delayMs: number): () => void {
    this.pauses.push(delayMs)
    this.onPause()
    const timer = setImmediate(callback)
    return () => clearImmediate(timer)
  }
}

let dataDir: string
let storage: Storage
let follower: LogFollower

beforeEach(async () => {
  await loadRules([kind()])
  dataDir = await mkdtemp(join(tmpdir(), 'setpoint-violations-'))
  storage = await openEmbeddedStorage({ dataDir })
  follower = new LogFollower({ storage, log: silentLogger })
  follower.start()
})

afterEach(async () => {
  await follower.stop()
  await storage.close()
  await rm(dataDir, { recursive: true, force: true })
})

/** Stores objects and searches them. Returns the objects checked, the reports and the clock. */
async function search(lists: readonly number[][], clock = new CountingClock(), stop = new AbortController()) {
  const checked: string[] = []
  const served = new ServedModel(kind(name => checked.push(name)))
  for (const [at, list] of lists.entries()) {
    const object = {
      apiVersion,
      kind: 'Thing',
      metadata: { name: `thing-${at}`, uid: `${at}`, generation: 1 },
      spec: { list },
    }
    const value = encodeStored(JSON.stringify(object), noReservations)
    await storage.transact({
      compares: [],
      onSuccess: [{ type: 'put', key: served.keyOf(`thing-${at}`), value }],
    })
  }
  const cache = await follower.add(served, stop.signal)
  const reports: (string | undefined)[] = []
  const changed = (problem?: { readonly message: string }) => reports.push(problem?.message)
  await new StoredViolations({ cache, signal: stop.signal, changed, clock }).run()
  return { checked, reports, clock }
}

it('the search takes the stated share of the time, and reports once at its end', async () => {
  const { checked, reports, clock } = await search(Array.from({ length: 40 }, () => []))
  expect(checked).toHaveLength(40)
  expect(reports).toEqual([expect.stringContaining('40 stored objects violate')])
  const { turnMs, share } = violationDefaults
  expect(clock.pauses.length).toBeGreaterThanOrEqual(40 / turnMs - 1)
  for (const pause of clock.pauses) expect(pause).toBeCloseTo(turnMs / share - turnMs)
})

it('the search ends when the plugin stops, without a report', async () => {
  const clock = new CountingClock()
  const stop = new AbortController()
  clock.onPause = () => stop.abort()
  const { checked, reports } = await search(
    Array.from({ length: 40 }, () => []),
    clock,
    stop,
  )
  expect(checked).toHaveLength(violationDefaults.turnMs)
  expect(reports).toEqual([])
})

it('rules that take too many steps are given up, and the object is counted as not checked', async () => {
  const long = Array.from({ length: 300 }, () => 1)
  const { checked, reports } = await search([[1], long])
  expect(checked).toEqual(['thing-0'])
  expect(reports).toEqual([
    '1 stored object violates the schema or the rules of the kind: "thing-0" (spec: is never right); ' +
      `1 stored object could not be checked: "thing-1" (its rules take more than ${violationDefaults.steps} steps)`,
  ])
})
