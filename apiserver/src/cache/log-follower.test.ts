import { once } from 'node:events'
import { type Clock, type Logger, silentLogger, systemClock } from '@setpoint/controller-runtime'
import { isApiError, type Revision, toRevision, zeroRevision } from '@setpoint/controller-runtime/api'
import { FakeClock } from '@setpoint/controller-runtime/testing'
import { describe, expect, it } from 'vitest'
import { patientMs, startEtcd } from '../../../test/support/etcd.ts'
import { bound, hold, openRooms, type Rooms, testModel, thing } from '../../../test/support/rooms.ts'
import { Health } from '../http/health.ts'
import { ServedModel } from '../model/served-model.ts'
import { defaultWriteOptions } from '../registry/index.ts'
import { openEtcdStorage } from '../storage/etcd/index.ts'
import { CompactedError, type Storage, WrongStoreError } from '../storage/index.ts'
import { type CacheEvent, historyDefaults } from './history.ts'
import { Lag } from './lag.ts'
import { followerDefaults, LogFollower } from './log-follower.ts'
import type { ModelCache } from './model-cache.ts'
import { ReadGate } from './read-gate.ts'

const never = new AbortController().signal

describe('log follower', () => {
  it('applies every change once and in order, also those that arrive while a cache is built', async () => {
    await using rooms = await openRooms()
    const { registry, served, follower, gate } = rooms
    for (let n = 0; n < 50; n++) await registry.create(served, thing(`before-${n}`), defaultWriteOptions)
    follower.remove(served)
    const adding = follower.add(served, never)
    const writing = Promise.all(
      Array.from({ length: 50 }, (_, n) =>
        registry.create(served, thing(`during-${n}`), defaultWriteOptions),
      ),
    )
    const cache = await adding
    const seen: CacheEvent[] = []
    cache.observe({ changed: event => seen.push(event), reset() {} })
    await writing
    await registry.create(served, thing('after'), defaultWriteOptions)
    await gate.pass()
    expect(cache.store.size).toBe(101)
    const revisions = seen.map(event => event.revision)
    expect(revisions).toEqual([...new Set(revisions)].sort((a, b) => a - b))
    expect(seen.at(-1)?.next?.name).toBe('after')
  })

  it('feeds the caches of two declarations of one kind, until one is removed', async () => {
    await using rooms = await openRooms()
    const { registry, served, follower, gate } = rooms
    const second = new ServedModel(testModel)
    const cache = await follower.add(second, never)
    await registry.create(served, thing('a'), defaultWriteOptions)
    await gate.pass()
    expect([cache.store.size, follower.cacheOf(served)?.store.size]).toEqual([1, 1])
    expect(follower.tallies.get(served.resource)?.received).toBe(1)
    follower.remove(served)
    await registry.create(served, thing('b'), defaultWriteOptions)
    await gate.pass()
    expect(follower.cacheOf(served)).toBeUndefined()
    expect(follower.cacheOf(second)?.store.size).toBe(2)
  })

  it('notifies every observer, and resets them all if one has failed', async () => {
    await using rooms = await openRooms()
    const { registry, served, follower, gate, cache } = rooms
    const seen: string[] = []
    cache.observe({
      changed() {
        throw new Error('a defect')
      },
      reset() {},
    })
    cache.observe({ changed: ({ next }) => seen.push(next?.name ?? ''), reset: () => seen.push('reset') })
    await registry.create(served, thing('a'), defaultWriteOptions)
    await expect.poll(() => follower.cacheOf(served)?.store.size).toBe(1)
    await gate.pass()
    expect(seen.slice(0, 2)).toEqual(['a', 'reset'])
  })

  it('misses no change in a cache that is completed during a rebuild', async () => {
    await using rooms = await openRooms()
    const { storage, registry, served } = rooms
    const other = new ServedModel({ ...testModel, plural: 'others' })
    let loseLog = () => {}
    const lost = new Promise<never>((_, reject) => {
      loseLog = () => reject(new CompactedError('lost'))
    })
    lost.catch(() => {})
    const first = hold()
    const second = hold()
    let restarting = false
    let watches = 0
    const failing: Storage = {
      ...bound(storage),
      watch: (prefix, options) => {
        if (watches++ > 0) return storage.watch(prefix, options)
        return (async function* () {
          yield* []
          await lost
        })()
      },
      list: async (prefix, options) => {
        const page = await storage.list(prefix, options)
        // The new cache has its state before the log is lost, the old one's second loading ends after that.
        if (prefix === served.keyPrefix) await first.held
        else if (restarting) await second.held
        return page
      },
    }
    const failed = hold()
    const log: Logger = {
      ...silentLogger,
      warn(_, message) {
        if (message.startsWith('failed to build the cache')) failed.release()
      },
    }
    await using follower = Object.assign(new LogFollower({ storage: failing, log }), {
      [Symbol.asyncDispose]: () => follower.stop(),
    })
    follower.start()
    await follower.add(other, never)
    const adding = follower.add(served, never)
    await registry.create(served, thing('a'), defaultWriteOptions)
    restarting = true
    loseLog()
    await expect.poll(() => follower.trouble).toMatch(/being rebuilt/)
    first.release()
    await Promise.race([failed.held, adding])
    second.release()
    const cache = await adding
    await expect.poll(() => follower.trouble).toBeUndefined()
    await new ReadGate(storage, follower).pass()
    expect(cache.store.get('a')?.name).toBe('a')
  })

  it('rebuilds its caches from a snapshot and ends their watches when the log was compacted', async () => {
    await using lost = await losingLog()
    const { rooms, follower, cache } = lost
    const { registry, served } = rooms
    await registry.create(served, thing('one'), defaultWriteOptions)
    await registry.delete(served, 'zero', {}, defaultWriteOptions)
    const current = await lost.forget()
    await follower.reached(current, AbortSignal.timeout(60_000))
    expect([lost.resets, lost.seen]).toEqual([1, []])
    expect(cache.history.floor).toBe(current)
    expect(follower.tallies.get(served.resource)?.rebuilt).toBe(1)
    expect(await statesAgree(rooms, cache)).toBe(true)
    await registry.create(served, thing('two'), defaultWriteOptions)
    await follower.reached((await rooms.storage.head()).current, AbortSignal.timeout(60_000))
    expect(lost.seen.map(({ next }) => next?.name)).toEqual(['two'])
  })

  it('refuses reads until the caches are rebuilt, because the store has compacted the log', async () => {
    await using rooms = await openRooms()
    const { storage, registry, served } = rooms
    const [lost, scan] = [hold(), hold()]
    let watches = 0
    let rebuilding = false
    const slow: Storage = {
      ...bound(storage),
      async *watch(prefix, options) {
        if (watches++ === 0) {
          await lost.held
          rebuilding = true
          throw new CompactedError('compacted')
        }
        yield* storage.watch(prefix, options)
      },
      async list(prefix, options) {
        if (rebuilding) await scan.held
        return storage.list(prefix, options)
      },
    }
    const follower = new LogFollower({ storage: slow, log: silentLogger })
    const gate = new ReadGate(slow, follower)
    const health = new Health({ storage: slow, follower, plugins: () => [] })
    follower.start()
    const cache = await follower.add(served, never)
    await registry.create(served, thing('a'), defaultWriteOptions)
    lost.release()
    const why = 'the caches are being rebuilt, because the store has compacted their next changes'
    await expect.poll(() => follower.trouble).toBe(why)
    await expect(gate.pass()).rejects.toMatchObject({ message: expect.stringContaining(why) })
    const { status, text } = await health.ready({ verbose: false, detailed: true })
    expect([status, text.includes(`[-]caches failed: ${why}`)]).toEqual([503, true])
    // Reads that accept an old state are served.
    expect(follower.cacheOf(served)).toBe(cache)
    scan.release()
    await expect.poll(() => follower.trouble).toBeUndefined()
    await gate.pass()
    expect(cache.store.get('a')?.name).toBe('a')
    await follower.stop()
  })

  it('keeps its caches and refuses reads while the store is the wrong one', async () => {
    await using rooms = await openRooms()
    const { storage, registry, served } = rooms
    await registry.create(served, thing('a'), defaultWriteOptions)
    const lost = hold()
    let isWrong = false
    const wrong: Storage = {
      ...bound(storage),
      async head(options) {
        if (isWrong) throw new WrongStoreError('another cluster')
        return storage.head(options)
      },
      async *watch() {
        yield* []
        await lost.held
        throw new WrongStoreError('another cluster')
      },
    }
    const follower = new LogFollower({ storage: wrong, log: silentLogger })
    const gate = new ReadGate(wrong, follower)
    const health = new Health({ storage: wrong, follower, plugins: () => [] })
    follower.start()
    const cache = await follower.add(served, never)
    isWrong = true
    lost.release()
    await expect.poll(() => follower.trouble).toBe('the endpoints lead to the wrong store')
    await expect(gate.pass()).rejects.toMatchObject({ code: 503 })
    const { status, text } = await health.ready({ verbose: false, detailed: true })
    expect([status, text.includes('another cluster')]).toEqual([503, true])
    expect(cache.store.get('a')?.name).toBe('a')
    await follower.stop()
  })

  it('resumes from its position without a reset when the watch fails for any other reason', async () => {
    await using lost = await losingLog(new Error('broken'))
    const { rooms, follower, cache } = lost
    for (const n of [1, 2])
      await rooms.registry.replace(rooms.served, 'zero', thing('zero', { n }), 'object', defaultWriteOptions)
    lost.breakLog()
    const { current } = await rooms.storage.head()
    await follower.reached(current, AbortSignal.timeout(60_000))
    expect([lost.resets, lost.seen.length]).toEqual([0, 2])
    expect(await statesAgree(rooms, cache)).toBe(true)
  })

  it('yields between the revisions of a large batch and reports only whole revisions', async () => {
    await using rooms = await openRooms()
    const { storage, registry, served } = rooms
    const other = new ServedModel({ ...testModel, plural: 'others' })
    const batch = hold()
    const start = (await storage.head()).current
    await registry.create(served, thing('a'), defaultWriteOptions)
    const { pair } = await storage.get(served.keyOf('a'))
    const changes = Array.from({ length: 400 }, (_, n) => ({
      key: (n % 2 === 0 ? served : other).keyOf(`o${n}`),
      // Two objects in one revision. No store does that, but it shows that a revision is never visible in part.
      revision: toRevision(start + 1 + Math.floor(n / 2)),
      value: pair?.value,
      previous: undefined,
      createRevision: zeroRevision,
    }))
    const last = toRevision(start + 200)
    const large: Storage = {
      ...bound(storage),
      head: async () => ({ current: start, written: start }),
      list: async () => ({ revision: start, pairs: [], more: false }),
      async *watch(_, { signal }) {
        await batch.held
        yield { changes, revision: last }
        await once(signal, 'abort')
      },
    }
    // Each reading of this clock advances it by a millisecond.
    let now = 0
    const clock: Clock = { ...systemClock, monotonic: () => now++ }
    const follower = new LogFollower({ storage: large, log: silentLogger, clock })
    follower.start()
    const caches = [await follower.add(served, never), await follower.add(other, never)]
    batch.release()
    const positions = new Set<number>()
    while (follower.position < last) {
      await new Promise<void>(resolve => setImmediate(resolve))
      positions.add(follower.position)
      const sizes = caches.map(cache => cache.store.size)
      expect(sizes).toEqual([follower.position - start, follower.position - start])
    }
    expect(positions.size).toBeGreaterThan(10)
    await follower.stop()
  })

  it('reports its lag when the watch delivers nothing, and then reopens the watch', async () => {
    await using rooms = await openRooms()
    const { storage, registry, served } = rooms
    const clock = new FakeClock()
    let watches = 0
    const stalling: Storage = {
      ...bound(storage),
      async *watch(prefix, options) {
        if (++watches > 1) yield* storage.watch(prefix, options)
        else await once(options.signal, 'abort')
      },
    }
    const follower = new LogFollower({ storage: stalling, log: silentLogger, clock })
    const health = new Health({ storage: stalling, follower, plugins: () => [] })
    follower.start()
    const cache = await follower.add(served, never)
    for (const name of ['a', 'b']) await registry.create(served, thing(name), defaultWriteOptions)
    const { current } = await storage.head()
    // Without any read, the readiness check detects it.
    await health.ready({ verbose: false, detailed: true })
    expect(follower.trouble).toBeUndefined()
    await clock.advance(followerDefaults.lagMs)
    const why = 'the caches have been behind the store for 3 s, by 2 revisions'
    expect(follower.trouble).toBe(why)
    expect((await health.ready({ verbose: false, detailed: true })).text).toContain(
      `[-]caches failed: ${why}`,
    )
    await expect(new ReadGate(stalling, follower).pass()).rejects.toMatchObject({
      message: expect.stringContaining(why),
      details: { retryAfterSeconds: 1 },
    })
    await clock.advance(followerDefaults.stallMs - followerDefaults.lagMs)
    await follower.reached(current, AbortSignal.timeout(60_000))
    expect(watches).toBe(2)
    expect(follower.trouble).toBeUndefined()
    expect(cache.store.size).toBe(2)
    await follower.stop()
  })

  it('reports no lag under constant writes while it follows', async () => {
    const clock = new FakeClock()
    const lag = new Lag({ clock, stallMs: 1000, onStall: () => expect.fail('it follows') })
    for (let revision = 1; revision < 1000; revision++) {
      lag.heard(toRevision(revision + 5))
      await clock.advance(10)
      lag.reached(toRevision(revision))
      expect(lag.ms ?? 0).toBeLessThanOrEqual(60)
    }
  })

  it('evicts old history of a kind that no longer changes', async () => {
    await using rooms = await openRooms()
    const { storage, registry, served } = rooms
    const clock = new FakeClock()
    const follower = new LogFollower({ storage, log: silentLogger, clock })
    follower.start()
    const cache = await follower.add(served, never)
    for (let n = 0; n < 150; n++) await registry.create(served, thing(`o${n}`), defaultWriteOptions)
    await follower.reached((await storage.head()).current, never)
    await clock.advance(60_000)
    expect(cache.history.size).toBe(150)
    await clock.advance(historyDefaults.maxAgeMs)
    expect(cache.history.size).toBe(historyDefaults.minEvents)
    await follower.stop()
  })
})

