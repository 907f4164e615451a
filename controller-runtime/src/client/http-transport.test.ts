import { once } from 'node:events'
import http from 'node:http'
import { afterEach, describe, expect, test } from 'vitest'
import { eventually } from '../../../test/support/sdk/eventually.ts'
import {
  type RequestHandler,
  ScriptedWatchServer,
  type WatchScript,
} from '../../../test/support/sdk/scripted-watch-server.ts'
import { ApiError } from '../api/errors.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { createClient } from './create-client.ts'
import { HttpTransport, type HttpTransportOptions, httpTransportDefaults } from './http-transport.ts'
import { TransportError } from './transport.ts'

const cleanUps: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0)) await cleanUp()
})

async function setUp(
  {
    onRequest,
    watch = () => {},
    basePath = '',
  }: {
    onRequest?: RequestHandler
    watch?: WatchScript | { status: number; headers?: Record<string, string>; body?: object }
    basePath?: string
  },
  options: Omit<HttpTransportOptions, 'server'> = {},
) {
  const server = await ScriptedWatchServer.start([watch], onRequest)
  const transport = new HttpTransport({ server: `${server.url}${basePath}`, ...options })
  cleanUps.push(
    () => transport.close(),
    () => server.stop(),
  )
  return { server, transport }
}

class CountingClock extends FakeClock {
  readings = 0

  override monotonic(): number {
    this.readings++
    return super.monotonic()
  }
}

async function bodyOf(request: http.IncomingMessage): Promise<string> {
  let body = ''
  for await (const chunk of request) body += String(chunk)
  return body
}

