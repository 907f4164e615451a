import { silentLogger, type WatchEnd } from '@setpoint/controller-runtime'
import { selectsEverything } from '@setpoint/controller-runtime/api'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { HistoryReplay } from '../cache/index.ts'
import { openRooms } from '../testing.ts'
import { lines } from './codec.ts'
import { hubDefaults, WatchHub } from './watch-hub.ts'

const everything = {
  name: undefined,
  selector: selectsEverything,
  after: undefined,
  initialEvents: false,
  bookmarks: false,
  lifetimeMs: 3_600_000,
}

afterEach(() => {
  vi.useRealTimers()
})

describe('a draining server', () => {
  it('ends watches one after another, and does not wait for those whose clients go by themselves', async () => {
    await using rooms = await openRooms()
    const { cache, follower, gate, storage } = rooms
    const hub = new WatchHub({ gate, replay: new HistoryReplay(storage), follower, log: silentLogger })
    const present = await gate.pass()
    const ends: WatchEnd[] = []
    const sink = { codec: lines, backlog: 0, write: () => {}, end: (end: WatchEnd) => void ends.push(end) }
    const { drainPerSecond, drainStepMs } = hubDefaults
    const watches = Array.from({ length: 3 * drainPerSecond }, () =>
      hub.open(cache, everything, sink, present),
    )
    vi.useFakeTimers({ toFake: ['setTimeout'] })
    let drained = false
    const draining = hub.drain(60_000).then(() => {
      drained = true
    })
    await vi.advanceTimersByTimeAsync(drainStepMs)
    const ended = ends.length
    expect(ended).toBeGreaterThan(0)
    expect(ended).toBeLessThan(drainPerSecond)
    expect(ends.every(({ code }) => code === 1001)).toBe(true)
    for (const watch of watches) watch.close()
    await vi.advanceTimersByTimeAsync(drainStepMs)
    expect(drained).toBe(true)
    await draining
    hub.close()
  })
})
