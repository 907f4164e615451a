import { once } from 'node:events'
import { parseRevision, type Revision, silentLogger } from '@setpoint/controller-runtime'
import { zeroRevision } from '@setpoint/controller-runtime/internal'
import { FakeClock } from '@setpoint/controller-runtime/testing'
import { describe, expect, it } from 'vitest'
import { hold, openRooms, type Rooms, thing } from '../../../test/support/rooms.ts'
import { defaultWriteOptions as options } from '../registry/index.ts'
import { type Change, type Storage, StoreUnavailableError } from '../storage/index.ts'
import type { Entry } from './entry.ts'
import { historyDefaults } from './history.ts'
import { HistoryReplay, replayDefaults } from './history-replay.ts'
import { LogFollower } from './log-follower.ts'
import type { ModelCache } from './model-cache.ts'

/**
 * A cache that starts after every change, and a store whose old changes go through `alter`, each read after `begin`.
 */
async function laterCache(
  { storage, served }: Rooms,
  alter: (change: Change) => Change,
  begin: (nth: number) => Promise<void> = () => Promise.resolve(),
) {
  const follower = new LogFollower({ storage, log: silentLogger })
  follower.start()
  const cache = await follower.add(served, new AbortController().signal)
  await follower.stop()
  let read = 0
  const signals: AbortSignal[] = []
  const clock = new FakeClock()
  const altering: Pick<Storage, 'watch'> = {
    async *watch(prefix, watchOptions) {
      const { signal } = watchOptions
      signals.push(signal)
      await Promise.race([begin(signals.length), once(signal, 'abort')])
      for await (const { changes, revision } of storage.watch(prefix, watchOptions)) {
        for (const change of changes) {
          read++
          yield { changes: [alter(change)], revision }
        }
      }
    },
  }
  return {
    cache,
    replay: new HistoryReplay(Object.assign(Object.create(storage), altering), clock),
    clock,
    read: () => read,
    watches: () => signals.length,
    signals,
  }
}