describe('requests', () => {
  test('are sent below the base path with token, headers and body; any status resolves', async () => {
    const seen: unknown[] = []
    const { transport } = await setUp(
      {
        basePath: '/control/',
        onRequest: async (request, response) => {
          const { authorization, 'content-type': type, 'x-own': own } = request.headers
          seen.push([request.method, request.url, authorization, type, own, await bodyOf(request)])
          response.writeHead(409, { 'X-Answer': 'yes' }).end('{"é":1}')
        },
      },
      { token: async () => 'secret', headers: { 'x-own': 'mine' } },
    )
    const answer = await transport.request({
      method: 'POST',
      path: '/apis/g/v/gadgets?dryRun=All&a=b%2Fc',
      headers: { 'content-type': 'application/json' },
      body: '{"ü":1}',
    })
    expect(seen).toEqual([
      [
        'POST',
        '/control/apis/g/v/gadgets?dryRun=All&a=b%2Fc',
        'Bearer secret',
        'application/json',
        'mine',
        '{"ü":1}',
      ],
    ])
    expect(answer).toMatchObject({ status: 409, headers: { 'x-answer': 'yes' }, body: '{"é":1}' })
  })

  test('reuse their connection', async () => {
    const ports = new Set<number | undefined>()
    const { transport } = await setUp({
      onRequest: (request, response) => {
        ports.add(request.socket.remotePort)
        response.end('{}')
      },
    })
    for (let count = 0; count < 5; count++) await transport.request({ method: 'GET', path: '/' })
    expect(ports.size).toBe(1)
  })

  test('and clients of them refuse other arguments by name', () => {
    expect(() => Reflect.construct(HttpTransport, ['https://a.example.com'])).toThrow(
      new TypeError('the options of HttpTransport must be an object'),
    )
    expect(() => Reflect.apply(createClient, undefined, [{ server: 'https://a.example.com' }])).toThrow(
      new TypeError('createClient needs a transport, such as new HttpTransport({ server })'),
    )
  })

  test('reject with a TransportError if the server cannot be reached', async () => {
    const transport = new HttpTransport({ server: 'http://127.0.0.1:1' })
    await expect(transport.request({ method: 'GET', path: '/' })).rejects.toThrow(TransportError)
    await expect(transport.watch('/', { signal: new AbortController().signal })).rejects.toThrow(
      TransportError,
    )
  })

  test('time out in every phase if the server does not respond', async () => {
    const { transport } = await setUp(
      {
        onRequest: (request, response) => {
          if (request.url === '/half') response.writeHead(200).write('half of')
        },
      },
      { requestTimeoutMs: 60 },
    )
    await expect(transport.request({ method: 'GET', path: '/' })).rejects.toThrow(/no response for 60 ms/)
    await expect(transport.request({ method: 'GET', path: '/half' })).rejects.toThrow(TransportError)
  })

  test('do not time out while the response keeps arriving', async () => {
    const requestTimeoutMs = 2_000
    const clock = new CountingClock()
    const { transport } = await setUp(
      {
        onRequest: async (_request, response) => {
          for (let count = 0; count < 10; count++) {
            const { readings } = clock
            response.write('x')
            // The client reads the clock when a part of the response arrives.
            await eventually(() => clock.readings > readings)
            await clock.advance(0.9 * requestTimeoutMs)
          }
          response.end()
        },
      },
      { requestTimeoutMs, clock },
    )
    expect((await transport.request({ method: 'GET', path: '/' })).body).toBe('x'.repeat(10))
  })

  test('reject with a TransportError if the response ends early', async () => {
    const { transport } = await setUp({
      onRequest: (_request, response) => {
        response.writeHead(200, { 'content-length': '100' }).write('half of')
        setTimeout(() => response.destroy(), 10)
      },
    })
    await expect(transport.request({ method: 'GET', path: '/' })).rejects.toThrow(TransportError)
  })

  test('reject with the reason when aborted, before and during the request', async () => {
    const { transport } = await setUp({ onRequest: () => {} })
    const reason = new Error('enough')
    await expect(
      transport.request({ method: 'GET', path: '/', signal: AbortSignal.abort(reason) }),
    ).rejects.toBe(reason)
    const abort = new AbortController()
    const waiting = transport.request({ method: 'GET', path: '/', signal: abort.signal })
    setTimeout(() => abort.abort(reason), 20)
    await expect(waiting).rejects.toBe(reason)
  })

  test('send a GET again if the server has closed the kept-alive connection', async () => {
    let count = 0
    const server = http.createServer((request, response) => {
      response.end(String(++count), () => {
        // Closed right after the response without a `connection: close` header.
        setTimeout(() => request.socket.destroy(), 0)
      })
    })
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    cleanUps.push(() => server.close())
    const address = server.address()
    const port = typeof address === 'object' ? address?.port : 0
    const transport = new HttpTransport({ server: `http://127.0.0.1:${port}` })
    cleanUps.push(() => transport.close())
    for (let round = 1; round <= 30; round++) {
      expect((await transport.request({ method: 'GET', path: '/' })).status).toBe(200)
    }
  })

  test('the constructor throws if the server is not an http URL', () => {
    expect(() => new HttpTransport({ server: 'ftp://example.com' })).toThrow(TypeError)
    expect(() => new HttpTransport({ server: 'nonsense' })).toThrow(TypeError)
  })
})

