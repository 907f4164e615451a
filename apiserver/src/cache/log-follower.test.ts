import { silentLogger } from '@setpoint/controller-runtime'
import { isApiError, type Revision, zeroRevision } from '@setpoint/controller-runtime/api'
import { describe, expect, it, vi } from 'vitest'
import { startEtcd } from '../../../test/support/etcd.ts'
import { ServedModel } from '../model/served-model.ts'
import { defaultWriteOptions } from '../registry/index.ts'
import { openEtcdStorage } from '../storage/etcd/index.ts'
import { CompactedError, type Storage } from '../storage/index.ts'
import { openRooms, testModel, thing } from '../testing.ts'
import type { CacheEvent } from './history.ts'
import { LogFollower } from './log-follower.ts'
import { ReadGate } from './read-gate.ts'

const never = new AbortController().signal

describe('log follower', () => {
  it('takes in every change once and in order, also those that come while a cache is being built', async () => {
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

  it('misses nothing in a cache that is completed while the log is being found again', async () => {
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
    await using follower = Object.assign(new LogFollower({ storage: failing, log: silentLogger }), {
      [Symbol.asyncDispose]: () => follower.stop(),
    })
    follower.start()
    await follower.add(other, never)
    const adding = follower.add(served, never)
    await registry.create(served, thing('a'), defaultWriteOptions)
    restarting = true
    loseLog()
    await vi.waitFor(() => expect(follower.trouble).toMatch(/built again/))
    first.release()
    await new Promise(resolve => setTimeout(resolve, 20))
    second.release()
    const cache = await adding
    await vi.waitFor(() => expect(follower.trouble).toBeUndefined())
    await new ReadGate(storage, follower).pass()
    expect(cache.store.get('a')?.name).toBe('a')
  })

  it('builds its caches again and says so when the store has forgotten what comes next', async () => {
    await using rooms = await openRooms()
    const { storage, registry, served } = rooms
    // A follower whose watch is held back until the store has compacted what it needs.
    let release = () => {}
    const released = new Promise<void>(resolve => {
      release = resolve
    })
    let held = false
    const holding: Storage = {
      ...bound(storage),
      watch: (prefix, options) => {
        if (held) return storage.watch(prefix, options)
        held = true
        return (async function* () {
          await released
          yield* storage.watch(prefix, options)
        })()
      },
    }
    const follower = new LogFollower({ storage: holding, log: silentLogger })
    follower.start()
    const cache = await follower.add(served, never)
    let resets = 0
    cache.observe({ changed() {}, reset: () => resets++ })
    await registry.create(served, thing('one'), defaultWriteOptions)
    await registry.create(served, thing('two'), defaultWriteOptions)
    const { current } = await storage.head()
    await storage.compact(current)
    release()
    await follower.reached(current, AbortSignal.timeout(5000))
    expect(resets).toBe(1)
    expect([...'one two'.split(' ')].map(name => cache.store.get(name)?.name)).toEqual(['one', 'two'])
    await follower.stop()
  })
})

describe('read gate', () => {
  it('lets nobody join a question that was sent before it came', async () => {
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

  it('lets readers through after a transaction that touched no object', async () => {
    const etcd = await startEtcd({ unsafeNoFsync: true })
    const storage = await openEtcdStorage({ endpoints: [etcd.endpoint] })
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

  it('answers 503, not an old state, while the store does not answer', async () => {
    await using rooms = await openRooms()
    const { storage, follower } = rooms
    const away: Storage = { ...bound(storage), head: () => Promise.reject(new Error('away')) }
    await expect(new ReadGate(away, follower).pass()).rejects.toSatisfy(error =>
      isApiError(error, 'ServiceUnavailable'),
    )
  })
})

function bound(storage: Storage): Storage {
  return {
    get: storage.get.bind(storage),
    list: storage.list.bind(storage),
    transact: storage.transact.bind(storage),
    watch: storage.watch.bind(storage),
    head: storage.head.bind(storage),
    compact: storage.compact.bind(storage),
    close: async () => {},
  }
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise<void>(resolve => setImmediate(resolve))
}

function hold(): { held: Promise<void>; release: () => void } {
  let release = () => {}
  const held = new Promise<void>(resolve => {
    release = resolve
  })
  return { held, release }
}
