import { setImmediate as turn } from 'node:timers/promises'
import { FakeClock } from '@setpoint/controller-runtime/testing'
import { describe, expect, it } from 'vitest'
import { MessagePace, messagePaceDefaults } from './message-pace.ts'

const { turnMs, pauseMs, bytesPerMs, messagesPerTurn, waitingPerCaller } = messagePaceDefaults

/** A pace on a clock that only messages and pauses advance. Records the order of messages. */
class World {
  readonly clock = new FakeClock()
  readonly pace = new MessagePace(this.clock)
  readonly handled: string[] = []

  send(caller: string, { ms = 0, bytes = 0, name = caller } = {}): void {
    const handle = () => {
      this.handled.push(name)
      this.clock.advanceSync(ms)
    }
    if (this.pace.passes(bytes)) handle()
    else this.pace.wait(caller, bytes, handle)
  }

  flood(caller: string, count: number, options: { ms?: number; bytes?: number } = {}): void {
    for (let n = 0; n < count; n++) this.send(caller, options)
  }

  /** Lets one pause pass, and the turn after it. Returns the messages that it handles. */
  async nextTurn(): Promise<string[]> {
    const before = this.handled.length
    this.clock.advanceSync(pauseMs)
    // The messages run in the first turn, and the reset of the time in the second.
    for (let n = 0; n < 2; n++) await turn()
    return this.handled.slice(before)
  }
}

describe('messages', () => {
  it('pass at once while the turn of the event loop has time left', async () => {
    const { clock, pace } = new World()
    expect(Array.from({ length: 1_000 }, () => pace.passes(0))).not.toContain(false)
    clock.advanceSync(turnMs)
    expect(pace.passes(0)).toBe(false)
    await turn()
    expect(pace.passes(0)).toBe(true)
  })

  it('count by their bytes, too', async () => {
    const { pace } = new World()
    expect(pace.passes(turnMs * bytesPerMs)).toBe(true)
    expect(pace.passes(0)).toBe(false)
    await turn()
    expect(pace.passes(0)).toBe(true)
  })

  it('of all callers together take one bounded part of each turn', async () => {
    const world = new World()
    world.flood('ann', 20, { ms: turnMs / 2 })
    expect(world.handled).toHaveLength(2)
    expect(await world.nextTurn()).toHaveLength(2)
    expect(await world.nextTurn()).toHaveLength(2)
  })

  it('that waited are handled one after another, a bounded number in a turn', async () => {
    const world = new World()
    world.flood('ann', 1, { ms: turnMs })
    world.flood('ann', messagesPerTurn + 5)
    expect(await world.nextTurn()).toHaveLength(messagesPerTurn)
    expect(await world.nextTurn()).toHaveLength(5)
    world.flood('ann', 3)
    expect(world.handled).toHaveLength(messagesPerTurn + 9)
  })

  it('of a caller do not wait behind the flood of another, and keep their order', async () => {
    const world = new World()
    world.flood('flood', 500, { ms: turnMs / 2 })
    world.send('ann', { name: 'ann 1' })
    world.send('ann', { name: 'ann 2' })
    await world.nextTurn()
    await world.nextTurn()
    await world.nextTurn()
    expect(world.handled.filter(name => name.startsWith('ann'))).toEqual(['ann 1', 'ann 2'])
  })

  it('of one caller that wait are bounded, without effect on others', () => {
    const { pace, clock } = new World()
    pace.passes(0)
    clock.advanceSync(turnMs)
    for (let n = 0; n < waitingPerCaller; n++) {
      expect(pace.isFull('flood')).toBe(false)
      pace.wait('flood', 0, () => {})
    }
    expect(pace.isFull('flood')).toBe(true)
    expect(pace.isFull('ann')).toBe(false)
  })
})
