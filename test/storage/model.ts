import { type Revision, toRevision, zeroRevision } from '@setpoint/controller-runtime/api'
import fc from 'fast-check'
import { describe, expect } from 'vitest'
import {
  type Change,
  CompactedError,
  type KeyValue,
  type Storage,
} from '../../apiserver/src/storage/index.ts'
import { runsOf } from '../support/runs.ts'
import { collect } from './follower.ts'
import { guaranteesOf, type StorageHarness } from './harness.ts'
import { byBytes, created, del, deleted, listAll, pair, put } from './operations.ts'

export function modelConformance(harness: StorageHarness): void {
  const guarantee = guaranteesOf(harness)

  describe('against a model', () => {
    guarantee(
      'any sequence of operations leaves the store in the state of the model',
      async ({ storage }) => {
        let run = 0
        await fc.assert(
          fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 30 }), async steps => {
            const model = new Model(`run${run++}/`, (await storage.head()).current)
            for (const one of steps) await model.play(storage, one)
            await model.checkWatches(storage)
          }),
          { numRuns: runsOf(60) },
        )
      },
    )
  })
}

const keyNames = ['a', 'a/', 'a/b', 'a/bc', 'a0', 'b'] as const
const prefixes = ['', 'a', 'a/', 'a/b', 'b', 'c'] as const

type Step =
  | {
      readonly type: 'transact'
      readonly operations: readonly { readonly key: string; readonly value: string | undefined }[]
      readonly compares: readonly { readonly key: string; readonly with: 'present' | 'absent' | 'stale' }[]
    }
  | { readonly type: 'compact'; readonly back: number }
  | { readonly type: 'list'; readonly back: number; readonly prefix: string; readonly limit: number }
  | { readonly type: 'get'; readonly key: string }

const aKey = fc.constantFrom(...keyNames)
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      type: fc.constant('transact' as const),
      operations: fc.uniqueArray(
        fc.record({ key: aKey, value: fc.option(fc.string({ maxLength: 3 }), { nil: undefined }) }),
        { maxLength: 4, selector: operation => operation.key },
      ),
      compares: fc.array(
        fc.record({ key: aKey, with: fc.constantFrom('present', 'present', 'present', 'absent', 'stale') }),
        { maxLength: 2 },
      ),
    }),
  },
  { weight: 1, arbitrary: fc.record({ type: fc.constant('compact' as const), back: fc.nat(8) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      type: fc.constant('list' as const),
      back: fc.nat(10),
      prefix: fc.constantFrom(...prefixes),
      limit: fc.integer({ min: 1, max: 4 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ type: fc.constant('get' as const), key: aKey }) },
)

type State = ReadonlyMap<string, KeyValue>

/** All states of one run, to compare with the store after each step. */
class Model {
  /** The state after each revision of this run, oldest first. The first one is empty. */
  readonly #states: { revision: Revision; state: State }[]
  readonly #changes: Change[] = []
  readonly #root: string
  #compacted: Revision

  constructor(root: string, start: Revision) {
    this.#root = root
    this.#states = [{ revision: start, state: new Map() }]
    this.#compacted = zeroRevision
  }

  async play(storage: Storage, step: Step): Promise<void> {
    switch (step.type) {
      case 'transact':
        return await this.#transact(storage, step)
      case 'get': {
        const key = this.#root + step.key
        expect((await storage.get(key)).pair).toEqual(this.#now().state.get(key))
        return
      }
      case 'compact': {
        const { revision } = this.#back(step.back)
        await storage.compact(revision)
        if (revision > this.#compacted) this.#compacted = revision
        return
      }
      case 'list': {
        const { revision, state } = this.#back(step.back)
        const prefix = this.#root + step.prefix
        const listing = listAll(storage, prefix, { revision, limit: step.limit })
        if (revision < this.#compacted) return await expect(listing).rejects.toBeInstanceOf(CompactedError)
        const expected = [...state.values()].filter(one => one.key.startsWith(prefix))
        expect(await listing).toEqual(expected.sort((a, b) => byBytes(a.key, b.key)))
        if (revision === this.#now().revision)
          expect(await listAll(storage, prefix, { limit: step.limit })).toEqual(expected)
      }
    }
  }

  async #transact(storage: Storage, step: Extract<Step, { type: 'transact' }>): Promise<void> {
    const { revision: last, state } = this.#now()
    const compares = step.compares.map(one => {
      const key = this.#root + one.key
      const present = state.get(key)?.modRevision ?? zeroRevision
      if (one.with === 'absent') return { key, modRevision: zeroRevision }
      // No key of this run can have a revision from before the run.
      if (one.with === 'stale') return { key, modRevision: toRevision(this.#first().revision || 1_000_000) }
      return { key, modRevision: present }
    })
    const onFailure = step.operations.map(operation => this.#root + operation.key)
    const result = await storage.transact({
      compares,
      onSuccess: step.operations.map(({ key, value }) =>
        value === undefined ? del(this.#root + key) : put(this.#root + key, value),
      ),
      onFailure,
    })
    const holds = compares.every(one => (state.get(one.key)?.modRevision ?? zeroRevision) === one.modRevision)
    expect(result.succeeded).toBe(holds)
    if (!result.succeeded) {
      expect(result.pairs).toEqual(onFailure.map(key => state.get(key)))
      return
    }
    const { revision } = result
    const next = new Map(state)
    const changes: Change[] = []
    for (const { key: name, value } of step.operations) {
      const key = this.#root + name
      const old = state.get(key)
      if (value === undefined) {
        if (old === undefined) continue
        next.delete(key)
        changes.push(deleted(key, revision, old.value.toString()))
      } else {
        const createRevision = old?.createRevision ?? revision
        next.set(key, pair(key, value, revision, createRevision))
        changes.push({ ...created(key, value, revision), createRevision, previous: old?.value })
      }
    }
    if (changes.length === 0) return
    expect(revision).toBeGreaterThan(last)
    this.#changes.push(...changes.sort((a, b) => byBytes(a.key, b.key)))
    this.#states.push({ revision, state: next })
  }

  /** Checks that a watch from each recent revision delivers exactly the changes after it, or throws CompactedError. */
  async checkWatches(storage: Storage): Promise<void> {
    const marks = prefixes.map(prefix => ({ key: `${prefix}~`, value: '' }))
    await this.#transact(storage, { type: 'transact', operations: marks, compares: [] })
    const last = this.#now().revision
    await Promise.all(
      this.#states.slice(-12, -1).map(async ({ revision: after }, i) => {
        const prefix = `${this.#root}${prefixes[i % prefixes.length]}`
        const watching = collect(storage, prefix, after, last)
        const expected = this.#changes.filter(one => one.revision > after && one.key.startsWith(prefix))
        if (after >= this.#compacted) return expect(await watching).toEqual(expected)
        // The store may still have the compacted revision itself, but then all of its changes.
        if (after === this.#compacted - 1)
          return expect(await watching.catch(compactedOr(expected))).toEqual(expected)
        await expect(watching).rejects.toBeInstanceOf(CompactedError)
      }),
    )
  }

  #first() {
    return this.#back(Number.POSITIVE_INFINITY)
  }

  #now() {
    return this.#back(0)
  }

  #back(steps: number) {
    const found = this.#states[Math.max(0, this.#states.length - 1 - steps)]
    if (found === undefined) throw new Error('the model has no state')
    return found
  }
}
const compactedOr =
  <T>(value: T) =>
  (error: unknown): T => {
    if (error instanceof CompactedError) return value
    throw error
  }
