import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { FairScheduler } from './fair-scheduler.ts'
import type { Work } from './work.ts'

test('leaves turns of the event loop without long work, in which connections are accepted', async () => {
  const entries = 10
  let turn = 0
  const turnsOfWork: number[] = []
  function* work(): Work<void> {
    for (let step = 0; step < 5; step++) {
      turnsOfWork.push(turn)
      yield entries
    }
  }

  let isDone = false
  const done = new FairScheduler(entries).run(work(), 1, { caller: 'ann' }).then(() => {
    isDone = true
  })
  while (!isDone) {
    await nextTurn()
    turn++
  }
  await done

  const pauses = turnsOfWork.slice(1).map((at, n) => at - (turnsOfWork[n] ?? 0))
  expect(turnsOfWork).toHaveLength(5)
  expect(Math.min(...pauses)).toBeGreaterThanOrEqual(10)
})

/** Runs one piece of work in each of some turns. Returns which of them were done at once. */
async function runInTurns(scheduler: FairScheduler, handled: readonly number[]): Promise<boolean[]> {
  const atOnce: boolean[] = []
  for (const entries of handled) {
    let isDone = false
    function* work(): Work<void> {
      yield entries
      isDone = true
    }
    void scheduler.run(work(), 1, { caller: 'ann' })
    atOnce.push(isDone)
    await nextTurn()
  }
  return atOnce
}

test('does short work at once, however much of it there was in earlier turns', async () => {
  expect(await runInTurns(new FairScheduler(10), [4, 4, 4, 4, 4])).toEqual([true, true, true, true, true])
})

test('leaves turns after one that handled most of its entries', async () => {
  expect(await runInTurns(new FairScheduler(10), [9, 4, 4])).toEqual([true, false, false])
})
