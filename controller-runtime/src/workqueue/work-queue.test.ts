import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { FakeClock } from '../testing/fake-clock.ts'
import { priorities, WorkQueue } from './work-queue.ts'

function setUp(options: ConstructorParameters<typeof WorkQueue>[0] = {}) {
  const clock = new FakeClock()
  return { clock, queue: new WorkQueue({ clock, ...options }) }
}

/** Takes the ready keys and marks each as done. */
async function drainReady(queue: WorkQueue): Promise<string[]> {
  const keys: string[] = []
  while (queue.depth > 0) {
    const item = await queue.get()
    if (item === undefined) break
    keys.push(item.key)
    queue.done(item.key)
  }
  return keys
}

async function take(queue: WorkQueue): Promise<string> {
  const item = await queue.get()
  if (item === undefined) throw new Error('the queue is shut down')
  return item.key
}

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

/** Bytes of the heap in use. */
function heapBytes(): number {
  collectGarbage()
  return process.memoryUsage().heapUsed
}

describe('one entry per key', () => {
  test('a key that is added several times is returned once', async () => {
    const { queue } = setUp()
    for (const key of ['a', 'b', 'a', 'a']) queue.add(key)
    expect(await drainReady(queue)).toEqual(['a', 'b'])
    expect(queue.depth).toBe(0)
  })

  test('a key added while it is processed is returned once more, after done', async () => {
    const { queue } = setUp()
    queue.add('a')
    await take(queue)
    queue.add('a')
    queue.add('a')
    let second: string | undefined
    const waiting = take(queue).then(key => {
      second = key
    })
    await new Promise(setImmediate)
    expect(second).toBeUndefined()
    queue.done('a')
    await waiting
    expect(second).toBe('a')
    queue.done('a')
    expect(queue.depth).toBe(0)
  })

  test('an add at the moment of done is not lost', async () => {
    const { queue } = setUp()
    queue.add('a')
    await take(queue)
    const waiting = take(queue)
    queue.done('a')
    queue.add('a')
    expect(await waiting).toBe('a')
  })

  test('done throws for a key that is not being processed', () => {
    const { queue } = setUp()
    queue.add('a')
    expect(() => queue.done('a')).toThrow(/not being processed/)
  })
})

describe('order', () => {
  test('is first in, first out within a priority, and higher priorities first', async () => {
    const { queue } = setUp()
    queue.add('old-1', { priority: priorities.initial })
    queue.add('old-2', { priority: priorities.initial })
    queue.add('live-1')
    queue.add('urgent', { priority: 5 })
    queue.add('live-2')
    expect(await drainReady(queue)).toEqual(['urgent', 'live-1', 'live-2', 'old-1', 'old-2'])
  })

  test('a live change raises an initial key to the end of the live ones', async () => {
    const { queue } = setUp()
    for (const key of ['a', 'b', 'c']) queue.add(key, { priority: priorities.initial })
    queue.add('d')
    queue.add('b')
    expect(await drainReady(queue)).toEqual(['d', 'b', 'a', 'c'])
  })

  test('an initial add does not lower a live key', async () => {
    const { queue } = setUp()
    queue.add('a')
    queue.add('b')
    queue.add('a', { priority: priorities.initial })
    expect(await drainReady(queue)).toEqual(['a', 'b'])
  })

  test('delayed keys of one priority are returned in the order of their times', async () => {
    const { clock, queue } = setUp()
    queue.addAfter('late', 20)
    queue.addAfter('early', 10)
    await clock.advance(30)
    expect(await drainReady(queue)).toEqual(['early', 'late'])
  })
})

