import { expect, test } from 'vitest'
import { Pipe } from './pipe.ts'
import { Scheduler } from './scheduler.ts'
import { seededRandom } from './seeded-random.ts'

test('the events of a paused node happen afterwards, in their order', async () => {
  const scheduler = new Scheduler(7)
  const node = scheduler.node('a')
  const other = scheduler.node('b')
  const seen: (number | string)[] = []
  for (let n = 0; n < 100; n++) scheduler.schedule(node, n / 10, () => seen.push(n))
  scheduler.schedule(other, 5, () => seen.push('other'))
  node.pausedUntil = 20
  await scheduler.advanceTo(30)
  expect(seen).toEqual(['other', ...Array.from({ length: 100 }, (_, n) => n)])
})

test('the events of a paused node keep their order when the pause gets longer', async () => {
  const scheduler = new Scheduler(7)
  const node = scheduler.node('a')
  const seen: string[] = []
  scheduler.schedule(node, 15, () => seen.push('second'))
  scheduler.schedule(node, 12, () => seen.push('first'))
  node.pausedUntil = 20
  await scheduler.advanceTo(14)
  node.pausedUntil = 30
  await scheduler.advanceTo(40)
  expect(seen).toEqual(['first', 'second'])
})

test('nodes take turns by chance at the same time', async () => {
  const firstOf = async (seed: number) => {
    const scheduler = new Scheduler(seed)
    const seen: string[] = []
    for (const name of ['a', 'b']) scheduler.schedule(scheduler.node(name), 1, () => seen.push(name))
    await scheduler.advanceTo(1)
    return seen[0]
  }
  const firsts = new Set<string | undefined>()
  for (let seed = 0; seed < 20; seed++) firsts.add(await firstOf(seed))
  expect(firsts).toEqual(new Set(['a', 'b']))
})

test('a dead node does nothing more, and what it has begun stays open', async () => {
  const scheduler = new Scheduler(1)
  const node = scheduler.node('a')
  let isOver = false
  const work = async () => {
    await new Promise<void>(resolve => scheduler.schedule(node, 10, resolve))
    isOver = true
  }
  void work()
  await scheduler.advanceTo(5)
  node.die()
  await scheduler.advanceTo(100)
  expect(isOver).toBe(false)
})

test('bytes arrive once and in order, whatever their delays', async () => {
  for (let seed = 0; seed < 20; seed++) {
    const scheduler = new Scheduler(seed)
    const random = seededRandom(seed)
    const from = scheduler.node('from')
    const arrived: Buffer[] = []
    const to = {
      node: scheduler.node('to'),
      arrive: (bytes: Buffer) => arrived.push(bytes) > 0,
      finish: () => arrived.push(Buffer.from('.')),
      break() {},
    }
    // Nothing passes for a while, then much arrives at once.
    const heldUntil = random.next() * 100
    const route = { latency: () => Math.max(random.next() * 5, heldUntil - scheduler.now) }
    const pipe = new Pipe({ scheduler, random, route, from, to })
    const sent = Array.from({ length: 200 }, (_, n) => Buffer.from(`${n},`))
    for (const bytes of sent) {
      pipe.send(bytes, () => {})
      await scheduler.advanceTo(scheduler.now + random.next())
    }
    pipe.finish()
    await scheduler.advanceTo(scheduler.now + 10)
    expect(Buffer.concat(arrived).toString()).toBe(`${Buffer.concat(sent)}.`)
  }
})
