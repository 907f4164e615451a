import { silentLogger } from '@setpoint/controller-runtime'
import { selectsEverything } from '@setpoint/controller-runtime/api'
import type { WatchEnd } from '@setpoint/controller-runtime/internal'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { bound, openRooms } from '../../../test/support/rooms.ts'
import { HistoryReplay, ReadGate } from '../cache/index.ts'
import { StoreUnavailableError } from '../storage/index.ts'
import { lines } from './codec.ts'
import { watchDefaults } from './subscription.ts'
import { hubDefaults, WatchHub } from './watch-hub.ts'

const everything = {
  key: undefined,
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
  it('ends watches one after another, and does not wait for those that their clients close', async () => {
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

describe('bookmarks', () => {
  it('missed while the store was down are sent as soon as it is back, within the minute', async () => {
    await using rooms = await openRooms()
    const { cache, follower, storage } = rooms
    let refuse = () => {}
    const refused = new Promise<void>(resolve => {
      refuse = resolve
    })
    let isAway = true
    const head = async () => {
      if (!isAway) return storage.head()
      isAway = false
      refuse()
      throw new StoreUnavailableError('away for a moment')
    }
    const gate = new ReadGate({ ...bound(storage), head }, follower)
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const hub = new WatchHub({ gate, replay: new HistoryReplay(storage), follower, log: silentLogger })
    const told = new Promise<string>(resolve => {
      const sink = {
        codec: lines,
        backlog: 0,
        write: (bytes: Buffer) => resolve(String(bytes)),
        end: () => {},
      }
      hub.open(cache, { ...everything, bookmarks: true }, sink, follower.known)
    })
    vi.advanceTimersByTime(watchDefaults.bookmarkMs)
    await refused
    await new Promise(resolve => setImmediate(resolve))
    vi.advanceTimersByTime(hubDefaults.bookmarkRetryMs)
    expect(JSON.parse(await told)).toMatchObject({ type: 'BOOKMARK' })
    expect(watchDefaults.bookmarkMs + 10 * hubDefaults.bookmarkRetryMs).toBeLessThan(60_000)
    hub.close()
  })
})

describe('a watch that is being admitted', () => {
  it('is refused if its cache is found inconsistent meanwhile', async () => {
    await using rooms = await openRooms()
    const { cache, follower, gate, storage } = rooms
    class FindsItWrong extends HistoryReplay {
      override async reach(): Promise<void> {
        follower.distrust(cache)
      }
    }
    const hub = new WatchHub({ gate, replay: new FindsItWrong(storage), follower, log: silentLogger })
    const admitted = hub.admit(cache, { ...everything, after: follower.known })
    await expect(admitted).rejects.toMatchObject({ code: 503 })
    hub.close()
  })
})