describe('aging', () => {
  const ageing = { agedAfterMs: 1000, agedShare: 10 }

  /** Takes `count` keys while live changes keep coming, and returns them. */
  async function takeBesideFlood(queue: WorkQueue, count: number): Promise<string[]> {
    const taken: string[] = []
    for (let index = 0; index < count; index++) {
      queue.add(`live-${index}`)
      queue.add(`more-${index}`)
      const key = await take(queue)
      taken.push(key)
      queue.done(key)
    }
    return taken
  }

  test('low priority does not pass high priority before it has aged', async () => {
    const { clock, queue } = setUp({ ageing })
    queue.add('old', { priority: priorities.initial })
    await clock.advance(999)
    expect(await takeBesideFlood(queue, 500)).not.toContain('old')
  })

  test('an aged key of low priority gets its share, and no more', async () => {
    const { clock, queue } = setUp({ ageing })
    const old = Array.from({ length: 20 }, (_, index) => `old-${index}`)
    for (const key of old) queue.add(key, { priority: priorities.initial })
    await clock.advance(1000)
    const taken = await takeBesideFlood(queue, 200)
    expect(taken.filter(key => key.startsWith('old-'))).toEqual(old)
    for (let from = 0; from < taken.length; from += 10) {
      expect(taken.slice(from, from + 10).filter(key => key.startsWith('old-'))).toHaveLength(1)
    }
  })

  test('of several low priorities, the key that has waited longest is next', async () => {
    const { clock, queue } = setUp({ ageing })
    queue.add('lowest', { priority: -200 })
    await clock.advance(1)
    queue.add('low', { priority: -100 })
    await clock.advance(1000)
    const taken = await takeBesideFlood(queue, 20)
    expect(taken.indexOf('lowest')).toBeGreaterThan(-1)
    expect(taken.indexOf('low')).toBeGreaterThan(taken.indexOf('lowest'))
  })

  test('aging needs no timer', () => {
    const { clock, queue } = setUp({ ageing })
    for (let index = 0; index < 100; index++) queue.add(`old-${index}`, { priority: priorities.initial })
    expect(clock.pendingTimers).toBe(0)
  })
})

describe('overall rate', () => {
  const rate = { perSecond: 10, burst: 3 }

  test('is off by default: a thousand failing keys wait for their own back-off only', () => {
    const { queue } = setUp()
    for (let index = 0; index < 1000; index++) expect(queue.addRateLimited(`key-${index}`)).toBe(5)
  })

  test('lets a burst through; later keys go into debt, which is unbounded', () => {
    const { queue } = setUp({ rate })
    const delays = Array.from({ length: 8 }, (_, index) => queue.addRateLimited(`key-${index}`))
    expect(delays).toEqual([5, 5, 5, 100, 200, 300, 400, 500])
  })

  test('delays by whole milliseconds', async () => {
    const { clock, queue } = setUp({ rate: { perSecond: 7, burst: 1 } })
    await clock.advance(3)
    expect(Array.from({ length: 4 }, () => queue.addRateLimited('a'))).toEqual([5, 143, 286, 429])
  })

  test('pays off debt over time, and holds at most its burst', async () => {
    const { clock, queue } = setUp({ rate })
    for (let index = 0; index < 5; index++) queue.addRateLimited(`a-${index}`)
    await clock.advance(200)
    expect(queue.addRateLimited('b')).toBeCloseTo(100)
    await clock.advance(3_600_000)
    const delays = Array.from({ length: 4 }, (_, index) => queue.addRateLimited(`c-${index}`))
    expect(delays.slice(0, 3)).toEqual([5, 5, 5])
    expect(delays[3]).toBeCloseTo(100)
  })

  test('delays by the longer of rate and back-off, but never delays new changes', async () => {
    const { queue } = setUp({ rate: { perSecond: 10, burst: 1 } })
    for (let count = 0; count < 8; count++) queue.addRateLimited('a')
    expect(queue.addRateLimited('b')).toBe(800)
    queue.add('live')
    expect(await take(queue)).toBe('live')
  })

  test('rejects an invalid rate', () => {
    expect(() => setUp({ rate: { perSecond: 0, burst: 1 } })).toThrow(TypeError)
    expect(() => setUp({ rate: { perSecond: 1, burst: 0 } })).toThrow(TypeError)
  })
})

describe('the observer', () => {
  test('counts each key once, with the time until it is returned and the time until done', async () => {
    const heard: string[] = []
    const { clock, queue } = setUp({
      observer: {
        added: () => heard.push('added'),
        retried: () => heard.push('retried'),
        handedOut: waitedMs => heard.push(`waited ${waitedMs}`),
        done: workedMs => heard.push(`worked ${workedMs}`),
      },
    })
    queue.add('a')
    queue.add('a')
    await clock.advance(3)
    await take(queue)
    queue.add('a', { priority: priorities.initial })
    await clock.advance(4)
    expect([...queue.workingMs()]).toEqual([4])
    expect([...queue.depths()]).toEqual([[priorities.initial, 1]])
    queue.done('a')
    await take(queue)
    queue.done('a')
    queue.addAfter('b', 100)
    expect([...queue.depths()]).toEqual([])
    await clock.advance(110)
    await take(queue)
    expect(heard).toEqual([
      ...['added', 'waited 3', 'added', 'worked 4', 'waited 4', 'worked 0'],
      ...['retried', 'added', 'waited 10'],
    ])
  })

  test('the latest reason is returned with the key, unless it was for a later time', async () => {
    const { queue } = setUp()
    queue.add('a', { reason: 'added' })
    queue.add('a', { reason: 'updated' })
    queue.add('a')
    queue.addAfter('a', 100, { reason: 'retry' })
    expect(await queue.get()).toMatchObject({ key: 'a', reason: 'updated' })
  })
})

