import { setImmediate as turn } from 'node:timers/promises'
import { FakeClock } from '@setpoint/controller-runtime/testing'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { RequestClass } from './request-class.ts'
import { fairnessDefaults, type Party, RequestQueues } from './request-queues.ts'

const { turnMs, turns } = fairnessDefaults

function party(identity: string, requestClass: RequestClass = 'reads'): Party {
  return { class: requestClass, identity, kind: 'users' }
}

/** Queues on a clock that only the requests of a test advance. Records the order of service. */
class World {
  readonly clock = new FakeClock()
  readonly queues: RequestQueues
  readonly served: string[] = []

  /** @param waiting the requests of a class that may wait */
  constructor(waiting: number = fairnessDefaults.waiting) {
    this.queues = new RequestQueues({ clock: this.clock, waiting })
  }

  /** Uses up the present turn, so that all further requests wait. */
  spendTurn(): void {
    expect(this.queues.passes(party('first'))).toBe(true)
    this.clock.advanceSync(turnMs)
    expect(this.queues.passes(party('second'))).toBe(false)
  }

  /** A request that takes so many milliseconds when it is served. */
  async request(
    who: Party,
    { ms = 0, hasLeft = () => false }: { ms?: number; hasLeft?: () => boolean } = {},
  ): Promise<void> {
    if (!this.queues.passes(who)) await this.queues.wait(who, hasLeft)
    this.served.push(who.identity)
    this.clock.advanceSync(ms)
  }

  flood(who: Party, count: number, options: { ms?: number } = {}): void {
    for (let n = 0; n < count; n++) void this.request(who, options)
  }
}

describe('a request', () => {
  it('passes at once while its turn of the event loop has time left', async () => {
    const { queues, clock } = new World()
    const passed = Array.from({ length: 1_000 }, () => queues.passes(party('ann')))
    expect(new Set(passed)).toEqual(new Set([true]))
    clock.advanceSync(turnMs - 1)
    expect(queues.passes(party('ann'))).toBe(true)
    clock.advanceSync(1)
    expect(queues.passes(party('ann'))).toBe(false)
    await turn()
    expect(queues.passes(party('ann'))).toBe(true)
  })

  it('is served in some later turn, with turns between for new connections', async () => {
    const world = new World()
    world.spendTurn()
    world.flood(party('ann'), 12, { ms: turnMs / 4 })
    const servedBy: number[] = []
    while (world.served.length < 12) {
      await turn()
      servedBy.push(world.served.length)
    }
    // Four of these requests fill a turn.
    expect(new Set(servedBy)).toEqual(new Set([0, 4, 8, 12]))
    for (const count of [4, 8]) expect(servedBy.filter(each => each === count)).toHaveLength(turns + 1)
    await turn()
    expect(world.queues.passes(party('ann'))).toBe(true)
  })

  it('is served soon, although other work fills every turn', async () => {
    const world = new World()
    world.spendTurn()
    world.flood(party('ann'), 3)
    let passed = 0
    while (world.served.length < 3 && passed < turns) {
      await turn()
      world.clock.advanceSync(2 * turnMs)
      passed++
    }
    expect(world.served).toHaveLength(3)
    expect(passed).toBeLessThan(5)
  })

  it('waits behind those that wait already', async () => {
    const world = new World()
    world.spendTurn()
    void world.request(party('ann'))
    await turn()
    expect(world.queues.passes(party('ben'))).toBe(false)
  })
})

describe('identities', () => {
  it('take turns, whatever the number of their requests', async () => {
    const world = new World()
    world.spendTurn()
    world.flood(party('flood'), 1_000)
    world.flood(party('ann'), 2)
    world.flood(party('ben'), 1)
    await expect.poll(() => world.served.length).toBe(1_003)
    expect(world.served.slice(0, 6)).toEqual(['flood', 'ann', 'ben', 'flood', 'ann', 'flood'])
  })

  it('serve their connections in turns', async () => {
    const world = new World()
    world.spendTurn()
    const connections = { one: {}, two: {} }
    const at = (name: keyof typeof connections) => ({ ...party('ann'), connection: connections[name] })
    const served: string[] = []
    for (const name of ['one', 'one', 'one', 'one', 'two'] as const)
      void world.request(at(name)).then(() => served.push(name))
    await expect.poll(() => served).toEqual(['one', 'two', 'one', 'one', 'one'])
  })

  it('have equal shares of the processor, not of the requests', async () => {
    const world = new World()
    world.spendTurn()
    world.flood(party('dear'), 20, { ms: 10 })
    world.flood(party('cheap'), 100, { ms: 1 })
    await expect.poll(() => world.served.length).toBe(120)
    const whileBoth = world.served.slice(0, world.served.lastIndexOf('cheap') + 1)
    const dear = whileBoth.filter(each => each === 'dear').length
    expect(dear).toBeGreaterThanOrEqual(10)
    expect(dear).toBeLessThanOrEqual(11)
  })

  it('save up nothing while they are idle', async () => {
    const world = new World()
    world.spendTurn()
    world.flood(party('busy'), 40, { ms: 1 })
    while (world.served.length < 20) await turn()
    world.flood(party('late'), 10, { ms: 1 })
    await expect.poll(() => world.served.length).toBe(50)
    const first = world.served.indexOf('late')
    expect(
      world.served.slice(first, first + 10).filter(each => each === 'busy').length,
    ).toBeGreaterThanOrEqual(4)
  })

  it('in different classes have equal shares, too', async () => {
    const world = new World()
    world.spendTurn()
    for (let n = 0; n < 50; n++) world.flood(party(`lister-${n}`, 'lists'), 10, { ms: 1 })
    world.flood(party('renewal', 'leases'), 5, { ms: 1 })
    await expect.poll(() => world.served.length).toBe(505)
    expect(world.served.lastIndexOf('renewal')).toBeLessThan(11)
  })
})

