import { describe, expect, test } from 'vitest'
import { FakeClock } from '../testing/fake-clock.ts'
import { RetryingTransport, type RetryingTransportOptions } from './retrying-transport.ts'
import { type Transport, TransportError, type TransportRequest, type TransportResponse } from './transport.ts'

type Answer = Partial<TransportResponse> | Error

/** A transport with scripted responses that repeats the last one. */
function setUp(answers: Answer[], options: RetryingTransportOptions = {}) {
  const clock = new FakeClock()
  const askedAt: number[] = []
  const inner: Transport = {
    async request() {
      const answer = answers[Math.min(askedAt.length, answers.length - 1)] ?? {}
      askedAt.push(clock.monotonic())
      if (answer instanceof Error) throw answer
      return { status: 200, headers: {}, body: '', ...answer }
    },
    watch: () => Promise.reject(new Error('not here')),
  }
  const transport = new RetryingTransport(inner, { clock, random: () => 0.5, ...options })
  return {
    clock,
    askedAt,
    send: (request: Partial<TransportRequest> = {}) =>
      transport.request({ method: 'GET', path: '/', ...request }),
  }
}

const busy = (status: number, seconds?: number): Answer => ({
  status,
  headers: seconds === undefined ? {} : { 'retry-after': String(seconds) },
})

describe('a temporary refusal', () => {
  test('is retried after Retry-After plus jitter', async () => {
    const { clock, askedAt, send } = setUp([busy(503, 2), busy(429, 3), {}], { baseMs: 100 })
    const answer = send()
    await clock.advance(60_000)
    expect((await answer).status).toBe(200)
    expect(askedAt).toEqual([0, 2_050, 5_150])
  })

  test('without Retry-After, is retried with back-off for 429 and returned for 503', async () => {
    const refused = setUp([busy(429), {}], { baseMs: 100 })
    const answer = refused.send()
    await refused.clock.advance(60_000)
    expect((await answer).status).toBe(200)
    expect(refused.askedAt).toEqual([0, 50])
    const away = setUp([busy(503), {}])
    expect((await away.send()).status).toBe(503)
    expect(away.askedAt).toEqual([0])
  })

  test('is returned after the last attempt, and at once if Retry-After exceeds the longest pause', async () => {
    const { clock, askedAt, send } = setUp([busy(429, 1)], { attempts: 3 })
    const answer = send()
    await clock.advance(60_000)
    expect((await answer).status).toBe(429)
    expect(askedAt).toHaveLength(3)
    const long = setUp([busy(503, 3600)])
    expect((await long.send()).status).toBe(503)
    expect(long.askedAt).toEqual([0])
  })

  test('an abort ends the pause', async () => {
    const { clock, askedAt, send } = setUp([busy(429, 5)])
    const abort = new AbortController()
    const answer = send({ signal: abort.signal })
    const refused = expect(answer).rejects.toThrow('enough')
    await clock.advance(1_000)
    abort.abort(new Error('enough'))
    await refused
    expect(askedAt).toHaveLength(1)
    expect(clock.pendingTimers).toBe(0)
  })
})

describe('not retried:', () => {
  test.each(['POST', 'PATCH'] as const)('%s, since it is not idempotent', async method => {
    const { askedAt, send } = setUp([busy(429, 1)])
    expect((await send({ method })).status).toBe(429)
    expect(askedAt).toHaveLength(1)
  })

  test.each(['GET', 'PUT', 'DELETE'] as const)(
    '%s without a response, or with 504, since it may have been executed',
    async method => {
      const lost = setUp([new TransportError('cut')])
      await expect(lost.send({ method })).rejects.toThrow('cut')
      expect(lost.askedAt).toHaveLength(1)
      const unknown = setUp([busy(504, 1)])
      expect((await unknown.send({ method })).status).toBe(504)
      expect(unknown.askedAt).toHaveLength(1)
    },
  )

  test('other responses', async () => {
    for (const status of [200, 400, 404, 409, 410, 500]) {
      const { askedAt, send } = setUp([busy(status, 1)])
      expect((await send()).status).toBe(status)
      expect(askedAt).toHaveLength(1)
    }
  })
})