/**
 * A follower whose first watch delivers nothing. Its rooms have one object, `zero`. `forget` compacts the store and
 * ends that watch; `breakLog` only ends it.
 */
async function losingLog(failure?: Error) {
  const rooms = await openRooms()
  const { storage, registry, served } = rooms
  await registry.create(served, thing('zero'), defaultWriteOptions)
  const lost = hold()
  let watches = 0
  const losing: Storage = {
    ...bound(storage),
    async *watch(prefix, options) {
      if (watches++ === 0) {
        await Promise.race([lost.held, once(options.signal, 'abort')])
        if (failure !== undefined) throw failure
      }
      yield* storage.watch(prefix, options)
    },
  }
  const follower = new LogFollower({ storage: losing, log: silentLogger })
  follower.start()
  const cache = await follower.add(served, never)
  const seen: CacheEvent[] = []
  const state = {
    rooms,
    follower,
    cache,
    seen,
    resets: 0,
    breakLog: lost.release,
    async forget(): Promise<Revision> {
      const { current } = await storage.head()
      await storage.compact(current)
      lost.release()
      return current
    },
    async [Symbol.asyncDispose]() {
      await follower.stop()
      await rooms[Symbol.asyncDispose]()
    },
  }
  cache.observe({ changed: event => seen.push(event), reset: () => state.resets++ })
  return state
}

