import { afterEach, describe, expect, test } from 'vitest'
import { type Harness, settle, startHarness } from '../../../test/support/sdk/controller-harness.ts'
import { eventually } from '../../../test/support/sdk/eventually.ts'
import { Gadget } from '../../../test/support/sdk/sample-models.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { TerminalError } from './reconcile.ts'
import { type ReconcileReport, ResultFanOut } from './results.ts'

const harnesses: Harness[] = []
afterEach(async () => {
  for (const harness of harnesses.splice(0)) await harness.stop()
})

function report(object: string): ReconcileReport {
  return {
    object,
    outcome: 'success',
    attempt: 1,
    reconcileId: 'x',
    durationMs: 0,
    nextRunInMs: undefined,
    error: undefined,
  }
}

test('each run is reported with its outcome, duration and next run', async () => {
  const clock = new FakeClock()
  const errors = [new Error('not yet'), new TerminalError('never')]
  let run = 0
  const harness = startHarness(
    Gadget,
    c =>
      c.reconcile(async () => {
        run++
        if (run === 1) return
        if (run === 2) return { requeueAfterMs: 30_000 }
        throw errors[run - 3]
      }),
    { clock },
  )
  harnesses.push(harness)
  const results = harness.controller.results()
  await harness.client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
  const reports: ReconcileReport[] = []
  for await (const result of results) {
    reports.push(result)
    if (reports.length === 1) await harness.client.patch(Gadget, 'a', { spec: { size: 2 } })
    if (reports.length === 2) await clock.advance(30_000)
    if (reports.length === 3) await clock.advance(5)
    if (reports.length === 4) break
  }
  expect(new Set(reports.map(({ reconcileId }) => reconcileId)).size).toBe(4)
  expect(reports).toMatchObject([
    { object: 'a', outcome: 'success', attempt: 1, nextRunInMs: undefined, error: undefined },
    { object: 'a', outcome: 'success', attempt: 1, nextRunInMs: 30_000 },
    { object: 'a', outcome: 'error', attempt: 1, nextRunInMs: 5, error: errors[0] },
    { object: 'a', outcome: 'terminalError', attempt: 2, nextRunInMs: undefined, error: errors[1] },
  ])
})

test('the stream ends with the controller', async () => {
  const harness = startHarness(Gadget, c => c.reconcile(async () => {}))
  const reading = (async () => {
    const objects: string[] = []
    for await (const { object } of harness.controller.results()) objects.push(object)
    return objects
  })()
  await harness.client.create(Gadget, { metadata: { name: 'a' }, spec: { size: 1 } })
  await eventually(() => harness.controller.counts.succeeded === 1)
  await harness.stop()
  expect(await reading).toEqual(['a'])
  expect((await harness.controller.results().next()).done).toBe(true)
})

test('an idle reader blocks nothing', async () => {
  const harness = startHarness(Gadget, c => c.reconcile(async () => {}))
  harnesses.push(harness)
  const idle = harness.controller.results(3)
  for (let index = 0; index < 10; index++) {
    await harness.client.create(Gadget, { metadata: { name: `g${index}` }, spec: { size: 1 } })
  }
  await eventually(() => harness.controller.counts.succeeded === 10)
  await settle()
  expect(idle.dropped).toBe(7)
})

describe('a reader', () => {
  test('that is slow loses the oldest reports, and is told how many', async () => {
    const fanOut = new ResultFanOut()
    const [slow, other] = [fanOut.open(2), fanOut.open(10)]
    for (const name of ['a', 'b', 'c', 'd']) fanOut.push(report(name))
    fanOut.end()
    const read = async (results: typeof slow) => {
      const names: string[] = []
      for await (const { object } of results) names.push(object)
      return names
    }
    expect(await read(slow)).toEqual(['c', 'd'])
    expect(slow.dropped).toBe(2)
    expect(await read(other)).toEqual(['a', 'b', 'c', 'd'])
    expect(other.dropped).toBe(0)
  })

  test('that leaves the iteration costs nothing any more', async () => {
    const fanOut = new ResultFanOut()
    const reader = fanOut.open(10)
    fanOut.push(report('a'))
    for await (const _report of reader) break
    expect(fanOut.hasReaders).toBe(false)
    expect((await reader.next()).done).toBe(true)
  })
})
