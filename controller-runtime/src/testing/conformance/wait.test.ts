import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { ScenarioClock } from './scenario-clock.ts'
import { Wait, waitDefaults } from './wait.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

test('a call that takes the server long is no sign of a stuck run, and takes no time of the clock', async () => {
  const clock = new ScenarioClock()
  const activity = { count: 0, isIdle: false, isServerBusy: true }
  const wait = new Wait(clock, () => activity, { patienceMs: 3_600_000 })
  const step = async () => {
    let isOver = false
    const reason = wait.step().finally(() => {
      isOver = true
    })
    // Files share a process, so the next timer may be another's.
    while (!isOver) await vi.advanceTimersToNextTimerAsync()
    return reason
  }
  for (let n = 0; n < 2 * waitDefaults.steps; n++) expect(await step()).toBeUndefined()
  expect(clock.elapsedMs).toBe(0)
  activity.isServerBusy = false
  let reason: string | undefined
  for (let n = 0; n <= waitDefaults.stuck && reason === undefined; n++) reason = await step()
  expect(reason).toBe(`a run made no progress for ${waitDefaults.stuck} steps`)
})
