import { once } from 'node:events'
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type Logger, silentLogger } from '@setpoint/controller-runtime'
import { FakeClock } from '@setpoint/controller-runtime/testing'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { AuditWebhook, webhookDefaults } from './audit-webhook.ts'

const { batchEvents, batchMs, bufferEvents, retryMs, maxRetryMs } = webhookDefaults

let server: Server
let url: string
/** The events of each request, in order. */
let received: number[][]
let authorizations: (string | undefined)[]
/** Statuses of the next responses; then 200. */
let statuses: number[]
/** Responses that wait, while `isSlow`. */
let slow: ServerResponse[]
let isSlow: boolean
let clock: FakeClock
let webhook: AuditWebhook

beforeEach(async () => {
  received = []
  authorizations = []
  statuses = []
  slow = []
  isSlow = false
  server = createServer(async (request, response) => {
    let body = ''
    for await (const text of request.setEncoding('utf8')) body += text
    const { kind, apiVersion, items } = JSON.parse(body)
    expect([kind, apiVersion, request.method, request.url]).toEqual([
      'EventList',
      'audit.k8s.io/v1',
      'POST',
      '/hook',
    ])
    received.push(items)
    authorizations.push(request.headers.authorization)
    response.statusCode = statuses.shift() ?? 200
    if (isSlow) slow.push(response)
    else response.end()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  url = `http://127.0.0.1:${port}/hook`
  clock = new FakeClock()
  webhook = new AuditWebhook({ url, log: silentLogger, clock })
})
afterEach(async () => {
  await webhook.close()
  server.closeAllConnections()
  server.close()
})

function write(count: number, first = 0): void {
  for (let at = 0; at < count; at++) webhook.write(String(first + at))
}

const numbers = (count: number, first = 0) => Array.from({ length: count }, (_, at) => first + at)

it('sends a full batch at once, and the rest right after it', async () => {
  write(batchEvents + 2)
  await expect.poll(() => received).toEqual([numbers(batchEvents), numbers(2, batchEvents)])
  expect(clock.pendingTimers).toBe(0)
})

it('sends fewer events after a second', async () => {
  write(2)
  await clock.advance(batchMs - 1)
  expect(clock.pendingTimers).toBe(1)
  expect(received).toEqual([])
  await clock.advance(1)
  await expect.poll(() => received).toEqual([numbers(2)])
})

it('sends a batch again while the receiver is down, and loses nothing and keeps the order', async () => {
  const error = vi.fn()
  webhook = new AuditWebhook({ url, log: { ...silentLogger, error } satisfies Logger, clock })
  statuses = [503, 429, 500]
  write(3)
  await clock.advance(batchMs)
  for (const pause of [retryMs, 2 * retryMs, 4 * retryMs]) {
    await expect.poll(() => clock.pendingTimers).toBe(1)
    write(1, 100 + pause)
    await clock.advance(pause - 1)
    const before = received.length
    expect(clock.pendingTimers).toBe(1)
    await clock.advance(1)
    await expect.poll(() => received.length).toBe(before + 1)
  }
  expect(received.slice(0, 3).every(events => String(events.slice(0, 3)) === '0,1,2')).toBe(true)
  expect(received.at(-1)).toEqual([0, 1, 2, 100 + retryMs, 100 + 2 * retryMs, 100 + 4 * retryMs])
  expect(webhook.dropped).toBe(0)
  expect(error).toHaveBeenCalledTimes(1)
})

it('pauses for a minute at most between two attempts', async () => {
  statuses = Array(12).fill(503)
  write(1)
  await clock.advance(batchMs)
  for (let attempts = 1; attempts <= 12; attempts++) {
    await expect.poll(() => received.length).toBe(attempts)
    await expect.poll(() => clock.pendingTimers).toBe(1)
    await clock.advance(maxRetryMs)
  }
  await expect.poll(() => received.length).toBe(13)
})

it('drops and counts what does not fit into its buffer, and sends the rest once the receiver is back', async () => {
  isSlow = true
  write(batchEvents)
  await expect.poll(() => slow.length).toBe(1)
  write(bufferEvents, batchEvents)
  expect(webhook.dropped).toBe(batchEvents)
  isSlow = false
  slow[0]?.end()
  await expect.poll(() => received.flat().length).toBe(bufferEvents)
  expect(received.flat()).toEqual(numbers(bufferEvents))
  expect(webhook.dropped).toBe(batchEvents)
})

it('drops and counts a batch that the receiver refuses', async () => {
  statuses = [400]
  write(batchEvents + 1)
  await expect.poll(() => received.flat()).toEqual(numbers(batchEvents + 1))
  expect(webhook.dropped).toBe(batchEvents)
})

it('sends the current token', async () => {
  const tokens = ['one', 'two']
  webhook = new AuditWebhook({ url, token: async () => tokens.shift() ?? '', log: silentLogger, clock })
  write(batchEvents)
  await expect.poll(() => received.length).toBe(1)
  write(batchEvents)
  await expect.poll(() => authorizations).toEqual(['Bearer one', 'Bearer two'])
})

it('sends what waits when it is closed, also during a pause', async () => {
  statuses = [503]
  write(batchEvents)
  await expect.poll(() => clock.pendingTimers).toBe(1)
  write(batchEvents, batchEvents)
  await webhook.close()
  expect(received.slice(1).flat()).toEqual(numbers(2 * batchEvents))
  expect(webhook.dropped).toBe(0)
})

it('counts what it cannot send when it is closed', async () => {
  statuses = [503]
  write(5)
  await webhook.close()
  expect(webhook.dropped).toBe(5)
})
