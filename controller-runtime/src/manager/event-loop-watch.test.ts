import { expect, test } from 'vitest'
import { measureEventLoopDelay } from './event-loop-watch.ts'

const turn = (ms: number) => new Promise(resolve => setTimeout(resolve, ms))
const block = (ms: number) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)

test('a delay is told, also one at whose end it is looked before the sample is taken', async () => {
  const meter = measureEventLoopDelay()
  try {
    await turn(200)
    block(400)
    // In the same turn: the sample of this delay comes later.
    const before = meter.takeMaxMs()
    await turn(200)
    const after = meter.takeMaxMs()
    expect(Math.max(before, after)).toBeGreaterThanOrEqual(300)
  } finally {
    meter.stop()
  }
})
