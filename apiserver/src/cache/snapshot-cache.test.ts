import { toRevision } from '@setpoint/controller-runtime/api'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ModelLog } from '../../../test/support/model-log.ts'
import { openRooms, thing } from '../../../test/support/rooms.ts'
import { defaultWriteOptions as options } from '../registry/index.ts'
import { FairScheduler, finish, type Work } from '../scheduling/index.ts'
import type { Entry } from './entry.ts'
import { History, historyDefaults } from './history.ts'
import { SnapshotCache, snapshotCacheDefaults } from './snapshot-cache.ts'

const expired = expect.objectContaining({ reason: 'Expired' })

/** A log of creations; the revision of each is in its name. */
function logOf(count: number, limits = historyDefaults): ModelLog {
  const log = new ModelLog(undefined, limits)
  for (let n = 1; n <= count; n++) log.write(`n${n}`, { name: `n${n}` })
  return log
}

describe('the snapshot cache', () => {
  it('serves a snapshot for every revision until the next change', async () => {
    await using rooms = await openRooms()
    const { registry, served, gate, cache } = rooms
    await registry.create(served, thing('a'), options)
    const first = await gate.pass()
    const snapshot = cache.snapshots.present()
    await registry.create(served, thing('b'), options)
    await gate.pass()
    expect(cache.snapshots.at(first)).toBe(snapshot)
    expect(snapshot.get('b')).toBeUndefined()
    expect(cache.snapshots.at(cache.revision)?.get('b')?.name).toBe('b')
  })

  it('makes a state that no list was served from, and keeps it', () => {
    const log = logOf(5)
    const snapshots = new SnapshotCache(log, () => 0)
    expect(snapshots.at(toRevision(2))).toBeUndefined()
    const made = finish(snapshots.rewind(toRevision(2)))
    expect([made.size, made.get('n2')?.name, made.get('n3')]).toEqual([2, 'n2', undefined])
    expect(snapshots.at(toRevision(2))).toBe(made)
  })

  it('undoes only the changes before the next state that is kept', () => {
    const log = logOf(50)
    const snapshots = new SnapshotCache(log, () => 0)
    expect([...snapshots.rewind(toRevision(20))]).toHaveLength(30)
    expect([...snapshots.rewind(toRevision(15))]).toHaveLength(5)
    expect([...snapshots.rewind(toRevision(40))]).toHaveLength(10)
  })

  it('keeps a few of the states that it made, and those that lists have shown', () => {
    const log = logOf(40)
    let now = 0
    const snapshots = new SnapshotCache(log, () => now++)
    snapshots.present()
    log.write('x', { name: 'x' })
    const states = Array.from({ length: snapshotCacheDefaults.rewound + 3 }, (_, at) => toRevision(at))
    for (const state of states) finish(snapshots.rewind(state))
    const kept = states.filter(state => snapshots.at(state) !== undefined)
    expect(kept).toEqual(states.slice(3))
    expect(snapshots.at(toRevision(40))?.size).toBe(40)
  })

  it('counts every pair of a change as work', () => {
    const log = new ModelLog()
    const tags = Array.from({ length: 500 }, (_, n) => `t${n}`)
    log.write('a', { name: 'a', tags })
    log.write('a', { name: 'a' })
    log.write('a', { name: 'a', n: '1' })
    const [one, many, ...rest] = [...new SnapshotCache(log, () => 0).rewind(toRevision(1))]
    expect(rest).toEqual([])
    expect(many).toBeGreaterThan(10 * tags.length)
    expect(one).toBeLessThan(200)
  })

  it('lets others run between changes, and stops when its client leaves', async () => {
    const log = logOf(300)
    const snapshots = new SnapshotCache(log, () => 0)
    const scheduler = new FairScheduler(100)
    const ann = new AbortController()
    let isDone = false
    const leaving = scheduler
      .run(snapshots.rewind(toRevision(0)), 1, { caller: 'ann', signal: ann.signal })
      .finally(() => {
        isDone = true
      })
    function* short(): Work<void> {
      yield 1
    }
    await scheduler.run(short(), 1, { caller: 'ben' })
    expect(isDone).toBe(false)
    ann.abort(new Error('the client has left'))
    await expect(leaving).rejects.toThrow('the client has left')
    expect(snapshots.at(toRevision(0))).toBeUndefined()
    expect(scheduler.size).toBe(0)
  })

  it('ends all requests for a state when the first has made it', () => {
    const snapshots = new SnapshotCache(logOf(50), () => 0)
    const [first, second] = [snapshots.rewind(toRevision(10)), snapshots.rewind(toRevision(10))]
    second.next()
    const made = finish(first)
    expect(second.next()).toEqual({ done: true, value: made })
  })

  it.each([
    ['evicted', () => {}],
    [
      'read from the store',
      (log: ModelLog) => {
        log.history = new History(toRevision(30), () => 0)
        log.history.prepend(
          [{ revision: toRevision(30), previous: undefined, next: undefined }],
          toRevision(29),
        )
      },
    ],
  ])('rejects a state whose next change was %s with 410', (_, lose) => {
    const log = logOf(30, { ...historyDefaults, maxEvents: 1 })
    lose(log)
    log.write('x', { name: 'x' })
    const snapshots = new SnapshotCache(log, () => 0)
    expect(finish(snapshots.rewind(toRevision(30))).size).toBe(30)
    expect(() => finish(snapshots.rewind(toRevision(29)))).toThrow(expired)
  })

  it('rejects a state with 410 if the cache is rebuilt while it is made', () => {
    const log = logOf(30)
    const snapshots = new SnapshotCache(log, () => 0)
    const work = snapshots.rewind(toRevision(10))
    work.next()
    log.history = new History(log.revision, () => 0)
    snapshots.clear()
    expect(() => finish(work)).toThrow(expired)
    expect(snapshots.at(toRevision(10))).toBeUndefined()
  })

  it('counts each former version of an object that it keeps once, whatever it keeps and evicts', () => {
    const step = fc.oneof(
      fc.record({
        write: fc.constantFrom('a', 'b', 'c', 'd'),
        bytes: fc.option(fc.integer({ max: 9, min: 1 })),
      }),
      fc.record({ list: fc.constant(true) }),
      // So many revisions ago.
      fc.record({ rewind: fc.integer({ min: 1, max: 5 }) }),
      fc.record({ use: fc.integer({ min: 1, max: 5 }) }),
      fc.record({ ages: fc.constant(0.6) }),
    )
    fc.assert(
      fc.property(fc.array(step, { minLength: 10, maxLength: 40 }), steps => {
        const log = new ModelLog()
        let now = 0
        const snapshots = new SnapshotCache(log, () => now)
        log.changed = event => snapshots.changed(event)
        for (const each of steps) {
          if ('write' in each)
            log.write(each.write, each.bytes === null ? undefined : { name: each.write, bytes: each.bytes })
          else if ('list' in each) snapshots.present()
          else if ('rewind' in each) {
            if (each.rewind <= log.revision) finish(snapshots.rewind(toRevision(log.revision - each.rewind)))
          } else if ('use' in each) snapshots.at(toRevision(Math.max(0, log.revision - each.use)))
          else {
            now += each.ages * snapshotCacheDefaults.maxAgeMs
            snapshots.trim()
          }
        }
        const former = new Set<Entry>()
        for (let revision = 0; revision < log.revision; revision++)
          snapshots.at(toRevision(revision))?.objects.forEachValue(entry => former.add(entry))
        log.store.snapshot().objects.forEachValue(entry => former.delete(entry))
        const sizes = [...former].map(({ bytes }) => bytes.length + snapshotCacheDefaults.entryBytes)
        expect(snapshots.bytes).toBe(sizes.reduce((sum, size) => sum + size, 0))
      }),
      { numRuns: 500 },
    )
  })

  it('bounds the bytes of the objects that lists have shown and that have changed since', () => {
    const log = new ModelLog()
    let now = 0
    const snapshots = new SnapshotCache(log, () => now++)
    log.changed = event => snapshots.changed(event)
    const writeAll = () => {
      for (let n = 0; n < 30; n++) log.write(`n${n}`, { name: `n${n}`, bytes: 1_000_000 })
    }
    writeAll()
    for (let round = 0; round < 30; round++) {
      const listed = snapshots.present()
      snapshots.hold(listed)
      const state = log.revision
      writeAll()
      expect(snapshots.bytes).toBeLessThanOrEqual(snapshotCacheDefaults.bytes)
      expect(snapshots.at(state)).toBe(listed)
    }
    const { revision } = log
    snapshots.hold(snapshots.present())
    for (let round = 0; round < 3; round++) writeAll()
    expect(snapshots.bytes).toBeLessThanOrEqual(snapshotCacheDefaults.bytes)
    expect(() => finish(snapshots.rewind(revision))).toThrow(expired)
  })

  it('evicts the least recently used snapshot', async () => {
    await using rooms = await openRooms()
    const { registry, served, gate, cache } = rooms
    let now = 0
    const snapshots = new SnapshotCache(cache, () => now)
    const first = await gate.pass()
    const snapshot = snapshots.present()
    for (let n = 0; n < snapshotCacheDefaults.snapshots + 5; n++) {
      await registry.create(served, thing(`t${n}`), options)
      await gate.pass()
      now++
      snapshots.present()
      expect(snapshots.at(first)).toBe(snapshot)
    }
  })

  it('evicts the snapshots of whole lists before those of lists that are being paged', async () => {
    await using rooms = await openRooms()
    const { registry, served, gate, cache } = rooms
    let now = 0
    const snapshots = new SnapshotCache(cache, () => now)
    const first = await gate.pass()
    const paged = snapshots.present()
    snapshots.hold(paged)
    for (let n = 0; n < snapshotCacheDefaults.snapshots + 5; n++) {
      await registry.create(served, thing(`t${n}`), options)
      await gate.pass()
      now++
      snapshots.present()
    }
    expect(snapshots.at(first)).toBe(paged)
    for (let n = 0; n < snapshotCacheDefaults.snapshots; n++) {
      await registry.create(served, thing(`u${n}`), options)
      await gate.pass()
      now++
      snapshots.hold(snapshots.present())
    }
    expect(snapshots.at(first)).toBeUndefined()
  })
})
