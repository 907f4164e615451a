import { describe, expect, it } from 'vitest'
import { Semaphore } from './semaphore.ts'

const limits = {
  holders: 3,
  holdersPerCaller: 2,
  weight: 10,
  weightPerCaller: 6,
  waiting: 4,
  waitingPerCaller: 3,
}

function open() {
  const semaphore = new Semaphore('lists', limits)
  const held: string[] = []
  const releases = new Map<string, () => void>()
  const ask = (name: string, weight: number, signal?: AbortSignal) =>
    semaphore.acquire(weight, { caller: name.slice(0, 1), signal }).then(release => {
      held.push(name)
      releases.set(name, release)
    })
  const release = async (name: string) => {
    releases.get(name)?.()
    await new Promise(setImmediate)
  }
  return { semaphore, held, ask, release }
}

describe('a semaphore', () => {
  it('bounds the holders of each caller and in all, and serves callers round-robin', async () => {
    const { held, ask, release } = open()
    for (const name of ['a1', 'a2', 'a3', 'a4', 'b1', 'b2']) void ask(name, 1)
    await new Promise(setImmediate)
    expect(held).toEqual(['a1', 'a2', 'b1'])
    await release('a1')
    await release('a1')
    expect(held.slice(3)).toEqual(['a3'])
    await release('a3')
    await release('a2')
    expect(held.slice(4)).toEqual(['b2', 'a4'])
  })

  it('bounds the weight; a request past the bound is admitted alone and not overtaken by other callers', async () => {
    const { semaphore, held, ask, release } = open()
    for (const [name, weight] of [
      ['a1', 5],
      ['b1', 50],
      ['c1', 1],
    ] as const)
      void ask(name, weight)
    await new Promise(setImmediate)
    expect(held).toEqual(['a1'])
    await release('a1')
    expect(held).toEqual(['a1', 'b1'])
    await release('b1')
    expect(held).toEqual(['a1', 'b1', 'c1'])
    await release('c1')
    expect(semaphore.weight).toBe(0)
  })

  it('rejects a request with 429 if too many wait, of one caller or in all', async () => {
    const { ask } = open()
    for (const name of ['a1', 'b1', 'c1', 'a2', 'a3', 'a4']) void ask(name, 1)
    await expect(ask('a5', 1)).rejects.toMatchObject({
      code: 429,
      message: expect.stringContaining(' of a '),
      details: { retryAfterSeconds: 1 },
    })
    void ask('b2', 1)
    await expect(ask('c2', 1)).rejects.toMatchObject({ code: 429 })
  })

  it('skips a waiting request that was aborted', async () => {
    const { semaphore, held, ask, release } = open()
    const gone = new AbortController()
    void ask('a1', 10)
    const waiting = ask('b1', 5, gone.signal)
    void ask('c1', 1)
    gone.abort(new Error('gone'))
    await expect(waiting).rejects.toThrow('gone')
    expect(semaphore.waiting).toBe(1)
    await release('a1')
    expect(held).toEqual(['a1', 'c1'])
  })
})
