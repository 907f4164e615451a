import { afterEach, expect, test, vi } from 'vitest'
import { longestTimerMs, sleep, systemClock } from './clock.ts'

afterEach(() => void vi.useRealTimers())

test('a delay above 2^31 ms does not fire before its time, and can be cancelled', () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  const fired: string[] = []
  systemClock.setTimeout(() => fired.push('long'), longestTimerMs + 1000)
  const cancel = systemClock.setTimeout(() => fired.push('cancelled'), longestTimerMs + 1000)
  const forever = systemClock.setTimeout(() => fired.push('never'), Number.POSITIVE_INFINITY)
  vi.advanceTimersByTime(longestTimerMs + 999)
  expect(fired).toEqual([])
  cancel()
  vi.advanceTimersByTime(1)
  expect(fired).toEqual(['long'])
  forever()
  expect(vi.getTimerCount()).toBe(0)
})

test('sleep rejects with the reason of its signal, before and during, and leaves no timer', async () => {
  const reason = new Error('enough')
  await expect(sleep(systemClock, 1, AbortSignal.abort(reason))).rejects.toBe(reason)
  const abort = new AbortController()
  const sleeping = sleep(systemClock, 3_600_000, abort.signal)
  abort.abort(reason)
  await expect(sleeping).rejects.toBe(reason)
})