describe('watches', () => {
  const signal = () => new AbortController().signal

  test('yield every frame in order, then the close code', async () => {
    const { server, transport } = await setUp(
      {
        watch: watch => {
          for (let index = 0; index < 3; index++) watch.sendRaw(`frame ${index}`)
          watch.close(4410, 'too old')
        },
        basePath: '/control',
      },
      { token: 'secret' },
    )
    const connection = await transport.watch('/apis/g/v/gadgets?version=5', { signal: signal() })
    const frames: string[] = []
    for await (const frame of connection) frames.push(frame)
    expect(frames).toEqual(['frame 0', 'frame 1', 'frame 2'])
    expect(await connection.end).toEqual({ code: 4410, reason: 'too old' })
    expect(server.attempts[0]?.pathname).toBe('/control/apis/g/v/gadgets')
  })

  test('reject with an ApiError with the reason of the Status and the Retry-After delay', async () => {
    const forbidden = await setUp({
      watch: { status: 403, body: new ApiError('Forbidden', 'not for you').toStatus() },
    })
    await expect(forbidden.transport.watch('/', { signal: signal() })).rejects.toMatchObject({
      reason: 'Forbidden',
      message: 'not for you',
    })
    const busy = await setUp({ watch: { status: 503, headers: { 'retry-after': '7' } } })
    await expect(busy.transport.watch('/', { signal: signal() })).rejects.toMatchObject({
      reason: 'ServiceUnavailable',
      details: { retryAfterSeconds: 7 },
    })
  })

  test('end with 1006 when the connection is lost, without throwing', async () => {
    const { transport } = await setUp({ watch: watch => watch.cut() })
    const connection = await transport.watch('/', { signal: signal() })
    for await (const _ of connection) expect.unreachable()
    expect(await connection.end).toMatchObject({ code: 1006 })
  })

  test('close after the deadline without a ping or an event', async () => {
    const { transport } = await setUp({}, { watchIdleTimeoutMs: 60 })
    const connection = await transport.watch('/', { signal: signal() })
    for await (const _ of connection) expect.unreachable()
    expect(await connection.end).toEqual({ code: 1006, reason: 'no ping or event for 60 ms' })
  })

  test('an abort, or leaving the iteration, closes the connection', async () => {
    const { server, transport } = await setUp({ watch: watch => watch.sendRaw('one') })
    const abort = new AbortController()
    const aborted = await transport.watch('/', { signal: abort.signal })
    abort.abort()
    await aborted.end
    const left = await transport.watch('/', { signal: signal() })
    for await (const frame of left) {
      expect(frame).toBe('one')
      break
    }
    expect(await Promise.all(server.watches.map(watch => watch.closed))).toEqual([1000, 1000])
    await expect(transport.watch('/', { signal: AbortSignal.abort(new Error('before')) })).rejects.toThrow(
      'before',
    )
  })

  test('reject with the reason when aborted during the upgrade, and when the upgrade takes too long', async () => {
    const silent = http.createServer()
    const upgrade = once(silent, 'upgrade')
    silent.on('upgrade', () => {})
    await new Promise<void>(resolve => silent.listen(0, '127.0.0.1', resolve))
    const address = silent.address()
    const port = typeof address === 'object' ? address?.port : 0
    cleanUps.push(() => {
      silent.closeAllConnections()
      silent.close()
    })
    const open = (options: Omit<HttpTransportOptions, 'server'>, watchSignal: AbortSignal) => {
      const transport = new HttpTransport({ server: `http://127.0.0.1:${port}`, ...options })
      cleanUps.push(() => transport.close())
      return transport.watch('/', { signal: watchSignal })
    }
    const abort = new AbortController()
    const aborted = expect(open({}, abort.signal)).rejects.toThrow('enough')
    await upgrade
    abort.abort(new Error('enough'))
    await aborted
    await expect(open({ handshakeTimeoutMs: 80 }, signal())).rejects.toThrow(TransportError)
  })

  test('a slow reader pauses the socket, stays connected, and receives every frame', async () => {
    const total = httpTransportDefaults.frameQueueLength * 5
    const clock = new FakeClock()
    const { transport } = await setUp(
      {
        watch: watch => {
          for (let index = 0; index < total; index++) watch.sendRaw(String(index))
        },
      },
      { clock },
    )
    const connection = await transport.watch('/', { signal: signal() })
    let expected = 0
    for await (const frame of connection) {
      if (expected === 0) {
        // The idle timeout does not run while the socket is paused.
        await eventually(() => clock.pendingTimers === 0)
        await clock.advance(10 * httpTransportDefaults.watchIdleTimeoutMs)
      }
      expect(frame).toBe(String(expected++))
      if (expected === total) break
    }
    expect(expected).toBe(total)
  })
})