describe('history replay', () => {
  it('extends the history back to the revision of a client', async () => {
    await using rooms = await openRooms()
    const { registry, served, cache: first } = rooms
    const start = first.revision
    await registry.create(served, thing('a'), options)
    await registry.delete(served, 'a', {}, options)
    const { cache, replay } = await laterCache(rooms, change => change)
    await replay.reach(cache, start)
    expect(cache.history.floor).toBe(start)
    expect(cache.history.size).toBe(2)
  })

  it('does not extend the history past a change whose previous state is compacted', async () => {
    await using rooms = await openRooms()
    const { registry, served, cache: first } = rooms
    await registry.create(served, thing('a'), options)
    await rooms.gate.pass()
    const start = first.revision
    await registry.delete(served, 'a', {}, options)
    const { cache, replay } = await laterCache(rooms, change => ({ ...change, previous: undefined }))
    const { floor } = cache.history
    await replay.reach(cache, start)
    expect(cache.history.floor).toBe(floor)
  })

  it('delivers each change with its previous state, starting after the last change without one', async () => {
    await using rooms = await openRooms()
    const { registry, served, cache: first } = rooms
    const start = first.revision
    const put = async (n: number) =>
      revisionIn((await registry.replace(served, 'a', thing('a', { n }), 'object', options)).bytes)
    await registry.create(served, thing('a', { n: 0 }), options)
    const forgotten = await put(1)
    await put(2)
    await registry.delete(served, 'a', {}, options)
    await registry.create(served, thing('a', { n: 3 }), options)
    const told = ({ history }: ModelCache) => {
      const seen: unknown[] = []
      for (let event = history.next(history.floor); event; event = history.next(event.revision)) {
        const n = (entry?: Entry) => entry && JSON.parse(entry.bytes.toString()).spec.n
        seen.push([n(event.previous), n(event.next)])
      }
      return seen
    }
    const whole = await laterCache(rooms, change => change)
    await whole.replay.reach(whole.cache, start)
    expect(told(whole.cache)).toEqual([
      [undefined, 0],
      [0, 1],
      [1, 2],
      [2, undefined],
      [undefined, 3],
    ])
    const holed = await laterCache(rooms, change =>
      change.revision === forgotten ? { ...change, previous: undefined } : change,
    )
    await holed.replay.reach(holed.cache, start)
    expect(told(holed.cache)).toEqual(told(whole.cache).slice(2))
  })

  it('keeps the newest changes that fit into the history', async () => {
    await using rooms = await openRooms()
    const { registry, served, cache: first } = rooms
    const start = first.revision
    const big = 'x'.repeat(1_400_000)
    const fitting = Math.floor(historyDefaults.maxBytes / big.length)
    const versions: Revision[] = []
    for (let n = 0; n < fitting + 4; n++) {
      const { bytes } = await registry.create(served, thing(`o${n}`, { big, n }), options)
      versions.push(revisionIn(bytes))
    }
    const { cache, replay } = await laterCache(rooms, change => change)
    const recent = versions[versions.length - fitting] ?? start
    await Promise.all([replay.reach(cache, start), replay.reach(cache, recent)])
    expect(cache.history.floor).toBeGreaterThan(start)
    expect(cache.history.floor).toBeLessThanOrEqual(recent)
    expect(cache.history.next(recent)?.revision).toBe(versions[versions.length - fitting + 1])
  })

  it('reads once for all clients that resume together, from any revisions', async () => {
    await using rooms = await openRooms()
    const { registry, served, cache: first } = rooms
    const versions = [first.revision]
    for (let n = 0; n < 20; n++)
      versions.push(revisionIn((await registry.create(served, thing(`o${n}`), options)).bytes))
    const { cache, replay, read, watches } = await laterCache(rooms, change => change)
    // Newest first, which needs a read for each unless they are combined.
    await Promise.all(versions.toReversed().map(version => replay.reach(cache, version)))
    expect(cache.history.floor).toBe(versions[0])
    expect(read()).toBe(20)
    // One request checks that the store has the version, one reads.
    expect(watches()).toBe(2)
    for (const [at, version] of versions.entries())
      expect(cache.history.next(version)?.revision).toBe(versions[at + 1])
  })

  it('resumes other clients if one was away for too long', async () => {
    await using rooms = await openRooms()
    const { registry, served, storage, cache: first } = rooms
    const versions = [first.revision]
    for (let n = 0; n < 20; n++)
      versions.push(revisionIn((await registry.create(served, thing(`o${n}`), options)).bytes))
    const kept = versions[12] ?? zeroRevision
    await storage.compact(kept)
    const { cache, replay } = await laterCache(rooms, change => change)
    await Promise.all(versions.map(version => replay.reach(cache, version)))
    expect(cache.history.floor).toBe(kept)
    expect(cache.history.size).toBe(8)
  })

  it('resumes the clients whose changes survive a compaction during the read', async () => {
    await using rooms = await openRooms()
    const { registry, served, storage, cache: first } = rooms
    const versions = [first.revision]
    for (let n = 0; n < 20; n++)
      versions.push(revisionIn((await registry.create(served, thing(`o${n}`), options)).bytes))
    const [away, recent, kept] = [versions[0], versions[15], versions[12]].map(
      version => version ?? zeroRevision,
    )
    // The store has every change at the check, but not at the read.
    const { cache, replay } = await laterCache(
      rooms,
      change => change,
      async nth => {
        if (nth === 2) await storage.compact(kept ?? zeroRevision)
      },
    )
    await Promise.all([away, recent].map(version => replay.reach(cache, version ?? zeroRevision)))
    expect(cache.history.floor).toBe(recent)
    expect(cache.history.size).toBe(5)
  })

  it('fails with 503, not 410, if the store stops responding', async () => {
    await using rooms = await openRooms()
    const { registry, served, cache: first } = rooms
    const start = first.revision
    await registry.create(served, thing('a'), options)
    const gate = hold()
    const { cache, replay, clock, watches } = await laterCache(
      rooms,
      change => change,
      // The second request reads, after the first has checked the version.
      nth => (nth === 2 ? gate.held : Promise.resolve()),
    )
    const reached = replay.reach(cache, start)
    const refused = expect(reached).rejects.toThrow(StoreUnavailableError)
    await expect.poll(() => watches()).toBe(2)
    await clock.advance(replayDefaults.timeoutMs)
    await refused
    gate.release()
    await replay.reach(cache, start)
    expect(cache.history.floor).toBe(start)
  })

  it('aborts a read that takes too long, so that clients list again', async () => {
    await using rooms = await openRooms()
    const { registry, served, cache: first } = rooms
    const start = first.revision
    for (const name of ['a', 'b', 'c']) await registry.create(served, thing(name), options)
    const { cache, replay, clock, read } = await laterCache(rooms, change => {
      clock.advanceSync(replayDefaults.timeoutMs / 2)
      return change
    })
    const { floor } = cache.history
    await replay.reach(cache, start)
    expect(read()).toBeGreaterThan(0)
    expect(cache.history.floor).toBe(floor)
  })

  it('rejects an aborted caller at once and continues for the others', async () => {
    await using rooms = await openRooms()
    const { registry, served, cache: first } = rooms
    const start = first.revision
    await registry.create(served, thing('a'), options)
    const gate = hold()
    const { cache, replay } = await laterCache(
      rooms,
      change => change,
      () => gate.held,
    )
    const [gone, staying] = [new AbortController(), new AbortController()]
    const left = replay.reach(cache, start, gone.signal)
    const stayed = replay.reach(cache, start, staying.signal)
    gone.abort(new Error('gone'))
    await expect(left).rejects.toThrow('gone')
    gate.release()
    await stayed
    expect(cache.history.floor).toBe(start)
  })

  it('stops reading when the last caller has left, and starts over for the next', async () => {
    await using rooms = await openRooms()
    const { registry, served, cache: first } = rooms
    const start = first.revision
    await registry.create(served, thing('a'), options)
    const gate = hold()
    const { cache, replay, signals } = await laterCache(
      rooms,
      change => change,
      () => gate.held,
    )
    const gone = new AbortController()
    const left = replay.reach(cache, start, gone.signal)
    await expect.poll(() => signals).toHaveLength(1)
    gone.abort(new Error('gone'))
    await expect(left).rejects.toThrow('gone')
    expect(signals[0]?.aborted).toBe(true)
    gate.release()
    await replay.reach(cache, start)
    expect(cache.history.floor).toBe(start)
  })
})

function revisionIn(bytes: Buffer): Revision {
  return parseRevision(JSON.parse(bytes.toString()).metadata.version)
}
