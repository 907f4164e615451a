import { silentLogger } from '@setpoint/controller-runtime'
import { describe, expect, it } from 'vitest'
import { defaultWriteOptions as options } from '../registry/index.ts'
import type { Change, Storage } from '../storage/index.ts'
import { openRooms, type Rooms, thing } from '../testing.ts'
import { historyDefaults } from './history.ts'
import { HistoryReplay } from './history-replay.ts'
import { LogFollower } from './log-follower.ts'

/** A cache that has begun after everything there is, and a store whose old changes go through `alter`. */
async function laterCache({ storage, served }: Rooms, alter: (change: Change) => Change) {
  const follower = new LogFollower({ storage, log: silentLogger })
  follower.start()
  const cache = await follower.add(served, new AbortController().signal)
  await follower.stop()
  let read = 0
  const altering: Pick<Storage, 'watch'> = {
    async *watch(prefix, watchOptions) {
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
    replay: new HistoryReplay(Object.assign(Object.create(storage), altering)),
    read: () => read,
  }
}

describe('history replay', () => {
  it('reaches back to where a client was', async () => {
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

  it('does not take a change for one that concerns nobody because the store has forgotten what there was', async () => {
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

  it('reads no more than the history has room for', async () => {
    await using rooms = await openRooms()
    const { registry, served, cache: first } = rooms
    const start = first.revision
    const big = 'x'.repeat(1_400_000)
    const fitting = Math.ceil(historyDefaults.maxBytes / big.length)
    await registry.create(served, thing('a', { big }), options)
    for (let n = 0; n < fitting + 4; n++)
      await registry.replace(served, 'a', thing('a', { big, n }), 'object', options)
    const { cache, replay, read } = await laterCache(rooms, change => change)
    await replay.reach(cache, start)
    expect(cache.history.floor).toBeGreaterThan(start)
    expect(read()).toBeLessThanOrEqual(fitting)
  })
})
