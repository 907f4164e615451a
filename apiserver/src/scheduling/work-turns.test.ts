import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { workDefaults } from './work.ts'
import { WorkTurns } from './work-turns.ts'

async function turns(count: number): Promise<void> {
  for (let n = 0; n < count; n++) await nextTurn()
}

it('callers take turns, however much each has to do', async () => {
  const work = new WorkTurns(2)
  work.spend(2)
  expect(work.isSpent).toBe(true)
  const order: string[] = []
  const queue = (caller: string, times: number) => {
    const goOn = () => {
      order.push(caller)
      work.spend(1)
      if (--times > 0) work.wait(caller, goOn)
    }
    work.wait(caller, goOn)
  }
  queue('ann', 4)
  queue('ben', 2)
  expect(order).toEqual([])
  await turns(2 * workDefaults.turns)
  expect(order).toEqual(['ann', 'ben'])
  await turns(4 * workDefaults.turns)
  expect(order).toEqual(['ann', 'ben', 'ann', 'ben', 'ann', 'ann'])
  expect(work.waiting).toBe(0)
})

it('a turn that has left enough is followed by one with all entries', async () => {
  const work = new WorkTurns(8)
  work.spend(5)
  expect(work.left).toBe(3)
  await turns(2)
  expect(work.left).toBe(8)
})

it('what is cancelled is not called', async () => {
  const work = new WorkTurns(1)
  let called = 0
  const goOn = () => called++
  work.wait('ann', goOn)
  expect(work.cancel('ann', goOn)).toBe(true)
  expect(work.cancel('ann', goOn)).toBe(false)
  await turns(2 * workDefaults.turns)
  expect(called).toBe(0)
})
