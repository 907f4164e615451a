import { type Clock, systemClock } from '@setpoint/controller-runtime'
import { ApiError, type ApiObject } from '@setpoint/controller-runtime/api'
import { FakeClock } from '@setpoint/controller-runtime/testing'
import { describe, expect, it } from 'vitest'
import { bound, hold, openRooms, type Rooms, thing } from '../../../test/support/rooms.ts'
import type { Storage } from '../storage/index.ts'
import { Registry } from './registry.ts'
import { reservationKey } from './unique-index.ts'
import { attemptDefaults } from './write-attempts.ts'
import { defaultWriteOptions as options, type WriteResult } from './write-options.ts'

const parse = ({ bytes }: WriteResult): ApiObject => JSON.parse(bytes.toString())

async function live({ registry, served }: Rooms): Promise<ApiObject | undefined> {
  const found = await registry.readLive(served, 'a')
  return found && JSON.parse(found.bytes.toString())
}

/** Returns a patch that sets one label of its own. */
function label(name: string) {
  return { type: 'merge', document: { metadata: { labels: { [`x.com/${name}`]: 'set' } } } } as const
}

/**
 * Returns the registry of another server on the store of the rooms. Each of its transactions comes after a call of
 * `rival`.
 */
function behind({ storage }: Rooms, rival: () => Promise<unknown>, clock: Clock = systemClock): Registry {
  const late: Storage = {
    ...bound(storage),
    async transact(...args) {
      await rival()
      return storage.transact(...args)
    },
  }
  return new Registry({ storage: late, reservedDomain: 'setpoint.dev', clock })
}

/** Lets a single write wait no longer than it has to. */
async function withoutWaiting<T>(clock: FakeClock, write: Promise<T>): Promise<T> {
  let isComplete = false
  const complete = write.finally(() => {
    isComplete = true
  })
  complete.catch(() => {})
  while (!isComplete) await clock.advance(clock.nextTimerInMs ?? 0)
  return complete
}

/** Changes the object before each of so many transactions. */
function rivalOf({ registry, served }: Rooms, times = Infinity): () => Promise<unknown> {
  let count = 0
  return async () => {
    if (count++ < times)
      await registry.patch(
        served,
        'a',
        { type: 'merge', document: { spec: { n: count % 100 } } },
        'object',
        options,
      )
  }
}

/**
 * Returns another server. Its first write loses twice, takes the turn, and then waits in its transaction for `release`.
 */
function holdingTurn(rooms: Rooms) {
  const rival = rivalOf(rooms, 2)
  const { held, release } = hold()
  const { held: reached, release: reach } = hold()
  let transactions = 0
  const registry = behind(rooms, async () => {
    await rival()
    if (++transactions !== 3) return
    reach()
    await held
  })
  return { registry, reached, release }
}

