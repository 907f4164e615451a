import { toRevision } from '@setpoint/controller-runtime/api'
import { FakeClock } from '@setpoint/controller-runtime/testing'
import { describe, expect, it } from 'vitest'
import type { Entry } from './entry.ts'
import { type CacheEvent, History, historyDefaults } from './history.ts'

const entry = (revision: number, bytes = 10): Entry => ({
  name: `o${revision}`,
  revision: toRevision(revision),
  bytes: Buffer.alloc(bytes),
  labels: {},
  values: [],
})
const event = (revision: number, bytes?: number): CacheEvent => ({
  revision: toRevision(revision),
  previous: undefined,
  next: entry(revision, bytes),
})
const limits = { ...historyDefaults, minEvents: 2, maxEvents: 5, maxBytes: 1000, maxAgeMs: 100 }

/** Returns the revisions that a watch resumed after `revision` receives. */
function resumed(history: History, revision: number): number[] | 'expired' {
  if (history.positionAfter(toRevision(revision)) === undefined) return 'expired'
  const revisions: number[] = []
  for (let at = toRevision(revision); ; ) {
    const next = history.next(at)
    if (next === undefined) return revisions
    revisions.push(next.revision)
    at = next.revision
  }
}

describe('history', () => {
  it('has every event above its floor, and returns undefined below', () => {
    const history = new History(toRevision(10), () => 0, limits)
    for (const revision of [12, 13, 17, 20, 21]) history.push(event(revision))
    expect(resumed(history, 10)).toEqual([12, 13, 17, 20, 21])
    expect(resumed(history, 13)).toEqual([17, 20, 21])
    expect(resumed(history, 15)).toEqual([17, 20, 21])
    expect(resumed(history, 9)).toBe('expired')
    history.push(event(30))
    expect(history.floor).toBe(12)
    expect(resumed(history, 11)).toBe('expired')
    expect(resumed(history, 12)).toEqual([13, 17, 20, 21, 30])
  })

  it('evicts old events, but keeps the few that a quiet kind needs', () => {
    let now = 0
    const history = new History(toRevision(0), () => now, limits)
    for (const revision of [1, 2, 3, 4]) history.push(event(revision))
    now = 1000
    history.push(event(5))
    expect(history.size).toBe(2)
    expect(resumed(history, 3)).toEqual([4, 5])
  })

  it('is bounded in index values, which take more memory than their JSON', () => {
    const history = new History(toRevision(0), () => 0, { ...limits, maxBytes: 1_000_000 })
    const values = [Array.from({ length: 5_000 }, (_, n) => `label-${n}=`)]
    for (const revision of [1, 2, 3]) {
      const next = { ...entry(revision), values }
      history.push({ revision: next.revision, previous: undefined, next })
    }
    expect(history.size).toBe(1)
  })

  it('is bounded in bytes', () => {
    const history = new History(toRevision(0), () => 0, limits)
    for (const revision of [1, 2, 3]) history.push(event(revision, 600))
    expect(history.size).toBe(1)
    expect(history.floor).toBe(2)
  })

  it('evicts a burst without later events, but not while its clients may resume', async () => {
    const clock = new FakeClock()
    const history = new History(toRevision(0), () => clock.monotonic())
    for (let revision = 1; revision <= 5000; revision++) history.push(event(revision))
    await clock.advance(60_000)
    history.trim()
    expect(resumed(history, 0)).toHaveLength(5000)
    await clock.advance(historyDefaults.maxAgeMs - 60_000)
    history.trim()
    expect(history.size).toBe(5000)
    await clock.advance(1)
    history.trim()
    expect(history.size).toBe(historyDefaults.minEvents)
    expect(resumed(history, 4899)).toBe('expired')
    expect(resumed(history, 4900)).toHaveLength(100)
    history.push(event(5001))
    expect(resumed(history, 4999)).toEqual([5000, 5001])
  })

  it('prepends older events without a gap, and only the newest if there is no room for all', () => {
    const history = new History(toRevision(10), () => 0, limits)
    history.push(event(11))
    history.prepend([event(7), event(9)], toRevision(6))
    expect(history.floor).toBe(6)
    expect(resumed(history, 6)).toEqual([7, 9, 11])
    history.prepend([event(3), event(4), event(6)], toRevision(2))
    expect(history.floor).toBe(3)
    expect(resumed(history, 3)).toEqual([4, 6, 7, 9, 11])
    expect(resumed(history, 2)).toBe('expired')
    history.prepend([event(1), event(3)], toRevision(0))
    expect(history.floor).toBe(3)
  })

  it('stays correct over thousands of events', () => {
    const history = new History(toRevision(0), () => 0, {
      ...limits,
      maxBytes: Number.MAX_SAFE_INTEGER,
      maxEvents: 1500,
    })
    for (let revision = 1; revision <= 10_000; revision++) history.push(event(revision, 1))
    expect(history.floor).toBe(8500)
    expect(resumed(history, 9997)).toEqual([9998, 9999, 10_000])
    expect(resumed(history, 8499)).toBe('expired')
  })
})
