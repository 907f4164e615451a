import { FakeClock } from '@setpoint/controller-runtime/testing'
import { expect, it } from 'vitest'
import { testModel } from '../../../test/support/rooms.ts'
import { ServedModel } from '../model/index.ts'
import { attemptDefaults, Contention } from './write-attempts.ts'

const served = new ServedModel(testModel)

it('turns that follow each other leave pauses in which another server can write', async () => {
  const clock = new FakeClock()
  const contention = new Contention(clock, () => 0.5)
  const writeMs = 10
  const begunAt: number[] = []
  const writes = Array.from({ length: 100 }, async () => {
    const write = contention.begin(served, 'a', {})
    await write.again()
    begunAt.push(clock.monotonic())
    clock.stall(writeMs)
    write.end()
  })
  while (contention.turns.isHeld(served.keyOf('a'))) await clock.advance(clock.nextTimerInMs ?? 0)
  await Promise.all(writes)
  const pauses = begunAt.slice(1).filter((at, n) => at > (begunAt[n] ?? 0) + writeMs)
  expect(pauses.length).toBeGreaterThanOrEqual((100 * writeMs) / attemptDefaults.streakMs - 2)
})

it('a write that finds too many others waiting is refused at once', async () => {
  const contention = new Contention(new FakeClock())
  const first = contention.begin(served, 'a', {})
  await first.again()
  const waiting = Array.from({ length: attemptDefaults.waiting }, () =>
    contention.begin(served, 'a', {}).again(),
  )
  await expect(contention.begin(served, 'a', {}).again()).rejects.toMatchObject({ code: 429 })
  // An object that nobody else writes is not concerned.
  await contention.begin(served, 'b', {}).again()
  expect(waiting).toHaveLength(attemptDefaults.waiting)
})