describe('bounds', () => {
  const refusal = (message: RegExp) =>
    expect.objectContaining({
      code: 429,
      message: expect.stringMatching(message),
      details: expect.objectContaining({ retryAfterSeconds: 1 }),
    })

  it('refuse the identity with the most requests, and not the one that comes last', async () => {
    const world = new World(10)
    world.spendTurn()
    const flood = Array.from({ length: 10 }, () => world.request(party('flood')))
    const [first] = flood
    const expected = expect(first).rejects.toEqual(
      refusal(/^too many reads requests: 10 wait, 10 of "flood"$/),
    )
    const ann = world.request(party('ann'))
    await expect(world.request(party('flood'))).rejects.toEqual(
      refusal(/^too many reads requests: 10 wait, 9 of "flood"$/),
    )
    await expected
    await ann
  })

  it('of a class refuse requests of this class only', async () => {
    const world = new World(3)
    world.spendTurn()
    for (const each of ['a', 'b', 'c']) world.flood(party(each), 1)
    await expect(world.request(party('d'))).rejects.toEqual(
      refusal(/^too many reads requests: 3 wait, 0 of "d"$/),
    )
    await world.request(party('d', 'lists'))
    expect([...world.queues.tallies()].find(each => each.class === 'reads')?.tally.full).toBe(1)
  })

  it('of an identity refuse the connection with the most requests', async () => {
    const world = new World(100)
    world.spendTurn()
    const at = (connection: object) => ({ ...party('local'), connection })
    const outcomes: string[] = []
    const send = (name: string, connection: object) =>
      world.request(at(connection)).then(
        () => outcomes.push(`${name} served`),
        () => outcomes.push(`${name} refused`),
      )
    const noisy = [{}, {}]
    const sent = Array.from({ length: 200 }, (_, n) => send('noisy', noisy[n % 2] ?? {}))
    sent.push(send('calm', {}))
    await Promise.all(sent)
    expect(outcomes.filter(each => each === 'noisy served')).toHaveLength(99)
    expect(outcomes.filter(each => each === 'noisy refused')).toHaveLength(101)
    expect(outcomes).toContain('calm served')
    const [full] = [...world.queues.tallies()]
    expect(full?.tally).toEqual({ dispatched: 101, full: 101, late: 0, cancelled: 0, bodies: 0 })
  })

  it('of time refuse what has waited too long', async () => {
    const world = new World()
    world.spendTurn()
    const late = world.request(party('ann', 'writes'))
    const expected = expect(late).rejects.toEqual(
      refusal(/^too many writes requests: this one has waited for 15 s$/),
    )
    world.clock.advanceSync(14_000)
    expect(world.queues.waiting).toBe(1)
    world.clock.advanceSync(2_000)
    await expected
    expect(world.queues.waiting).toBe(0)
    expect(world.clock.pendingTimers).toBe(0)
  })
})

describe('a request whose client has left', () => {
  it('is not served', async () => {
    const world = new World()
    world.spendTurn()
    const left = world.request(party('ann'), { hasLeft: () => true })
    world.flood(party('ben'), 1)
    await expect(left).rejects.toMatchObject({ code: 504 })
    await expect.poll(() => world.served).toEqual(['ben'])
  })

  it('makes room soon', async () => {
    const world = new World(1)
    world.spendTurn()
    const left = expect(world.request(party('ann'), { hasLeft: () => true })).rejects.toThrow()
    world.clock.advanceSync(1_000)
    await left
    expect(world.queues.waiting).toBe(0)
    expect([...world.queues.tallies()].map(({ tally }) => tally.cancelled)).toEqual([1])
  })
})

it('every request is served once or refused, and nothing stays behind', async () => {
  const step = fc.record({
    who: fc.integer({ min: 0, max: 4 }),
    connection: fc.constantFrom({}, {}, undefined),
    class: fc.constantFrom<RequestClass>('reads', 'writes', 'lists'),
    ms: fc.integer({ min: 0, max: 6 }),
    leaves: fc.boolean(),
    pauses: fc.boolean(),
  })
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 60 }), async steps => {
      const world = new World(12)
      const outcomes = steps.map(({ who, connection, ms, ...each }) => {
        const leaving = { isGone: false }
        const by = { ...party(`${who}`, each.class), connection }
        const outcome = world
          .request(by, { ms, hasLeft: () => leaving.isGone })
          .catch((error: unknown) =>
            expect(error).toMatchObject({ code: expect.toSatisfy(code => code === 429 || code === 504) }),
          )
        return { outcome, leaving, ...each }
      })
      for (const { leaving, pauses, leaves } of outcomes) {
        if (pauses) await turn()
        if (leaves && pauses) leaving.isGone = true
      }
      await Promise.all(outcomes.map(({ outcome }) => outcome))
      for (const { waiting } of world.queues.loads()) expect(waiting).toBe(0)
      const counts = [...world.queues.tallies()].map(({ tally }) => tally)
      const counted = counts.map(
        ({ dispatched, full, late, cancelled }) => dispatched + full + late + cancelled,
      )
      expect(counted.reduce((sum, each) => sum + each, 0)).toBe(steps.length)
    }),
    { numRuns: 50 },
  )
})