describe('whenBelow', () => {
  test('resolves as soon as fewer keys are ready, or the queue shuts down', async () => {
    const { queue } = setUp()
    for (const key of ['a', 'b', 'c']) queue.add(key)
    let room = false
    const waiting = queue.whenBelow(2).then(() => {
      room = true
    })
    await take(queue)
    await new Promise(setImmediate)
    expect(room).toBe(false)
    await take(queue)
    await waiting
    for (const key of ['d', 'e']) queue.add(key)
    const last = queue.whenBelow(1)
    queue.shutDown()
    await last
  })
})

describe('delays', () => {
  test('all keys wait on one timer', async () => {
    const { clock, queue } = setUp()
    for (let index = 0; index < 1000; index++) queue.addAfter(`key-${index}`, 1000 + index)
    expect(clock.pendingTimers).toBe(1)
    await clock.advance(999)
    expect(queue.depth).toBe(0)
    await clock.advance(1)
    expect(queue.depth).toBe(1)
    await clock.advance(1000)
    expect(queue.depth).toBe(1000)
    expect(clock.pendingTimers).toBe(0)
  })

  test('of two delays of one key the earlier applies', async () => {
    const { clock, queue } = setUp()
    queue.addAfter('a', 100)
    queue.addAfter('a', 10)
    queue.addAfter('a', 50)
    await clock.advance(10)
    expect(await drainReady(queue)).toEqual(['a'])
    await clock.advance(1000)
    expect(queue.depth).toBe(0)
  })

  test('an add makes a delayed key ready at once, and it does not return at its old time', async () => {
    const { clock, queue } = setUp()
    queue.addAfter('a', 100)
    queue.add('a')
    expect(await drainReady(queue)).toEqual(['a'])
    await clock.advance(1000)
    expect(queue.depth).toBe(0)
    expect(queue.delayed).toBe(0)
  })

  test('a key whose time comes while it is processed waits for done', async () => {
    const { clock, queue } = setUp()
    queue.add('a')
    await take(queue)
    queue.addAfter('a', 10)
    await clock.advance(10)
    let second = false
    const waiting = take(queue).then(() => {
      second = true
    })
    await clock.advance(10)
    expect(second).toBe(false)
    queue.done('a')
    await waiting
  })

  test('a delay of more than 2^31 ms is respected', async () => {
    const { clock, queue } = setUp()
    const delayMs = 2 ** 31 + 5000
    queue.addAfter('a', delayMs)
    await clock.advance(delayMs - 1)
    expect(queue.depth).toBe(0)
    await clock.advance(1)
    expect(queue.depth).toBe(1)
  })

  test('a jump of the wall clock has no effect', async () => {
    const { clock, queue } = setUp()
    queue.addAfter('a', 1000)
    clock.jump(-86_400_000)
    clock.jump(2 * 86_400_000)
    await clock.advance(999)
    expect(queue.depth).toBe(0)
    await clock.advance(1)
    expect(queue.depth).toBe(1)
  })
})

describe('back-off', () => {
  test('doubles from 5 ms to 1000 s per key, and forget resets it', () => {
    const { queue } = setUp()
    const delays = Array.from({ length: 20 }, () => queue.addRateLimited('a'))
    expect(delays.slice(0, 4)).toEqual([5, 10, 20, 40])
    expect(delays[17]).toBe(5 * 2 ** 17)
    expect(delays.slice(18)).toEqual([1_000_000, 1_000_000])
    expect(queue.addRateLimited('b')).toBe(5)
    expect(queue.failures('a')).toBe(20)
    queue.forget('a')
    expect(queue.failures('a')).toBe(0)
    expect(queue.addRateLimited('a')).toBe(5)
  })

  test('stays at its cap after any number of failures', () => {
    const { queue } = setUp()
    for (let count = 0; count < 3000; count++) queue.addRateLimited('a')
    expect(queue.addRateLimited('a')).toBe(1_000_000)
  })

  test('is at least what the server asked for', () => {
    const { queue } = setUp()
    expect(queue.addRateLimited('a', { atLeastMs: 7000 })).toBe(7000)
  })
})