describe('a write without a version', () => {
  const document = {
    ...thing('a', { email: 'x' }, { labels: { 'x.com/mine': 'set' } }),
    status: { phase: 'up' },
  }
  const labelled = { metadata: { labels: { 'x.com/mine': 'set' } } }

  it.each<[string, (registry: Registry, rooms: Rooms) => Promise<WriteResult>, object | undefined]>([
    ['replace', (to, { served }) => to.replace(served, 'a', document, 'object', options), labelled],
    ['patch', (to, { served }) => to.patch(served, 'a', label('mine'), 'object', options), labelled],
    [
      'write of the status',
      (to, { served }) => to.replace(served, 'a', document, 'status', options),
      { status: { phase: 'up' } },
    ],
    [
      'apply',
      (to, { served }) => {
        const { status: _, ...config } = document
        return to.apply(served, 'a', { document: config, force: true }, 'object', options)
      },
      labelled,
    ],
    ['deletion', (to, { served }) => to.delete(served, 'a', {}, options), undefined],
  ])('is stored although another server comes first sixty times: %s', async (_, write, expected) => {
    await using rooms = await openRooms()
    await rooms.registry.create(rooms.served, thing('a'), options)
    const clock = new FakeClock()
    await withoutWaiting(clock, write(behind(rooms, rivalOf(rooms, 60), clock), rooms))
    if (expected === undefined) expect(await live(rooms)).toBeUndefined()
    else expect(await live(rooms)).toMatchObject(expected)
  })

  it('is refused with 429 when its time is over, and has changed nothing', async () => {
    await using rooms = await openRooms()
    const { served } = rooms
    await rooms.registry.create(served, thing('a'), options)
    let isAway = false
    const rival = rivalOf(rooms)
    const clock = new FakeClock()
    const registry = behind(
      rooms,
      async () => {
        if (isAway) return
        clock.stall(500)
        await rival()
      },
      clock,
    )
    const write = registry.patch(served, 'a', label('mine'), 'object', options)
    const refused = await withoutWaiting(clock, write).catch((error: unknown) => error)
    expect(refused).toMatchObject({ code: 429, details: { name: 'a', retryAfterSeconds: 1 } })
    expect(clock.monotonic()).toBeGreaterThanOrEqual(attemptDefaults.writeMs)
    expect(clock.monotonic()).toBeLessThan(attemptDefaults.writeMs + 1_000)
    expect((await live(rooms))?.metadata.labels).toBeUndefined()
    // Its turn has ended, too.
    isAway = true
    await registry.patch(served, 'a', label('next'), 'object', options)
    expect((await live(rooms))?.metadata.labels).toEqual({ 'x.com/next': 'set' })
  })

  it('is not refused because the same server has many of them at once', async () => {
    await using rooms = await openRooms()
    const { registry, served } = rooms
    await registry.create(served, thing('a'), options)
    const names = Array.from({ length: 120 }, (_, n) => `w${n}`)
    await Promise.all(names.map(name => registry.patch(served, 'a', label(name), 'object', options)))
    const labels = Object.keys((await live(rooms))?.metadata.labels ?? {})
    expect(new Set(labels)).toEqual(new Set(names.map(name => `x.com/${name}`)))
  })

  it('gets its turn in the order of arrival; a write with a version does not wait for it', async () => {
    await using rooms = await openRooms()
    const { served } = rooms
    const version = ({ metadata }: ApiObject) => Number(metadata.version)
    await rooms.registry.create(served, thing('a'), options)
    const { registry, reached, release } = holdingTurn(rooms)
    const first = registry.patch(served, 'a', label('first'), 'object', options)
    await reached
    const later = ['b', 'c', 'd'].map(name => registry.patch(served, 'a', label(name), 'object', options))
    const current = (await live(rooms))?.metadata.version
    const conditional = await registry.replace(
      served,
      'a',
      thing('a', { n: 7 }, { version: current }),
      'object',
      options,
    )
    release()
    const written = await Promise.all([first, ...later])
    const versions = [conditional, ...written].map(parse).map(version)
    expect(versions).toEqual(versions.toSorted((one, other) => one - other))
    expect((await live(rooms))?.spec).toEqual({ n: 7 })
  })

  it('ends when its caller leaves while it waits, and the others go on', async () => {
    await using rooms = await openRooms()
    const { served } = rooms
    await rooms.registry.create(served, thing('a'), options)
    const { registry, reached, release } = holdingTurn(rooms)
    const first = registry.patch(served, 'a', label('first'), 'object', options)
    await reached
    const caller = new AbortController()
    const whenGone = () => caller.signal
    const left = registry.patch(served, 'a', label('left'), 'object', { ...options, whenGone })
    const stays = registry.patch(served, 'a', label('stays'), 'object', options)
    const gone = new ApiError('Timeout', 'the client closed the connection')
    caller.abort(gone)
    await expect(left).rejects.toBe(gone)
    release()
    await Promise.all([first, stays])
    expect((await live(rooms))?.metadata.labels).toEqual({ 'x.com/first': 'set', 'x.com/stays': 'set' })
  })

  it('ends when its caller leaves while it is attempted again', async () => {
    await using rooms = await openRooms()
    const { served } = rooms
    await rooms.registry.create(served, thing('a'), options)
    const caller = new AbortController()
    const gone = new ApiError('Timeout', 'the client closed the connection')
    const rival = rivalOf(rooms)
    let lost = 0
    const clock = new FakeClock()
    const late = async () => {
      await rival()
      if (++lost === 10) caller.abort(gone)
    }
    const registry = behind(rooms, late, clock)
    const write = registry.patch(served, 'a', label('mine'), 'object', {
      ...options,
      whenGone: () => caller.signal,
    })
    await expect(withoutWaiting(clock, write)).rejects.toBe(gone)
    expect(lost).toBe(10)
    expect((await live(rooms))?.metadata.labels).toBeUndefined()
  })
})

it('an apply succeeds although its object is created and deleted again and again', async () => {
  await using rooms = await openRooms()
  const { served } = rooms
  let count = 0
  const clock = new FakeClock()
  const toggle = async () => {
    if (count++ >= 120) return
    if ((await live(rooms)) === undefined) await rooms.registry.create(served, thing('a'), options)
    else await rooms.registry.delete(served, 'a', {}, options)
  }
  const registry = behind(rooms, toggle, clock)
  const document = thing('a', { n: 1 })
  await withoutWaiting(clock, registry.apply(served, 'a', { document, force: false }, 'object', options))
  expect(count).toBeGreaterThan(120)
  expect((await live(rooms))?.spec).toEqual({ n: 1 })
})

it('a creation succeeds although the reservation of its unique value keeps changing', async () => {
  await using rooms = await openRooms()
  const { served } = rooms
  await rooms.registry.create(served, thing('other'), options)
  const key = reservationKey(served, 'spec.email', 'x', 'a')
  let count = 0
  const clock = new FakeClock()
  const reserve = async () => {
    if (count++ >= 60) return
    // Orphaned: no object has recorded it.
    const value = Buffer.from(JSON.stringify({ name: 'gone', uid: `u${count}`, value: 'x' }))
    await rooms.storage.transact({ compares: [], onSuccess: [{ type: 'put', key, value }] })
  }
  const registry = behind(rooms, reserve, clock)
  await withoutWaiting(clock, registry.create(served, thing('a', { email: 'x' }), options))
  expect((await live(rooms))?.spec).toEqual({ email: 'x' })
})
