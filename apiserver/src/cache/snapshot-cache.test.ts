import { isApiError } from '@setpoint/controller-runtime/api'
import { describe, expect, it } from 'vitest'
import { openRooms, thing } from '../../../test/support/rooms.ts'
import { defaultWriteOptions as options } from '../registry/index.ts'
import { SnapshotCache, snapshotCacheDefaults } from './snapshot-cache.ts'

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
    expect(cache.snapshots.at(first).get('b')).toBeUndefined()
    expect(cache.snapshots.at(cache.revision).get('b')?.name).toBe('b')
  })

  it('rejects a revision without a snapshot with 410, and serves no other state', async () => {
    await using rooms = await openRooms()
    const { registry, served, gate, cache } = rooms
    const before = await gate.pass()
    await registry.create(served, thing('a'), options)
    await gate.pass()
    let thrown: unknown
    try {
      cache.snapshots.at(before)
    } catch (error) {
      thrown = error
    }
    expect(isApiError(thrown, 'Expired')).toBe(true)
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
    expect(() => snapshots.at(first)).toThrow(/no longer kept/)
  })
})
