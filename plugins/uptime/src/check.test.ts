import { getEventListeners } from 'node:events'
import { systemClock, TargetPolicy, targetSettings } from '@setpoint/controller-runtime'
import { FakeClock } from '@setpoint/controller-runtime/testing'
import { afterEach, expect, test } from 'vitest'
import { checkUrl } from './check.ts'
import { deadUrl, openPolicy, Target, until } from './testing/target.ts'

const targets: Target[] = []

afterEach(async () => {
  await Promise.all(targets.splice(0).map(target => target.stop()))
})

async function start(...handler: Parameters<typeof Target.start>): Promise<Target> {
  const target = await Target.start(...handler)
  targets.push(target)
  return target
}

function check(url: string, expectStatus?: number, policy = openPolicy) {
  return checkUrl({ url, timeoutMs: 60_000, expectStatus }, policy, new AbortController().signal, systemClock)
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
    openPolicy,
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
  let closed = false
  const { url } = await start((_, response) => {
    response.on('close', () => (closed = true))
    response.writeHead(200).write('and then nothing')
  })
  expect(await check(url)).toMatchObject({ state: 'Up', httpStatus: 200 })
  await until('the connection closes', () => closed)
})

test('an aborted check rejects with the reason', async () => {
  const target = await start(() => {})
  const controller = new AbortController()
  const result = checkUrl(
    { url: target.url, timeoutMs: 5_000, expectStatus: undefined },
    openPolicy,
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
])('%s cannot be requested: unknown, not down', async (url, message) => {
  expect(await check(url)).toEqual({ state: 'Unknown', reason: 'NotRequestable', message })
})

test('a server that switches protocols is down, and the connection is closed', async () => {
  let closed = false
  const { url } = await start(({ socket }) => {
    socket.on('close', () => (closed = true))
    socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n')
  })
  expect(await check(url)).toMatchObject({ state: 'Down', reason: 'UnexpectedStatus', httpStatus: 101 })
  await until('the connection closes', () => closed)
})

test('a denied target is not requested: unknown, not down', async () => {
  const { default: deniedNetworks } = targetSettings.deniedNetworks
  const policy = new TargetPolicy({ allowedHosts: [], allowedNetworks: [], deniedNetworks })
  const target = await start()
  for (const url of [target.url, target.url.replace('127.0.0.1', 'localhost'), 'https://169.254.169.254/']) {
    expect(await check(url, undefined, policy)).toEqual({
      state: 'Unknown',
      reason: 'Denied',
      message: `denied: ${new URL(url).hostname} is in a network of the setting deniedNetworks`,
    })
  }
  expect(target.requests).toBe(0)
})

test('no timer is left, and no listener in a signal that lives on', async () => {
  const { url } = await start()
  const clock = new FakeClock()
  const { signal } = new AbortController()
  await checkUrl({ url, timeoutMs: 5_000, expectStatus: undefined }, openPolicy, signal, clock)
  expect(clock.pendingTimers).toBe(0)
  expect(getEventListeners(signal, 'abort')).toEqual([])
})
