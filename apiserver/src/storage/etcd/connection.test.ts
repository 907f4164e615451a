import { once } from 'node:events'
import { constants } from 'node:http2'
import { createServer as createTcpServer, type Server } from 'node:net'
import { Worker } from 'node:worker_threads'
import { status } from '@grpc/grpc-js'
import { silentLogger } from '@setpoint/controller-runtime'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { type FakeCall, type FakeEtcd, headerAt, startFakeEtcd } from '../../../../test/support/fake-etcd.ts'
import { CallError } from './call-error.ts'
import { methods } from './client.ts'
import { Connection, type ConnectionOptions } from './connection.ts'
import { etcdDefaults } from './defaults.ts'
import { Endpoints } from './endpoints.ts'
import { Login } from './login.ts'

// Shorter, so that a test sees many pings.
vi.mock('./defaults.ts', async original => {
  const { etcdDefaults } = await original<typeof import('./defaults.ts')>()
  return { etcdDefaults: { ...etcdDefaults, keepaliveMs: 5, keepaliveTimeoutMs: 60_000 } }
})

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  vi.useRealTimers()
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

const patience = () => ({ until: performance.now() + 60_000 })
const range = { key: Buffer.from('a') }
const emptyPage = { header: headerAt(7), kvs: [], more: false, count: '0' }

async function fakeEtcd(handle: (call: FakeCall) => void): Promise<FakeEtcd> {
  const etcd = await startFakeEtcd(handle)
  cleanups.push(() => etcd[Symbol.asyncDispose]())
  return etcd
}

function connectionTo(endpoint: string, options: ConnectionOptions = {}): Connection {
  const connection = new Connection(endpoint, options)
  cleanups.push(() => connection.close())
  return connection
}

async function listen(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  return `http://127.0.0.1:${address.port}`
}

async function failureOf(response: Promise<unknown>): Promise<CallError> {
  const failure = await response.then(
    () => undefined,
    (error: unknown) => error,
  )
  if (failure instanceof CallError) return failure
  throw new Error(`not a CallError: ${failure}`)
}

/** Flags in memory that two threads share, by their index. */
const step = { asked: 0, busy: 1, answered: 2 }

function raise(flags: Int32Array, at: number): void {
  Atomics.store(flags, at, 1)
  Atomics.notify(flags, at)
}

/** Runs in a thread of its own, and responds to the first call once the other thread is blocked. */
const steppingPeer = `
  const { createServer } = require('node:http2')
  const { parentPort, workerData: flags } = require('node:worker_threads')
  const step = ${JSON.stringify(step)}
  ${raise}
  const server = createServer()
  server.on('stream', stream => {
    stream.resume()
    stream.on('end', () => {
      raise(flags, step.asked)
      Atomics.wait(flags, step.busy, 0)
      stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true })
      stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }))
      stream.on('close', () => raise(flags, step.answered))
      stream.end(Buffer.from('0000000000', 'hex'))
    })
  })
  server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port))
`

