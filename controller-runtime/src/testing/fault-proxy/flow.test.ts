import { Readable, Writable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { FakeClock } from '../fake-clock.ts'
import { passThrough } from './event-decoder.ts'
import { Flow, flowDefaults } from './flow.ts'

/** Turns of the event loop, enough for everything to happen. */
async function settle(turns = 100): Promise<void> {
  for (let turn = 0; turn < turns; turn++) await new Promise(resolve => setImmediate(resolve))
}

/** A source with far more data than the limit, and a sink that accepts a given number of chunks. */
function start(faults: { delayMs: number }) {
  const chunk = Buffer.alloc(16 * 1024)
  const state = { read: 0, written: 0, allowed: 0 }
  let taken = () => {}
  const source = new Readable({
    read() {
      if (state.read > 16 * flowDefaults.bufferBytes) return
      state.read += chunk.length
      setImmediate(() => this.push(chunk))
    },
  })
  const sink = new Writable({
    highWaterMark: 1,
    write(bytes: Buffer, _encoding, done) {
      state.written += bytes.length
      if (--state.allowed >= 0) done()
      else taken = done
    },
  })
  const clock = new FakeClock()
  const ended: string[] = []
  const flow = new Flow({
    source,
    sink,
    clock,
    decoder: passThrough,
    faults: { ...faults, truncation: undefined },
    held: false,
    onEnd: end => ended.push(end),
  })
  return { state, clock, flow, source, ended, take: () => taken() }
}

/** What the streams themselves buffer in addition. */
const streams = 256 * 1024

describe('a flow', () => {
  it('reads at most its limit ahead of a sink that accepts nothing, and continues when it does', async () => {
    const { state, take, flow } = start({ delayMs: 0 })
    await settle()
    expect(state.read).toBeLessThan(flowDefaults.bufferBytes + streams)
    const before = state.written
    state.allowed = 20
    take()
    await settle()
    expect(state.written).toBeGreaterThan(before + 10 * 16 * 1024)
    flow.stop()
  })

  it('reads at most its limit ahead of delayed bytes', async () => {
    const { state, clock } = start({ delayMs: 1_000 })
    await settle()
    expect(state.read).toBeLessThan(flowDefaults.bufferBytes + streams)
    expect([state.written, clock.pendingTimers]).toEqual([0, 1])
  })

  it('reads nothing while it is held', async () => {
    const { state, flow } = start({ delayMs: 0 })
    state.allowed = Number.POSITIVE_INFINITY
    await settle(2)
    flow.hold()
    await settle()
    const { read, written } = state
    await settle()
    expect(state).toMatchObject({ read, written })
    flow.release()
    await settle()
    expect(state.written).toBeGreaterThan(written)
    flow.hold()
  })
})
