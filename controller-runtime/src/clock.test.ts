import { expect, test } from 'vitest'
import { longestTimerMs, sleep, systemClock } from './clock.ts'

test('a delay above 2^31 ms does not fire at once, and can be cancelled', async () => {
  let fired = false
  const cancel = systemClock.setTimeout(() => {
    fired = true
  }, longestTimerMs + 1000)
  const forever = systemClock.setTimeout(() => {
    fired = true
  }, Number.POSITIVE_INFINITY)
  await sleep(systemClock, 30)
  cancel()
  forever()
  expect(fired).toBe(false)
})

test('sleep rejects with the reason of its signal, before and during, and leaves no timer', async () => {
  const reason = new Error('enough')
  await expect(sleep(systemClock, 1, AbortSignal.abort(reason))).rejects.toBe(reason)
  const abort = new AbortController()
  const sleeping = sleep(systemClock, 3_600_000, abort.signal)
  abort.abort(reason)
  await expect(sleeping).rejects.toBe(reason)
})