/** Returns true if a cache equals the rooms' own cache, which has followed without a break. */
async function statesAgree({ gate, cache }: Rooms, other: ModelCache): Promise<boolean> {
  await gate.pass()
  const stateOf = ({ store }: ModelCache) => {
    const entries: string[] = []
    store.snapshot().objects.forEachValue(({ bytes }) => entries.push(bytes.toString()))
    return entries.join()
  }
  return stateOf(cache) === stateOf(other)
}

describe('read gate', () => {
  it('shares a request only with reads that arrived before it was sent', async () => {
    await using rooms = await openRooms()
    const { storage, follower } = rooms
    const answers: ((head: { current: Revision; written: Revision }) => void)[] = []
    const slow: Storage = { ...bound(storage), head: () => new Promise(resolve => answers.push(resolve)) }
    const gate = new ReadGate(slow, follower)
    const head = await storage.head()
    const first = [gate.pass(), gate.pass(), gate.pass()]
    await until(() => answers.length === 1)
    let later = false
    const second = gate.pass().then(() => {
      later = true
    })
    answers[0]?.(head)
    await Promise.all(first)
    expect(later).toBe(false)
    await until(() => answers.length === 2)
    answers[1]?.(head)
    await second
  })

  it('admits reads after a transaction that changed no object', async () => {
    const etcd = await startEtcd({ unsafeNoFsync: true })
    const storage = await openEtcdStorage({ endpoints: [etcd.endpoint], deadlineMs: patientMs })
    const follower = new LogFollower({ storage, log: silentLogger })
    try {
      follower.start()
      await follower.reached(zeroRevision, never)
      const put = { type: 'put', key: 'models/any', value: Buffer.from('x') } as const
      const { revision } = await storage.transact({ compares: [], onSuccess: [put] })
      expect(await new ReadGate(storage, follower).pass()).toBeGreaterThanOrEqual(revision)
    } finally {
      await follower.stop()
      await storage.close()
      await etcd.stop()
    }
  })

  it('responds with 503, not with an old state, while the store does not respond', async () => {
    await using rooms = await openRooms()
    const { storage, follower } = rooms
    const away: Storage = { ...bound(storage), head: () => Promise.reject(new Error('away')) }
    await expect(new ReadGate(away, follower).pass()).rejects.toSatisfy(error =>
      isApiError(error, 'ServiceUnavailable'),
    )
  })
})

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise<void>(resolve => setImmediate(resolve))
}
