import { silentLogger } from '@setpoint/controller-runtime'
import { FakeClock } from '@setpoint/controller-runtime/testing'
import { describe, expect, it } from 'vitest'
import { bound, hold, openRooms, type Rooms, thing } from '../../../test/support/rooms.ts'
import { defaultWriteOptions as options } from '../registry/index.ts'
import { CompactedError, type Storage } from '../storage/index.ts'
import { ConsistencyCheck, checkDefaults } from './consistency-check.ts'
import { LogFollower } from './log-follower.ts'
import type { ModelCache } from './model-cache.ts'

const never = new AbortController().signal

/** A follower whose log omits the changes of one name, next to rooms that have everything. */
async function forgetful(rooms: Rooms, name: string, overrides: Partial<Storage> = {}) {
  const { storage, served } = rooms
  const lossy: Storage = {
    ...bound(storage),
    async *watch(prefix, watchOptions) {
      for await (const { changes, revision } of storage.watch(prefix, watchOptions))
        yield { changes: changes.filter(({ key }) => key !== served.keyOf(name)), revision }
    },
    ...overrides,
  }
  const follower = new LogFollower({ storage: lossy, log: silentLogger })
  follower.start()
  const cache = await follower.add(served, never)
  const check = new ConsistencyCheck({ storage: lossy, follower, log: silentLogger })
  return {
    follower,
    cache,
    check,
    counts: () => check.countsOf(served.resource),
    async settled() {
      await follower.reached((await storage.head()).current, never)
    },
    async [Symbol.asyncDispose]() {
      await follower.stop()
    },
  }
}

const namesIn = ({ store }: ModelCache) => {
  const names: string[] = []
  store.snapshot().objects.forEachValue(({ name }) => names.push(name))
  return names
}

