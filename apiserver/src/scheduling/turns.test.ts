import { FakeClock } from '@setpoint/controller-runtime/testing'
import { describe, expect, it } from 'vitest'
import { Turns } from './turns.ts'

/** Records which work runs in which turn of the event loop. */
class Recorder {
  readonly turns = new Turns()
  readonly ran: { name: string; turn: number }[] = []
  #turn = 0

  add(caller: string, count: number): (() => void)[] {
    return Array.from({ length: count }, (_, n) => {
      const work = () => void this.ran.push({ name: `${caller}${n}`, turn: this.#turn })
      this.turns.wait(caller, work)
      return work
    })
  }

  async pass(turns: number): Promise<void> {
    for (let n = 0; n < turns; n++) {
      await new Promise(setImmediate)
      this.#turn++
    }
  }

  get names(): string[] {
    return this.ran.map(({ name }) => name)
  }
}

describe('waiting work', () => {
  it('runs one piece in each turn of the event loop', async () => {
    const recorder = new Recorder()
    recorder.add('a', 5)
    expect(recorder.names).toEqual([])
    await recorder.pass(6)
    expect(recorder.names).toEqual(['a0', 'a1', 'a2', 'a3', 'a4'])
    expect(new Set(recorder.ran.map(({ turn }) => turn)).size).toBe(5)
  })

  it('of a caller does not wait behind the flood of another', async () => {
    const recorder = new Recorder()
    recorder.add('a', 4)
    recorder.add('b', 1)
    await recorder.pass(6)
    expect(recorder.names).toEqual(['a0', 'b0', 'a1', 'a2', 'a3'])
  })

  it('does not run once it is cancelled', async () => {
    const recorder = new Recorder()
    const [first] = recorder.add('a', 2)
    if (first !== undefined) recorder.turns.cancel('a', first)
    expect(recorder.turns.sizeOf('a')).toBe(1)
    await recorder.pass(2)
    expect(recorder.names).toEqual(['a1'])
  })
})

describe('work with a pace', () => {
  it('pauses after a burst of turns', async () => {
    const clock = new FakeClock()
    clock.advanceSync(100)
    const turns = new Turns({ burstMs: 2, pauseMs: 6 }, clock)
    const ran: number[] = []
    for (let n = 0; n < 4; n++)
      turns.wait('a', () => {
        ran.push(n)
        clock.advanceSync(1)
      })
    const pass = async () => {
      for (let n = 0; n < 5; n++) await new Promise(setImmediate)
    }
    await pass()
    expect(ran).toEqual([0, 1, 2])
    clock.advanceSync(4)
    await pass()
    expect(ran).toEqual([0, 1, 2])
    clock.advanceSync(1)
    await pass()
    expect(ran).toEqual([0, 1, 2, 3])
  })
})