describe('a connection to etcd', () => {
  test('carries many calls at once', async () => {
    const etcd = await fakeEtcd(call => call.respond(emptyPage))
    const connection = connectionTo(etcd.endpoint)
    const pages = await Promise.all(
      Array.from({ length: 200 }, () => connection.call(methods.range, range, patience())),
    )
    expect(pages.map(page => page.header.revision)).toEqual(pages.map(() => '7'))
    expect(etcd.sessions).toHaveLength(1)
  })

  test('reports the status and the text of a rejection', async () => {
    const { endpoint } = await fakeEtcd(call => call.fail(9, 'café 100%'))
    const failure = await failureOf(connectionTo(endpoint).call(methods.range, range, patience()))
    expect(failure).toMatchObject({ code: 9, message: 'café 100%', unsent: false, refused: true })
  })

  test('reports a call as unsent if nothing listens', async () => {
    const gone = createTcpServer()
    const endpoint = await listen(gone)
    gone.close()
    await once(gone, 'close')
    const connection = connectionTo(endpoint)
    const failures = await Promise.all(
      Array.from({ length: 2 }, () => failureOf(connection.call(methods.range, range, patience()))),
    )
    failures.push(await failureOf(connection.call(methods.range, range, patience())))
    for (const failure of failures) expect(failure).toMatchObject({ code: status.UNAVAILABLE, unsent: true })
  })

  test('reports a call as unsent if the peer accepts the connection and stays silent', async () => {
    const silent = createTcpServer(socket => cleanups.push(() => socket.destroy()))
    cleanups.push(() => silent.close())
    const connection = connectionTo(await listen(silent))
    const until = performance.now() + 50
    const expired = await failureOf(connection.call(methods.range, range, { until }))
    expect(expired).toMatchObject({ code: status.DEADLINE_EXCEEDED, unsent: true })
    const waiting = failureOf(connection.call(methods.range, range, patience()))
    connection.close()
    expect(await waiting).toMatchObject({ code: status.CANCELLED, unsent: true })
  })

  test.each<[string, (call: FakeCall) => void, number]>([
    ['there is no response in time', () => {}, 50],
    ['the connection breaks', ({ stream }) => stream.session?.destroy(), 60_000],
    [
      'the response has no message',
      ({ stream }) => stream.respond({ ':status': 200, 'grpc-status': '0' }, { endStream: true }),
      60_000,
    ],
    [
      'the response is cut off',
      call => {
        call.send(Buffer.alloc(3), 100)
        call.stream.close(constants.NGHTTP2_INTERNAL_ERROR)
      },
      60_000,
    ],
    [
      'the response cannot be decoded',
      call => {
        call.send(Buffer.from('0affffffff', 'hex'))
        call.stream.end()
      },
      60_000,
    ],
    ['the response is too large', call => call.send(Buffer.alloc(3), etcdDefaults.receiveBytes + 1), 60_000],
  ])('reports that a call may have happened if %s', async (_, handle, ms) => {
    let handling: (call: FakeCall) => void = call => call.respond(emptyPage)
    const { endpoint } = await fakeEtcd(call => handling(call))
    const connection = connectionTo(endpoint)
    await connection.call(methods.range, range, patience())
    handling = handle
    const failure = await failureOf(connection.call(methods.range, range, { until: performance.now() + ms }))
    expect(failure).toMatchObject({ unsent: false, refused: false })
  })

  test('takes a response that came in time, even if this process was too busy to read it', async () => {
    const flags = new Int32Array(new SharedArrayBuffer(12))
    const worker = new Worker(steppingPeer, { eval: true, workerData: flags })
    cleanups.push(() => worker.terminate())
    const [port] = await once(worker, 'message')
    const connection = connectionTo(`http://127.0.0.1:${port}`)
    const until = performance.now() + 2_000
    const response = connection.call(methods.range, range, { until })
    while (Atomics.load(flags, step.asked) === 0) await new Promise(resolve => setImmediate(resolve))
    // This thread is blocked from here until the response has arrived and the deadline has passed.
    raise(flags, step.busy)
    Atomics.wait(flags, step.answered, 0)
    while (performance.now() < until + 10);
    expect(await response).toMatchObject({ kvs: [] })
  })

  test('reports a call as unsent if the peer refuses its stream', async () => {
    const { endpoint } = await fakeEtcd(({ stream }) => stream.close(constants.NGHTTP2_REFUSED_STREAM))
    const failure = await failureOf(connectionTo(endpoint).call(methods.range, range, patience()))
    expect(failure).toMatchObject({ code: status.UNAVAILABLE, unsent: true })
  })

  test('cancels an aborted call on the wire', async () => {
    const controller = new AbortController()
    const codes: (number | undefined)[] = []
    const { endpoint } = await fakeEtcd(({ stream }) => {
      stream.on('close', () => codes.push(stream.rstCode))
      controller.abort()
    })
    const { signal } = controller
    const failure = await failureOf(
      connectionTo(endpoint).call(methods.range, range, { ...patience(), signal }),
    )
    expect(failure).toMatchObject({ code: status.CANCELLED, unsent: false })
    await expect.poll(() => codes).toEqual([constants.NGHTTP2_CANCEL])
  })

  test('reconnects after the peer says that it goes away', async () => {
    const etcd = await fakeEtcd(call => {
      call.respond(emptyPage)
      call.stream.session?.goaway()
    })
    const connection = connectionTo(etcd.endpoint)
    for (let n = 0; n < 5; n++) await connection.call(methods.range, range, patience())
    expect(etcd.sessions.length).toBeGreaterThan(1)
  })

  test('doubles its keepalive interval when the peer complains about too many pings', async () => {
    const complaints = 3
    const etcd = await fakeEtcd(call => call.push({ header: headerAt(1), created: true, watch_id: '0' }))
    const connection = connectionTo(etcd.endpoint)
    const intervals: number[] = []
    for (let n = 0; n <= complaints; n++) {
      const stream = await connection.watch(range, patience())
      const read = (async () => {
        for await (const _ of stream);
      })().catch(() => {})
      await expect.poll(() => etcd.sessions.length).toBe(n + 1)
      const session = etcd.sessions[n]
      if (session === undefined) throw new Error('no session')
      // The shortest of several: a busy machine only lengthens them.
      const pings: number[] = []
      session.on('ping', () => pings.push(performance.now()))
      await expect.poll(() => pings.length).toBeGreaterThan(20)
      intervals.push(Math.min(...pings.slice(1).map((at, i) => at - (pings[i] ?? 0))))
      session.goaway(constants.NGHTTP2_ENHANCE_YOUR_CALM, 0, Buffer.from('too_many_pings'))
      session.destroy()
      await read
    }
    const first = 5
    expect(intervals.at(-1)).toBeGreaterThan(first * 2 ** complaints * 0.5)
  })

  test('fails only the call whose response is too large', async () => {
    const held = new Map<string, FakeCall>()
    const etcd = await fakeEtcd(call => {
      held.set(String(call.request.key), call)
    })
    const connection = connectionTo(etcd.endpoint)
    const ask = (key: string) => connection.call(methods.range, { key: Buffer.from(key) }, patience())
    const neighbour = ask('neighbour')
    const large = failureOf(ask('large'))
    await expect.poll(() => held.size).toBe(2)
    held.get('large')?.send(Buffer.alloc(3), etcdDefaults.receiveBytes + 1)
    expect(await large).toMatchObject({ code: status.RESOURCE_EXHAUSTED, responseTooLarge: true })
    held.get('neighbour')?.respond(emptyPage)
    expect((await neighbour).header.revision).toBe('7')
    expect(etcd.sessions).toHaveLength(1)
  })
})