describe('shutdown', () => {
  test('get returns undefined, and adds are ignored', async () => {
    const { clock, queue } = setUp()
    const waiting = [queue.get(), queue.get()]
    queue.addAfter('later', 10)
    queue.shutDown()
    expect(await Promise.all(waiting)).toEqual([undefined, undefined])
    queue.add('a')
    queue.addAfter('a', 5)
    queue.addRateLimited('a')
    await clock.advance(100)
    expect(queue.depth).toBe(0)
    expect(await queue.get()).toBeUndefined()
    expect(clock.pendingTimers).toBe(0)
  })

  test('drain waits for keys in process, returns no new ones, and ends at its timeout', async () => {
    const { clock, queue } = setUp()
    queue.add('a')
    queue.add('b')
    await take(queue)
    let drained: boolean | undefined
    const drain = queue.drain(1000).then(result => {
      drained = result
    })
    expect(await queue.get()).toBeUndefined()
    await clock.advance(500)
    expect(drained).toBeUndefined()
    queue.done('a')
    await drain
    expect(drained).toBe(true)

    const other = setUp()
    other.queue.add('a')
    await take(other.queue)
    const bounded = other.queue.drain(1000)
    await other.clock.advance(1000)
    expect(await bounded).toBe(false)
  })

  test('an aborted get takes no key', async () => {
    const { queue } = setUp()
    const abort = new AbortController()
    const waiting = queue.get(abort.signal)
    abort.abort(new Error('enough'))
    await expect(waiting).rejects.toThrow('enough')
    queue.add('a')
    expect(await take(queue)).toBe('a')
    await expect(queue.get(AbortSignal.abort(new Error('before')))).rejects.toThrow('before')
  })

  test('100,000 delayed keys need one timer, and leave the heap as it was', async () => {
    const { clock, queue } = setUp()
    const round = async () => {
      for (let index = 0; index < 100_000; index++) queue.addAfter(`key-${index}`, index % 1000)
      const timers = clock.pendingTimers
      const heldBytes = heapBytes()
      clock.advanceSync(1000)
      expect(queue.depth).toBe(100_000)
      await drainReady(queue)
      return { timers, heldBytes }
    }
    // The first round grows what stays: compiled code and hash tables.
    await round()
    const baseBytes = heapBytes()
    const { timers, heldBytes } = await round()
    expect(timers).toBe(1)
    expect([queue.depth, queue.delayed, queue.processing, clock.pendingTimers]).toEqual([0, 0, 0, 0])
    expect(heldBytes - baseBytes).toBeGreaterThan(5_000_000)
    expect(heapBytes() - baseBytes).toBeLessThan(500_000)
  })
})

/**
 * Compares the queue with a model of its guarantees. Workers are simulated: each command is an add, a passing of time,
 * a get or a done.
 */
