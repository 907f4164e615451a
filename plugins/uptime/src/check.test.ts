import { systemClock } from '@setpoint/controller-runtime'
import { FakeClock } from '@setpoint/controller-runtime/testing'
import { afterEach, expect, test, vi } from 'vitest'
import { checkUrl } from './check.ts'
import { deadUrl, Target, until } from './testing/target.ts'

const targets: Target[] = []

afterEach(async () => {
  vi.unstubAllGlobals()
  await Promise.all(targets.splice(0).map(target => target.stop()))
})

async function start(...handler: Parameters<typeof Target.start>): Promise<Target> {
  const target = await Target.start(...handler)
  targets.push(target)
  return target
}

function check(url: string, expectStatus?: number) {
  return checkUrl({ url, timeoutMs: 60_000, expectStatus }, new AbortController().signal, systemClock)
}

test.each([200, 204, 304, 399])('status %i is up when none is expected', async status => {
  const { url } = await start((_, response) => response.writeHead(status).end())
  expect(await check(url)).toMatchObject({ state: 'Up', reason: 'Answered', httpStatus: status })
})

test.each([400, 404, 500, 503])('status %i is down when none is expected', async status => {
  const { url } = await start((_, response) => response.writeHead(status).end())
  expect(await check(url)).toMatchObject({
    state: 'Down',
    reason: 'UnexpectedStatus',
    message: `HTTP ${status}, expected one from 200 to 399`,
    httpStatus: status,
    latencyMs: expect.any(Number),
  })
})

test('only an expected status is up', async () => {
  const { url } = await start((_, response) => response.writeHead(418).end())
  expect(await check(url, 418)).toMatchObject({ state: 'Up', message: 'HTTP 418' })
  expect(await check(url, 200)).toMatchObject({ state: 'Down', message: 'HTTP 418, expected 200' })
})

test('a redirect is not followed, whatever the scheme of its target', async () => {
  const other = await start()
  for (const location of [other.url, 'file:///etc/passwd', 'ftp://127.0.0.1/']) {
    const { url } = await start((_, response) => response.writeHead(302, { location }).end())
    expect(await check(url)).toMatchObject({ state: 'Up', httpStatus: 302 })
    expect(await check(url, 200)).toMatchObject({ state: 'Down', httpStatus: 302 })
  }
  expect(other.requests).toBe(0)
})

test('a refused connection is down', async () => {
  expect(await check(await deadUrl())).toEqual({
    state: 'Down',
    reason: 'ConnectionRefused',
    message: 'connection refused',
  })
})

test('a connection that is closed without a response is down', async () => {
  const { url } = await start(request => request.socket.destroy())
  expect(await check(url)).toMatchObject({ state: 'Down', reason: 'ConnectionLost' })
})

test('an unknown host is down and named in the message', async () => {
  expect(await check('http://nowhere.invalid/')).toMatchObject({
    state: 'Down',
    reason: 'HostNotFound',
    message: expect.stringContaining('nowhere.invalid'),
  })
})

test('a server that does not support TLS is down for https, with a readable reason', async () => {
  const { url } = await start()
  expect(await check(url.replace('http:', 'https:'))).toMatchObject({
    state: 'Down',
    reason: 'TlsFailed',
    message: expect.stringMatching(/^no secure connection: [a-z ]+$/i),
  })
})

test('no response within the timeout is down, and the connection is closed', async () => {
  let closed = false
  const target = await start(request => request.socket.on('close', () => (closed = true)))
  const clock = new FakeClock()
  const result = checkUrl(
    { url: target.url, timeoutMs: 2_000, expectStatus: undefined },
    new AbortController().signal,
    clock,
  )
  await until('the request arrives', () => target.requests === 1)
  await clock.advance(2_000)
  expect(await result).toEqual({ state: 'Down', reason: 'TimedOut', message: 'no response within 2 s' })
  await until('the connection closes', () => closed)
})

test('an endless body is not read: the connection is closed after the headers', async () => {
  let sentBytes = 0
  let closed = false
  const { url } = await start((_, response) => {
    const chunk = Buffer.alloc(64 * 1024)
    const send = () => {
      while (!closed) {
        sentBytes += chunk.length
        if (!response.write(chunk)) return
      }
    }
    response.on('drain', send).on('close', () => (closed = true))
    send()
  })
  expect(await check(url)).toMatchObject({ state: 'Up', httpStatus: 200 })
  await until('the connection closes', () => closed)
  // Fits into the buffers of two sockets.
  expect(sentBytes).toBeLessThan(32 * 1024 * 1024)
})

test('a body that never arrives is not awaited: the check closes the connection', async () => {
  const responses: Response[] = []
  const original = globalThis.fetch
  // Kept referenced, since garbage collection would close the connection.
  vi.stubGlobal('fetch', async (...request: Parameters<typeof fetch>) => {
    const response = await original(...request)
    responses.push(response)
    return response
  })
  let closed = false
  const { url } = await start((_, response) => {
    response.on('close', () => (closed = true))
    response.writeHead(200).write('and then nothing')
  })
  expect(await check(url)).toMatchObject({ state: 'Up', httpStatus: 200 })
  await until('the connection closes', () => closed)
  expect(responses).toHaveLength(1)
})

test('an aborted check rejects with the reason', async () => {
  const target = await start(() => {})
  const controller = new AbortController()
  const result = checkUrl(
    { url: target.url, timeoutMs: 5_000, expectStatus: undefined },
    controller.signal,
    systemClock,
  )
  await until('the request arrives', () => target.requests === 1)
  const reason = new Error('stopping')
  controller.abort(reason)
  await expect(result).rejects.toBe(reason)
})

test.each([
  ['http://[', 'the URL is not valid'],
  ['http://user:secret@127.0.0.1/', 'the URL must not have a user or password'],
  ['ftp://127.0.0.1/', 'the scheme ftp: is not http: or https:'],
  ['http://127.0.0.1:25/', 'HTTP clients block port 25'],
])('%s cannot be requested: unknown, not down', async (url, message) => {
  expect(await check(url)).toEqual({ state: 'Unknown', reason: 'NotRequestable', message })
})

test('no timer is left', async () => {
  const { url } = await start()
  const clock = new FakeClock()
  await checkUrl({ url, timeoutMs: 5_000, expectStatus: undefined }, new AbortController().signal, clock)
  expect(clock.pendingTimers).toBe(0)
})
