import fc from 'fast-check'
import { expect, it } from 'vitest'
import { ClassQueue, type QueuedRequest } from './class-queue.ts'

const limit = 12

/** A queue, and a list of the requests that should be in it. */
class World {
  readonly queue = new ClassQueue('reads', limit)
  waiting: readonly QueuedRequest[] = []
  #refused: QueuedRequest | undefined

  /** Returns the request that is refused in favour of this one, or this one. */
  push(identity: string, connection: string): QueuedRequest | undefined {
    const request: QueuedRequest = {
      identity,
      connection: connections[identity + connection],
      arrivedAt: 0,
      hasLeft: () => false,
      admitted: () => {},
      refused: () => {
        this.#refused = request
      },
    }
    this.#refused = undefined
    try {
      this.queue.push(request)
    } catch {
      this.#refused = request
    }
    this.waiting = [...this.waiting, request].filter(each => each !== this.#refused)
    return this.#refused
  }

  take(): QueuedRequest | undefined {
    const taken = this.queue.take()
    this.waiting = this.waiting.filter(each => each !== taken)
    return taken
  }
}

const identities = ['a', 'b', 'c', 'd', 'e']
const connections: Readonly<Record<string, object>> = Object.fromEntries(
  identities.flatMap(identity => ['1', '2', '3'].map(number => [identity + number, {}])),
)

function countBy(requests: readonly QueuedRequest[], key: 'identity' | 'connection'): Map<unknown, number> {
  const counts = new Map<unknown, number>()
  for (const request of requests) counts.set(request[key], (counts.get(request[key]) ?? 0) + 1)
  return counts
}

it('refuses a request only for an identity and a connection with an equal share of the queue', () => {
  const step = fc.record({
    // Most steps are a flood of one connection.
    identity: fc.constantFrom(...identities, 'a', 'a', 'a'),
    connection: fc.constantFrom('1', '2', '3', '1', '1'),
    takes: fc.nat({ max: 5 }).map(n => n === 0),
  })
  fc.assert(
    fc.property(fc.array(step, { minLength: 20, maxLength: 60 }), steps => {
      const world = new World()
      for (const { identity, connection, takes } of steps) {
        const before = world.waiting
        const refused = world.push(identity, connection)
        expect(world.queue.waiting).toBe(world.waiting.length)
        if (before.length < limit) expect(refused).toBeUndefined()
        else {
          const all = [...before, ...world.waiting.filter(each => !before.includes(each))]
          if (refused !== undefined && !all.includes(refused)) all.push(refused)
          expect(all).toHaveLength(limit + 1)
          const ofIdentity = all.filter(each => each.identity === refused?.identity)
          const ofConnection = ofIdentity.filter(each => each.connection === refused?.connection)
          expect(ofIdentity.length).toBeGreaterThanOrEqual(all.length / countBy(all, 'identity').size)
          const connections = countBy(ofIdentity, 'connection').size
          expect(ofConnection.length).toBeGreaterThanOrEqual(ofIdentity.length / connections)
        }
        if (takes) world.take()
      }
      while (world.waiting.length > 0) expect(world.take()).toBeDefined()
      expect([world.queue.waiting, world.take()]).toEqual([0, undefined])
    }),
  )
})

it('accepts an identity below its share when others have filled the queue', () => {
  const world = new World()
  for (let n = 0; n < limit; n++) world.push(n % 2 === 0 ? 'a' : 'b', '1')
  for (let n = 0; n < limit / 3; n++) expect(world.push('c', '1')?.identity).not.toBe('c')
  expect(world.push('c', '1')?.identity).toBe('c')
  expect(Object.fromEntries(countBy(world.waiting, 'identity'))).toEqual({ a: 4, b: 4, c: 4 })
})
