import { monitorEventLoopDelay } from 'node:perf_hooks'
import { expect, test } from 'vitest'
import { measureEventLoopDelay } from './event-loop-watch.ts'

const block = (ms: number) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)

test('reports a delay, also if it ends right before the measurement', async () => {
  const meter = measureEventLoopDelay()
  // Samples in the same turns, shortly after the meter.
  const samples = monitorEventLoopDelay({ resolution: 50 })
  samples.enable()
  const nextSample = async () => {
    const { count } = samples
    await expect.poll(() => samples.count).toBeGreaterThan(count)
  }
  try {
    await nextSample()
    block(400)
    // In the same turn: the sample of this delay comes later.
    const before = meter.takeMaxMs()
    await nextSample()
    const after = meter.takeMaxMs()
    expect(Math.max(before, after)).toBeGreaterThanOrEqual(300)
  } finally {
    meter.stop()
    samples.disable()
  }
})