describe('any sequence of calls', () => {
  interface Model {
    /** Key to the time from which it may be returned; no entry: not in the queue. */
    readonly due: Map<string, { readyAt: number; priority: number }>
    readonly handedOut: Set<string>
    now: number
  }

  const key = fc.constantFrom('a', 'b', 'c', 'd')
  const priority = fc.constantFrom(-100, 0, 7)
  const commands = fc.array(
    fc.oneof(
      fc.record({ call: fc.constant('add' as const), key, priority }),
      fc.record({
        call: fc.constant('addAfter' as const),
        key,
        priority,
        delayMs: fc.integer({ min: 0, max: 40 }),
      }),
      fc.record({ call: fc.constant('get' as const) }),
      fc.record({ call: fc.constant('done' as const), key }),
      fc.record({ call: fc.constant('pass' as const), ms: fc.integer({ min: 0, max: 25 }) }),
    ),
    { maxLength: 60 },
  )

  function add(model: Model, name: string, readyAt: number, atPriority: number) {
    const existing = model.due.get(name)
    model.due.set(name, {
      readyAt: Math.min(existing?.readyAt ?? Number.POSITIVE_INFINITY, readyAt),
      priority: Math.max(existing?.priority ?? Number.NEGATIVE_INFINITY, atPriority),
    })
  }

  function ready(model: Model) {
    return [...model.due].filter(([name, { readyAt }]) => readyAt <= model.now && !model.handedOut.has(name))
  }

  test('returns no key twice at once, loses no wake-up, and prefers the higher priority', async () => {
    await fc.assert(
      fc.asyncProperty(commands, async list => {
        const { clock, queue } = setUp()
        const model: Model = { due: new Map(), handedOut: new Set(), now: 0 }
        for (const command of list) {
          if (command.call === 'add') {
            queue.add(command.key, { priority: command.priority })
            add(model, command.key, model.now, command.priority)
          } else if (command.call === 'addAfter') {
            queue.addAfter(command.key, command.delayMs, { priority: command.priority })
            add(model, command.key, model.now + command.delayMs, command.priority)
          } else if (command.call === 'pass') {
            clock.advanceSync(command.ms)
            model.now += command.ms
          } else if (command.call === 'done') {
            if (model.handedOut.delete(command.key)) queue.done(command.key)
          } else {
            const candidates = ready(model)
            if (candidates.length === 0) continue
            const item = await queue.get()
            expect(item).toBeDefined()
            const taken = item?.key ?? ''
            expect(model.handedOut.has(taken)).toBe(false)
            const best = Math.max(...candidates.map(([, entry]) => entry.priority))
            expect(model.due.get(taken)?.priority).toBe(best)
            expect(item?.priority).toBe(best)
            model.due.delete(taken)
            model.handedOut.add(taken)
          }
          expect(queue.processing).toBe(model.handedOut.size)
          expect(queue.depth + queue.delayed).toBe(model.due.size)
        }
        // Every key added and not returned since comes in the end.
        for (const name of model.handedOut) queue.done(name)
        clock.advanceSync(1000)
        expect((await drainReady(queue)).sort()).toEqual([...model.due.keys()].sort())
      }),
      { numRuns: 500 },
    )
  })

  test('passes over no ready key for longer than aging allows', async () => {
    const ageing = { agedAfterMs: 20, agedShare: 3 }
    const flood = fc.array(
      fc.oneof(
        { weight: 5, arbitrary: fc.record({ call: fc.constant('add' as const), priority }) },
        { weight: 4, arbitrary: fc.record({ call: fc.constant('get' as const) }) },
        {
          weight: 1,
          arbitrary: fc.record({ call: fc.constant('pass' as const), ms: fc.integer({ max: 25, min: 0 }) }),
        },
      ),
      { maxLength: 300, size: 'max' },
    )
    await fc.assert(
      fc.asyncProperty(flood, async list => {
        const { clock, queue } = setUp({ ageing })
        /** For each ready key: since when, and how many others may still be returned after it has aged. */
        const waiting = new Map<string, { since: number; priority: number; left: number }>()
        let now = 0
        let count = 0
        const addKey = (at: number) => {
          // Distinct keys, so that no add raises one.
          // No two at the same time, since their order is unspecified.
          clock.advanceSync(0.001)
          now += 0.001
          const added = `key-${count++}`
          queue.add(added, { priority: at })
          waiting.set(added, { since: now, priority: at, left: ageing.agedShare * (waiting.size + 1) })
        }
        addKey(-100)
        for (const command of list) {
          if (command.call === 'pass') {
            clock.advanceSync(command.ms)
            now += command.ms
          } else if (command.call === 'add') {
            addKey(command.priority)
          } else {
            if (waiting.size === 0) continue
            const taken = await take(queue)
            const best = Math.max(...[...waiting.values()].map(({ priority }) => priority))
            const own = waiting.get(taken)
            expect(own).toBeDefined()
            if (own !== undefined && own.priority < best) expect(now - own.since).toBeGreaterThanOrEqual(20)
            waiting.delete(taken)
            queue.done(taken)
            for (const entry of waiting.values()) {
              if (now - entry.since >= ageing.agedAfterMs) expect(--entry.left).toBeGreaterThan(0)
            }
          }
        }
      }),
      { numRuns: 200 },
    )
  })

  test('workers with random pauses never hold a key twice, and a run follows every add', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.scheduler(),
        fc.array(key, { minLength: 1, maxLength: 30 }),
        async (scheduler, adds) => {
          const { queue } = setUp()
          const held = new Set<string>()
          const lastAdd = new Map<string, number>()
          const lastRun = new Map<string, number>()
          let tick = 0
          const worker = async () => {
            for (;;) {
              const item = await queue.get()
              if (item === undefined) return
              expect(held.has(item.key)).toBe(false)
              held.add(item.key)
              lastRun.set(item.key, tick++)
              await scheduler.schedule(Promise.resolve(), 'work')
              held.delete(item.key)
              queue.done(item.key)
            }
          }
          const workers = [worker(), worker(), worker()]
          const producer = async () => {
            for (const name of adds) {
              lastAdd.set(name, tick++)
              queue.add(name)
              await scheduler.schedule(Promise.resolve(), 'add')
            }
          }
          const produced = producer()
          await scheduler.waitIdle()
          await produced
          queue.shutDown()
          await Promise.all(workers)
          for (const [name, at] of lastAdd) expect(lastRun.get(name)).toBeGreaterThan(at)
        },
      ),
      { numRuns: 100 },
    )
  })
})
