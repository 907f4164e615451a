import { exec } from 'node:child_process'
import { randomBytes, randomUUID, scrypt } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { gzip } from 'node:zlib'
import { expect, test } from 'vitest'
import { GuardError } from './guard.ts'
import { openWorld } from './open-world.ts'
import { call, creation, widgetModel } from './sample.ts'

/** Runs code in a server of a world, and returns what happened as a digest. */
async function runInside(code: () => void, seed = 1): Promise<string> {
  await using world = await openWorld({ seed, releases: [() => [widgetModel(code)]] })
  await world.advance(1_000)
  await call(world, 0, creation('a'))
  await world.advance(5_000)
  return world.traceHash
}

test.each<[string, () => unknown]>([
  ['a file', () => readFileSync('/etc/hosts')],
  ['a file, later', () => readFile('/etc/hosts')],
  ['a real host', () => connect(80, '127.0.0.1')],
  ['a process', () => exec('true')],
  ['a thread', () => new Worker('')],
  ['a thread of the pool', () => scrypt('a', 'b', 8, () => {})],
  ['compression in a thread', () => gzip('', () => {})],
])('a run whose code asks for %s fails, also if the code ignores the error', async (_, ask) => {
  const code = () => {
    try {
      ask()
    } catch {
      // As code does that works without.
    }
  }
  await expect(runInside(code)).rejects.toThrow(GuardError)
})

test('clocks, timers and randomness come from the seed', async () => {
  const observe = async (seed: number) => {
    const seen: unknown[] = []
    await runInside(() => {
      seen.push(Date.now(), new Date().toISOString(), performance.now(), Math.random())
      seen.push(randomUUID(), randomBytes(4).toString('hex'), crypto.randomUUID())
      const begun = performance.now()
      void delay(2_000).then(() => seen.push(performance.now() - begun))
      setTimeout(() => seen.push(performance.now() - begun), 1_000)
    }, seed)
    return seen
  }
  const first = await observe(3)
  expect(first).toHaveLength(9)
  expect(first[1]).toMatch(/^2025-01-01T00:00:0/)
  expect(first.slice(7).map(ms => Math.round(Number(ms)))).toEqual([1_000, 2_000])
  expect(await observe(3)).toEqual(first)
  expect((await observe(4))[4]).not.toBe(first[4])
})

test('a run that depends on more than its seed shows in the trace', async () => {
  let runs = 0
  const code = () => {
    for (let n = 0; n < runs; n++) setTimeout(() => {}, n)
    runs++
  }
  expect(await runInside(code)).not.toBe(await runInside(code))
})

test('the real clocks, timers and randomness are back when a world is closed', async () => {
  const before = [setTimeout, Date, Math.random, performance.now, randomUUID, connect, delay]
  await runInside(() => {})
  expect([setTimeout, Date, Math.random, performance.now, randomUUID, connect, delay]).toEqual(before)
  expect(Date.now()).toBeGreaterThan(Date.UTC(2025, 6))
})