describe('the endpoints of one member', () => {
  test('replace a stalled connection once, however many calls fail on it', async () => {
    const { endpoint } = await fakeEtcd(() => {})
    const warnings: unknown[] = []
    const log = { ...silentLogger, warn: (fields: unknown) => void warnings.push(fields) }
    const endpoints = new Endpoints([endpoint], { probe: range.key }, log)
    cleanups.push(() => endpoints.close())
    const until = performance.now() + 100
    const failures = Array.from({ length: 20 }, () =>
      failureOf(endpoints.send(methods.range, range, { until })),
    )
    for (const failure of failures) {
      expect((await failure).code).toBe(status.DEADLINE_EXCEEDED)
      // The next call uses the new connection.
      void endpoints.send(methods.range, range, patience()).catch(() => {})
    }
    expect(warnings).toHaveLength(1)
  })
})

describe('a connection with a login', () => {
  /** A connection, and the login that it shares with others. */
  function connectionWithLogin(endpoint: string): Connection {
    const own = connectionTo(endpoint)
    const credentials = { user: 'root', password: 'secret' }
    const login = new Login(credentials, async request => (await own.authenticate(request, patience())).token)
    return connectionTo(endpoint, { login })
  }
  const stale = (call: FakeCall) => call.fail(16, 'etcdserver: invalid auth token')
  const token = (call: FakeCall, token: string) => call.respond({ header: headerAt(1), token })

  test('logs in once when etcd rejects the token of 64 calls at once', async () => {
    let logins = 0
    const early: FakeCall[] = []
    const etcd = await fakeEtcd(call => {
      if (call.method === 'Authenticate') token(call, `token ${++logins}`)
      else if (call.metadata.token === 'token 2') call.respond(emptyPage)
      // All calls have been sent with the stale token before the first rejection.
      else if (early.push(call) === 64) for (const one of early) stale(one)
    })
    const connection = connectionWithLogin(etcd.endpoint)
    await Promise.all(Array.from({ length: 64 }, () => connection.call(methods.range, range, patience())))
    expect(logins).toBe(2)
  })

  test('has one deadline for the login, the call, the second login and the second call', async () => {
    const reached: FakeCall[] = []
    const etcd = await fakeEtcd(call => {
      reached.push(call)
    })
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
    const connection = connectionWithLogin(etcd.endpoint)
    const failure = failureOf(connection.call(methods.range, range, { until: performance.now() + 1_000 }))
    const nth = async (n: number) => {
      while (reached.length < n) await new Promise(resolve => setImmediate(resolve))
      vi.advanceTimersByTime(300)
      const call = reached[n - 1]
      if (call === undefined) throw new Error('no call')
      return call
    }
    token(await nth(1), 'one')
    stale(await nth(2))
    token(await nth(3), 'two')
    // 1.2 s are over, and the last step has taken 300 ms.
    await nth(4)
    expect(await failure).toMatchObject({ code: status.DEADLINE_EXCEEDED, unsent: false })
  })

  test('reports a call as unsent if the login fails', async () => {
    const { endpoint } = await fakeEtcd(call => call.fail(3, 'etcdserver: authentication failed'))
    const connection = connectionWithLogin(endpoint)
    const failure = await failureOf(connection.call(methods.range, range, patience()))
    expect(failure).toMatchObject({ code: status.INVALID_ARGUMENT, unsent: true })
  })
})

describe('a watch stream', () => {
  const created = { header: headerAt(1), created: true, watch_id: '0' }

  test('delivers messages as they come, and its end as an error', async () => {
    const { endpoint } = await fakeEtcd(call => {
      call.push(created)
      call.push({ ...created, created: false })
      call.fail(14, 'going away')
    })
    const seen: boolean[] = []
    const stream = await connectionTo(endpoint).watch(range, patience())
    const read = async () => {
      for await (const { created } of stream) seen.push(created)
    }
    expect(await failureOf(read())).toMatchObject({ code: 14, message: 'going away' })
    expect(seen).toEqual([true, false])
  })

  test('ends at once when it is cancelled, even if the peer reads nothing', async () => {
    const { endpoint } = await fakeEtcd(call => {
      call.stream.session?.socket.pause()
      call.push(created)
    })
    const stream = await connectionTo(endpoint).watch(range, patience())
    const read = async () => {
      for await (const _ of stream);
    }
    const ended = failureOf(read())
    stream.cancel()
    expect(await ended).toMatchObject({ code: status.CANCELLED })
  })
})