describe('the comparison of cache and store', () => {
  for (const [what, name, spoil] of [
    [
      'misses an object',
      'lost',
      (rooms: Rooms) => rooms.registry.create(rooms.served, thing('lost'), options),
    ],
    [
      'has an old version of an object',
      'b',
      (rooms: Rooms) => rooms.registry.replace(rooms.served, 'b', thing('b', { n: 2 }), 'object', options),
    ],
    ['has a deleted object', 'b', (rooms: Rooms) => rooms.registry.delete(rooms.served, 'b', {}, options)],
    [
      'has a deleted object at its end',
      'x',
      (rooms: Rooms) => rooms.registry.delete(rooms.served, 'x', {}, options),
    ],
  ] as const) {
    it(`finds a cache that ${what}, refuses its reads at once, ends its watches and rebuilds it`, async () => {
      await using rooms = await openRooms()
      const { registry, served } = rooms
      for (const each of ['a', 'b', 'x']) await registry.create(served, thing(each), options)
      const page = hold()
      const { list } = bound(rooms.storage)
      let checked = false
      await using lossy = await forgetful(rooms, name, {
        list: async (prefix, listOptions) => {
          // The rebuild is held back, so that the state before it is observable.
          if (checked && !listOptions?.keysOnly) await page.held
          return list(prefix, listOptions)
        },
      })
      const { cache, follower, check } = lossy
      let resets = 0
      cache.observe({ changed() {}, reset: () => resets++ })
      expect(await check.check(cache, never)).toBe('success')
      await spoil(rooms)
      await registry.create(served, thing('later'), options)
      await lossy.settled()
      checked = true
      expect(await check.check(cache, never)).toBe('failure')
      expect(follower.cacheOf(served)).toBeUndefined()
      expect(resets).toBe(1)
      page.release()
      await expect.poll(() => follower.cacheOf(served)).toBe(cache)
      await rooms.gate.pass()
      expect(namesIn(cache)).toEqual(namesIn(rooms.cache))
      expect(cache.store.get('b')?.revision).toBe(rooms.cache.store.get('b')?.revision)
      expect(await check.check(cache, never)).toBe('success')
      expect(lossy.counts()).toEqual({ success: 2, failure: 1, error: 0 })
      // It continues to follow.
      await registry.create(served, thing('zz'), options)
      await lossy.settled()
      expect(cache.store.get('zz')?.name).toBe('zz')
    })
  }

  it('reports no difference for concurrent writes', async () => {
    await using rooms = await openRooms()
    const { registry, served, storage, follower, cache } = rooms
    await storage.transact({
      compares: [],
      onSuccess: [{ type: 'put', key: served.keyOf('unreadable'), value: Buffer.from('no object') }],
    })
    const check = new ConsistencyCheck({ storage, follower, log: silentLogger })
    let writing = true
    const writers = Promise.all(
      Array.from({ length: 4 }, async (_, writer) => {
        for (let n = 0; n < 20; n++) {
          const name = `w${writer}-${n % 7}`
          if (cache.store.get(name) === undefined)
            await registry.create(served, thing(name), options).catch(() => {})
          else await registry.delete(served, name, {}, options).catch(() => {})
        }
        writing = false
      }),
    )
    const statuses = new Set<string | undefined>()
    while (writing) {
      statuses.add(await check.check(cache, never))
      // Without a turn between them, which no server does, the checks would block the writers.
      await new Promise(resolve => setImmediate(resolve))
    }
    await writers
    expect([...statuses]).toEqual(['success'])
  })

  it('reports an error, not a difference, if the store fails', async () => {
    await using rooms = await openRooms()
    await rooms.registry.create(rooms.served, thing('a'), options)
    let failing = false
    const { list } = bound(rooms.storage)
    await using lossy = await forgetful(rooms, 'none', {
      list: (prefix, listOptions) =>
        failing ? Promise.reject(new CompactedError('compacted')) : list(prefix, listOptions),
    })
    failing = true
    expect(await lossy.check.check(lossy.cache, never)).toBe('error')
    expect(lossy.counts()).toEqual({ success: 0, failure: 0, error: 1 })
    expect(lossy.follower.cacheOf(rooms.served)).toBe(lossy.cache)
  })

  it('ignores a model that is removed or rebuilt while it reads', async () => {
    await using rooms = await openRooms()
    await rooms.registry.create(rooms.served, thing('a'), options)
    const page = hold()
    const { list } = bound(rooms.storage)
    await using lossy = await forgetful(rooms, 'lost', {
      list: async (prefix, listOptions) => {
        if (listOptions?.keysOnly) await page.held
        return list(prefix, listOptions)
      },
    })
    const { cache, check, follower } = lossy
    await rooms.registry.create(rooms.served, thing('lost'), options)
    await lossy.settled()
    const checks = [check.check(cache, never), check.check(cache, never)]
    follower.distrust(cache)
    await expect.poll(() => follower.cacheOf(rooms.served)).toBe(cache)
    page.release()
    expect(await Promise.all(checks)).toEqual([undefined, undefined])
    const removed = check.check(cache, never)
    follower.remove(rooms.served)
    expect(await removed).toBeUndefined()
    expect(lossy.counts()).toEqual({ success: 0, failure: 0, error: 0 })
  })

  it('checks one model after another every five minutes, at a random time for each server', async () => {
    await using rooms = await openRooms()
    const { storage, follower, served } = rooms
    const clock = new FakeClock()
    const check = new ConsistencyCheck({ storage, follower, log: silentLogger, clock, random: () => 1 })
    const stop = new AbortController()
    const running = check.run(stop.signal)
    const longest = checkDefaults.intervalMs * (1 + checkDefaults.jitter)
    const successes = () => check.countsOf(served.resource).success
    await clock.advance(longest - 1)
    expect(successes()).toBe(0)
    for (const round of [1, 2, 3]) {
      await clock.advance(longest)
      await expect.poll(() => successes()).toBe(round)
      // It waits for the next one.
      await expect.poll(() => clock.pendingTimers).toBe(1)
    }
    stop.abort()
    await running
    expect(clock.pendingTimers).toBe(0)
  })
})
