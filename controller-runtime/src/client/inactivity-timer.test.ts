import { expect, test } from 'vitest'
import type { Clock } from '../clock.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { InactivityTimer } from './inactivity-timer.ts'

test('calls back after the timeout, counted from the last activity', async () => {
  const clock = new FakeClock()
  let idle = 0
  const timer = new InactivityTimer(clock, 1_000, () => idle++)
  await clock.advance(900)
  timer.seen()
  await clock.advance(999)
  expect(idle).toBe(0)
  await clock.advance(1)
  expect(idle).toBe(1)
  expect(clock.pendingTimers).toBe(0)
})

test('after a blocked event loop, pending input is read before the timer fires', () => {
  // A clock whose timers fire when the test says so, however late.
  let now = 0
  let due: (() => void) | undefined
  const clock: Clock = {
    now: () => now,
    monotonic: () => now,
    setTimeout: callback => {
      due = callback
      return () => {}
    },
  }
  const fire = (at: number) => {
    now = at
    due?.()
  }
  let idle = 0
  const timer = new InactivityTimer(clock, 60_000, () => idle++)
  fire(300_000)
  expect(idle).toBe(0)
  // Timers run before sockets are read; the activity arrives now.
  timer.seen()
  fire(301_000)
  fire(360_000)
  expect(idle).toBe(1)

  const dead = new InactivityTimer(clock, 60_000, () => idle++)
  fire(700_000)
  expect(idle).toBe(1)
  fire(701_000)
  expect(idle).toBe(2)
  dead.cancel()
})
