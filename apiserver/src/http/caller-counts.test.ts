import { FakeClock } from '@setpoint/controller-runtime/testing'
import { expect, it } from 'vitest'
import { CallerCounts, callerCountDefaults } from './caller-counts.ts'

const { callers: most, windowMs, shown } = callerCountDefaults
const request = { ms: 2, queueMs: 1, code: 200 }

it('counts the requests of the last minute or two by caller, those that took longest first', async () => {
  const clock = new FakeClock()
  const counts = new CallerCounts(clock)
  counts.count('ann', request)
  counts.count('ben', { ...request, ms: 5, code: 429 })
  counts.count(undefined, request)
  await clock.advance(windowMs)
  counts.count('ann', { ...request, ms: 9 })
  expect(counts.largest()).toEqual({
    seconds: windowMs / 1000,
    callers: [
      { caller: 'ann', requests: 2, refused: 0, ms: 11, queueMs: 2 },
      { caller: 'ben', requests: 1, refused: 1, ms: 5, queueMs: 1 },
      { caller: 'system:anonymous', requests: 1, refused: 0, ms: 2, queueMs: 1 },
    ],
    others: { requests: 0, refused: 0, ms: 0, queueMs: 0 },
  })
  await clock.advance(windowMs)
  expect(counts.largest().callers).toMatchObject([{ caller: 'ann', requests: 1 }])
  await clock.advance(2 * windowMs)
  expect(counts.largest()).toMatchObject({ callers: [], seconds: 0 })
})

it('counts callers above its bound together', () => {
  const counts = new CallerCounts(new FakeClock())
  for (let n = 0; n < most + 10; n++) counts.count(`user-${n}`, request)
  counts.count('user-0', request)
  const { callers, others } = counts.largest()
  expect(callers).toHaveLength(shown)
  expect(callers[0]).toMatchObject({ caller: 'user-0', requests: 2 })
  expect(others.requests).toBe(most + 10 - shown)
})
