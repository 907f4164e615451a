import { silentLogger } from '@setpoint/controller-runtime'
import { FakeClock } from '@setpoint/controller-runtime/testing'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { renewToken, tokenRenewalDefaults } from './token-renewal.ts'

const lifeMs = 3_600_000

let clock: FakeClock
let stopping: AbortController
/** Failures of the next requests and writes; after that they succeed. */
let failures: { readonly at: 'request' | 'write' }[]
let requests: number
let written: string[]
let random: number
let done: Promise<void>

beforeEach(async () => {
  clock = new FakeClock()
  stopping = new AbortController()
  failures = []
  requests = 0
  written = []
  random = 0
})
afterEach(async () => {
  stopping.abort()
  await done
})

function failAt(step: 'request' | 'write') {
  if (failures[0]?.at !== step) return
  failures.shift()
  throw new Error(`the ${step} failed`)
}

async function start() {
  done = renewToken(
    {
      async request() {
        requests++
        failAt('request')
        return { token: `token-${requests}`, lifeMs }
      },
      async write(token) {
        failAt('write')
        written.push(token)
      },
      log: silentLogger,
      clock,
      random: () => random,
    },
    stopping.signal,
  )
  await clock.advance(0)
}

it.each([
  [0, 0.8],
  [0.999_999, 0.72],
])('replaces a token before its end, at a random time: %d', async (drawn, share) => {
  random = drawn
  await start()
  expect(written).toEqual(['token-1'])
  await clock.advance(lifeMs * share - 1_000)
  expect(written).toEqual(['token-1'])
  await clock.advance(2_000)
  expect(written).toEqual(['token-1', 'token-2'])
  await clock.advance(lifeMs * share)
  expect(written).toEqual(['token-1', 'token-2', 'token-3'])
})

it('retries requests and writes that fail, after pauses that grow up to a bound', async () => {
  random = 0.5
  failures = Array.from({ length: 10 }, (_, n) => ({ at: n % 2 === 0 ? 'request' : 'write' }) as const)
  await start()
  const pauses: number[] = []
  while (written.length === 0) {
    pauses.push(clock.nextTimerInMs ?? 0)
    await clock.advance(clock.nextTimerInMs ?? 0)
  }
  expect(written).toEqual(['token-11'])
  const { retryMs, maxRetryMs } = tokenRenewalDefaults
  expect(pauses).toEqual(pauses.map((_, n) => Math.min(retryMs * 2 ** n, maxRetryMs) / 2))
  // After a success they start over.
  failures = [{ at: 'request' }]
  await clock.advance(clock.nextTimerInMs ?? 0)
  expect(clock.nextTimerInMs).toBe(retryMs / 2)
})

it('ends when it is stopped, also during a pause', async () => {
  await start()
  stopping.abort()
  await done
  expect(clock.pendingTimers).toBe(0)
  expect(requests).toBe(1)
})
