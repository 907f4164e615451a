import { expect, test } from 'vitest'
import { measureEventLoopDelay } from './event-loop-watch.ts'

const turn = (ms: number) => new Promise(resolve => setTimeout(resolve, ms))
const block = (ms: number) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)

test('reports a delay, also if it ends right before the measurement', async () => {
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
