import type { ApiError } from '@setpoint/controller-runtime/api'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { BodyMemory } from './body-memory.ts'

/** Begins a body of an identity. `refused` is its error. */
function begin(memory: BodyMemory, identity: string) {
  const refused: ApiError[] = []
  const body = memory.begin(identity, why => refused.push(why))
  return { refused, add: (bytes: number) => memory.add(body, bytes), body }
}

describe('a body', () => {
  it('counts with the bytes that have arrived, until its request ends', () => {
    const memory = new BodyMemory({ bytes: 100, bytesPerIdentity: 100 })
    const { add, body } = begin(memory, 'ann')
    expect(memory.bytes).toBe(0)
    add(10)
    add(20)
    memory.complete(body)
    expect(memory.bytes).toBe(30)
    memory.release(body)
    memory.release(body)
    expect(memory.bytes).toBe(0)
  })

  it('is refused with 429 past the bound of its identity, and its memory is free at once', () => {
    const memory = new BodyMemory({ bytes: 1_000, bytesPerIdentity: 100 })
    const { add, refused } = begin(memory, 'ann')
    add(101)
    expect(refused).toEqual([
      expect.objectContaining({
        code: 429,
        message: 'too many bytes of request bodies: those of "ann" hold 101',
        details: expect.objectContaining({ retryAfterSeconds: 1 }),
      }),
    ])
    expect(memory.bytes).toBe(0)
    add(50)
    expect(memory.bytes).toBe(0)
  })
})

describe('past a bound', () => {
  it('bodies without progress for the longest time are refused, until the rest fits', () => {
    const memory = new BodyMemory({ bytes: 1_000, bytesPerIdentity: 100 })
    const slow = begin(memory, 'ann')
    const stalled = [begin(memory, 'ann'), begin(memory, 'ann')]
    const other = begin(memory, 'ben')
    for (const each of [slow, ...stalled, other]) each.add(20)
    slow.add(20)
    const fast = begin(memory, 'ann')
    fast.add(50)
    expect(stalled.map(({ refused }) => refused.length)).toEqual([1, 1])
    expect([slow, fast, other].flatMap(({ refused }) => refused)).toEqual([])
    expect(memory.bytes).toBe(110)
  })

  it('a body is refused itself if all others of its identity are complete', () => {
    const memory = new BodyMemory({ bytes: 1_000, bytesPerIdentity: 100 })
    const complete = begin(memory, 'ann')
    complete.add(90)
    memory.complete(complete.body)
    const late = begin(memory, 'ann')
    late.add(20)
    expect(late.refused).toHaveLength(1)
    expect(complete.refused).toEqual([])
    expect(memory.bytes).toBe(90)
  })

  it('of all bodies, those of the identity with the most bytes are refused', () => {
    const memory = new BodyMemory({ bytes: 100, bytesPerIdentity: 80 })
    const large = begin(memory, 'ann')
    large.add(70)
    const small = begin(memory, 'ben')
    small.add(31)
    expect(large.refused).toHaveLength(1)
    expect(small.refused).toEqual([])
    expect(memory.bytes).toBe(31)
  })
})

it('no bound is exceeded, and nothing stays behind', () => {
  const step = fc.record({
    body: fc.nat({ max: 9 }),
    act: fc.constantFrom('add', 'complete', 'release'),
    bytes: fc.integer({ min: 0, max: 40 }),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), steps => {
      const memory = new BodyMemory({ bytes: 150, bytesPerIdentity: 60 })
      const bodies = Array.from({ length: 10 }, (_, n) => begin(memory, `${n % 4}`))
      const ended = new Set<number>()
      for (const { body: n, act, bytes } of steps) {
        const one = bodies[n]
        if (one === undefined) continue
        if (act === 'add' && !ended.has(n)) one.add(bytes)
        else if (act !== 'add') {
          ended.add(n)
          if (act === 'complete') memory.complete(one.body)
          else memory.release(one.body)
        }
        const held = bodies.map(({ body }) => (body.isReleased ? 0 : body.bytes))
        expect(memory.bytes).toBe(held.reduce((sum, each) => sum + each, 0))
        expect(memory.bytes).toBeLessThanOrEqual(150)
        for (let who = 0; who < 4; who++) {
          const own = held.filter((_, at) => at % 4 === who).reduce((sum, each) => sum + each, 0)
          expect(own).toBeLessThanOrEqual(60)
        }
      }
      for (const { body } of bodies) memory.release(body)
      expect(memory.bytes).toBe(0)
    }),
  )
})
