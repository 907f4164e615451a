import { once } from 'node:events'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { silentLogger } from '@setpoint/controller-runtime'
import { FakeClock } from '@setpoint/controller-runtime/testing'
import { Gauge } from 'prom-client'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { WebSocket } from 'ws'
import { openRooms, type Rooms, testModel, thing } from '../../../test/support/rooms.ts'
import { HistoryReplay, ModelSnapshot, ReadGate } from '../cache/index.ts'
import { Metrics } from '../metrics/index.ts'
import { ModelRegistry } from '../model/model-registry.ts'
import { defaultWriteOptions } from '../registry/index.ts'
import { RequestQueues, Turns } from '../scheduling/index.ts'
import { LocalAccess, LocalOrigins, RbacAuthorizer } from '../security/index.ts'
import type { Storage } from '../storage/index.ts'
import { WatchConnections, WatchHub } from '../watch/index.ts'
import { requestLimits } from './api-request.ts'
import { CustomRoutes } from './custom-routes.ts'
import { Health } from './health.ts'
import { ResourceApi } from './resource-api.ts'
import { RouteCallers } from './route-callers.ts'
import { ApiServer } from './server.ts'
import { warningDefaults } from './warning-headers.ts'
import { WatchApi, watchApiDefaults } from './watch-api.ts'
import { socketDefaults } from './watch-connection.ts'
import { streamDefaults } from './watch-stream.ts'

const path = `/apis/${testModel.apiVersion}/${testModel.plural}`

interface Served extends AsyncDisposable {
  readonly rooms: Rooms
  readonly metrics: Metrics
  readonly resourceApi: ResourceApi
  readonly hub: WatchHub
  readonly app: ApiServer
  readonly queues: RequestQueues
  readonly port: number
  /** Holds all reads until the returned function is called. */
  holdReads(): () => void
}

/** The HTTP server over a real embedded store. */
async function serve({ isStarting = (): boolean => false } = {}): Promise<Served> {
  const rooms = await openRooms()
  const { storage, served, registry, follower } = rooms
  let held = Promise.resolve()
  const head: Storage['head'] = async options => {
    await held
    return storage.head(options)
  }
  const gate = new ReadGate(
    {
      head,
      get: (key, options) => storage.get(key, options),
      list: (prefix, options) => storage.list(prefix, options),
      transact: (transaction, options) => storage.transact(transaction, options),
      watch: (prefix, options) => storage.watch(prefix, options),
      compact: (revision, options) => storage.compact(revision, options),
      space: options => storage.space(options),
      close: () => storage.close(),
    },
    follower,
  )
  const models = new ModelRegistry()
  models.add(served)
  const log = silentLogger
  const hub = new WatchHub({ gate, replay: new HistoryReplay(storage), follower, log })
  const metrics = new Metrics({ models, follower, hub })
  const authorizer = new RbacAuthorizer({ isSensitive: () => false })
  const resourceApi = new ResourceApi({ models, registry, follower, gate, basePath: '' })
  // On a clock that stands still no request waits, however slow the machine is.
  const queues = new RequestQueues({ clock: new FakeClock() })
  const app = new ApiServer({
    models,
    api: resourceApi,
    routes: new CustomRoutes(models, 'setpoint.dev', new RouteCallers()),
    hub,
    watchConnections: new WatchConnections(),
    origins: new LocalOrigins(),
    access: new LocalAccess(),
    authorizer,
    queues,
    health: new Health({ storage, follower, plugins: () => [] }),
    metrics,
    log,
    isStarting,
    basePath: '',
  })
  app.server.listen(0, '127.0.0.1')
  await once(app.server, 'listening')
  return {
    rooms,
    metrics,
    resourceApi,
    hub,
    app,
    queues,
    port: (app.server.address() as AddressInfo).port,
    holdReads() {
      let release = () => {}
      held = new Promise(resolve => {
        release = resolve
      })
      return release
    },
    async [Symbol.asyncDispose]() {
      const closed = once(app.server, 'close')
      app.server.close()
      hub.close()
      app.close()
      await closed
      await rooms[Symbol.asyncDispose]()
    },
  }
}

const sockets: Socket[] = []
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy()
})

/** Sends a request on a connection that never closes its half, and collects what it receives. */
function send(port: number, lines: readonly string[]): { socket: Socket; received(): string } {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
  sockets.push(socket)
  let text = ''
  socket.setEncoding('latin1').on('data', part => {
    text += part
  })
  socket.on('error', () => {})
  socket.write([...lines, '', ''].join('\r\n'))
  return { socket, received: () => text }
}

/** A text frame of 126 to 65,535 bytes, masked with zeros. */
function textFrame(text: string): Buffer {
  const header = Buffer.from([0x81, 0xfe, 0, 0, 0, 0, 0, 0])
  header.writeUInt16BE(text.length, 2)
  return Buffer.concat([header, Buffer.from(text)])
}

const upgrade = (target: string, ...headers: string[]) => [
  `GET ${target} HTTP/1.1`,
  'Host: localhost',
  'Connection: Upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
  ...headers,
]

describe('warnings', () => {
  const create = (port: number, spec: object) =>
    fetch(`http://127.0.0.1:${port}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(thing('a', spec)),
    })

  it('name unknown fields in any script as UTF-8, and the write succeeds', async () => {
    await using server = await serve()
    const response = await create(server.port, { имя: 1, 'a\u007f\n': 2 })
    expect(response.status).toBe(201)
    const warning = Buffer.from(response.headers.get('warning') ?? '', 'latin1').toString()
    expect(warning).toContain('имя')
  })

  it('stay within the limit for any number and length of unknown fields', async () => {
    await using server = await serve()
    const fields = Object.fromEntries(Array.from({ length: 300 }, (_, n) => [`${n}${'long'.repeat(500)}`, n]))
    const response = await create(server.port, fields)
    expect(response.status).toBe(201)
    const warning = response.headers.get('warning') ?? ''
    expect(warning.length).toBeLessThan(2 * warningDefaults.maxTotal)
    expect(warning).toMatch(/and \d+ more"$/)
  })
})

describe('a request', () => {
  it('gets a Status for a malformed target', async () => {
    await using server = await serve()
    const { socket, received } = send(server.port, [
      'GET http://[::1 HTTP/1.1',
      'Host: localhost',
      'Connection: close',
    ])
    await once(socket, 'end')
    expect(received()).toMatch(/^HTTP\/1.1 400 /)
    expect(received()).toContain('"reason":"BadRequest"')
  })

  it('with a transfer coding that is not supported gets a 400 that names it', async () => {
    await using server = await serve()
    const { socket, received } = send(server.port, [
      `POST ${path} HTTP/1.1`,
      'Host: localhost',
      'Content-Type: application/json',
      'Transfer-Encoding: gzip, chunked',
      'Connection: close',
      '',
      '0',
    ])
    await once(socket, 'end')
    expect(received()).toMatch(/^HTTP\/1.1 400 /)
    expect(received()).toContain('the transfer coding \\"gzip, chunked\\" is not supported, only chunked')
  })

  it('gets a Status for a malformed WebSocket handshake', async () => {
    await using server = await serve()
    for (const [lines, status, reason] of [
      [upgrade(path), 400, 'BadRequest'],
      [
        upgrade(path).map(line => line.replace('GET', 'POST').replace(/^Upgrade.*/, 'Upgrade: websocket')),
        405,
        'MethodNotAllowed',
      ],
    ] as const) {
      const { socket, received } = send(server.port, lines)
      await once(socket, 'end')
      expect(received()).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
      expect(received()).toContain(`"reason":"${reason}"`)
    }
  })

  it('with an offer of h2c is served as if it had none', async () => {
    await using server = await serve()
    await server.rooms.registry.create(server.rooms.served, thing('a'), defaultWriteOptions)
    const offer = [
      'Host: localhost',
      'Connection: Upgrade, HTTP2-Settings',
      'Upgrade: h2c',
      'HTTP2-Settings: AAMAAABk',
    ]
    const { socket, received } = send(server.port, [`GET ${path}/a HTTP/1.1`, ...offer])
    await once(socket, 'end')
    expect(received()).toMatch(/^HTTP\/1.1 200 /)
    expect(received()).toContain('"name":"a"')
  })

  it('with an offer of h2c is served behind another request and ends the connection', async () => {
    await using server = await serve()
    const version = ['GET /version HTTP/1.1', 'Host: localhost', '']
    const offer = ['Host: localhost', 'Connection: Upgrade', 'Upgrade: h2c', '']
    const { socket, received } = send(server.port, [
      ...version,
      'GET /nowhere HTTP/1.1',
      ...offer,
      ...version.slice(0, -1),
    ])
    await once(socket, 'end')
    expect(received().match(/HTTP\/1.1 .*/g)).toEqual(['HTTP/1.1 200 OK', 'HTTP/1.1 404 Not Found'])
    expect(received().match(/^connection: .*/gim)).toEqual(['Connection: keep-alive', 'Connection: close'])
  })

  it('with an offer of h2c is served with its body', async () => {
    await using server = await serve()
    const body = JSON.stringify(thing('a'))
    const { socket, received } = send(server.port, [
      `POST ${path} HTTP/1.1`,
      'Host: localhost',
      'Connection: Upgrade',
      'Upgrade: h2c',
      'Content-Type: application/json',
      `Content-Length: ${body.length}`,
      '',
      body,
    ])
    await once(socket, 'end')
    expect(received()).toMatch(/^HTTP\/1.1 201 /)
  })

  it('for a handshake behind an open request is served as a plain request', async () => {
    await using server = await serve()
    const key = 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='
    const version = ['GET /version HTTP/1.1', 'Host: localhost', '']
    const { socket, received } = send(server.port, [...version, ...upgrade('/version', key)])
    await once(socket, 'end')
    expect(received().match(/HTTP\/1.1 .*/g)).toEqual(['HTTP/1.1 200 OK', 'HTTP/1.1 200 OK'])
  })

  it.each(['GET /version HTTP/1.0', 'HEAD /version HTTP/1.1'])(
    'for a handshake as %s is served as a plain request',
    async line => {
      await using server = await serve()
      const key = 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='
      const [, ...headers] = upgrade('/version', key)
      const { socket, received } = send(server.port, [line, ...headers])
      await once(socket, 'end')
      const [, content] = received().split('\r\n\r\n')
      expect(received()).toMatch(/^HTTP\/1.1 200 /)
      expect(content === '').toBe(line.startsWith('HEAD'))
    },
  )

  it('with an offer of h2c gets its whole response, and ends with its client', async () => {
    await using server = await serve()
    const { registry, served, gate } = server.rooms
    for (let n = 0; n < 4; n++)
      await registry.create(served, thing(`t${n}`, { big: 'x'.repeat(1_000_000) }), defaultWriteOptions)
    await gate.pass()
    const offer = ['Host: localhost', 'Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c']
    const list = send(server.port, [`GET ${path} HTTP/1.1`, ...offer])
    await once(list.socket, 'end')
    expect(list.received().length).toBeGreaterThan(4_000_000)

    const watch = send(server.port, [`GET ${path}?watch=true&allowWatchBookmarks=true HTTP/1.1`, ...offer])
    while (!watch.received().includes('initial-events-end')) await once(watch.socket, 'data')
    expect(server.hub.size).toBe(1)
    watch.socket.destroy()
    await expect.poll(() => server.hub.size).toBe(0)
  })

  it('with a method that the path does not take gets a 405, and no bytes of its body become a request', async () => {
    await using server = await serve()
    const body = 'GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n'
    const lines = ['POST /version HTTP/1.1', 'Host: localhost', `Content-Length: ${body.length + 1}`]
    const { socket, received } = send(server.port, lines)
    while (!received().includes('\r\n\r\n')) await once(socket, 'data')
    socket.write(body)
    await once(socket, 'end')
    expect(received().match(/HTTP\/1.1 .*/g)).toEqual(['HTTP/1.1 405 Method Not Allowed'])
    expect(received()).toMatch(/^allow: GET, HEAD\r$/im)
    expect(received()).toMatch(/^connection: close\r$/im)
  })

  it('that is rejected does not keep its connection open, even if the client never closes its half', async () => {
    await using server = await serve()
    const key = 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='
    const refused = [send(server.port, upgrade('/apis/x/v1/y', key)), send(server.port, ['garbage'])]
    await Promise.all(refused.map(({ socket }) => once(socket, 'end')))
    await vi.waitFor(
      async () => {
        const open = await new Promise((resolve, reject) =>
          server.app.server.getConnections((error, count) => (error ? reject(error) : resolve(count))),
        )
        expect(open).toBe(0)
      },
      { timeout: requestLimits.discardMs + 60_000 },
    )
  })
})

describe('the metrics', () => {
  it('are built once for all scrapes that arrive in one turn of the event loop', async () => {
    await using server = await serve()
    let built = 0
    new Gauge({
      name: 'builds',
      help: 'Counts the scrapes that read it.',
      registers: [server.metrics.registry],
      collect() {
        this.set(++built)
      },
    })
    const livez = ['GET /livez HTTP/1.1', 'Host: localhost', '']
    const scrape = ['GET /metrics HTTP/1.1', 'Host: localhost', '']
    const callers = Array.from({ length: 10 }, () => send(server.port, livez.slice(0, -1)))
    await expect.poll(() => callers.every(({ received }) => received().endsWith('ok'))).toBe(true)
    for (const { socket } of callers) socket.write(`${scrape.join('\r\n')}\r\n`)
    const builds = () => callers.map(({ received }) => /^builds \d+$/m.exec(received())?.[0])
    await expect.poll(builds).toEqual(Array(10).fill('builds 1'))
    const later = send(server.port, scrape.slice(0, -1))
    while (!/^builds 2$/m.test(later.received())) await once(later.socket, 'data')
  })
})

describe('a socket of many watches', () => {
  it('has one message handled in each turn of the event loop', async () => {
    await using server = await serve()
    let turn = 0
    let isOver = false
    const count = () => {
      turn++
      if (!isOver) setImmediate(count)
    }
    count()
    const { resourceApi } = server
    const turns: number[] = []
    const cacheOf = resourceApi.cacheOf.bind(resourceApi)
    vi.spyOn(resourceApi, 'cacheOf').mockImplementation(served => {
      turns.push(turn)
      return cacheOf(served)
    })
    const socket = new WebSocket(`ws://127.0.0.1:${server.port}/apis`, 'v1.watch.setpoint.dev')
    await once(socket, 'open')
    const connection = Reflect.get(socket, '_socket') as Socket
    connection.cork()
    for (let n = 0; n < 20; n++) socket.send(JSON.stringify({ op: 'subscribe', id: String(n), path }))
    connection.uncork()
    await expect.poll(() => server.hub.size).toBe(20)
    isOver = true
    // The first is handled as it arrives, perhaps in the turn in which the second is due.
    expect(turns).toHaveLength(20)
    expect(new Set(turns.slice(1)).size).toBe(19)
    socket.terminate()
  })
})

describe('a watch over plain HTTP', () => {
  it('is not opened for a client that disconnected while it waited', async () => {
    await using server = await serve()
    const stream = vi.spyOn(WatchApi.prototype, 'stream')
    const release = server.holdReads()
    const { socket } = send(server.port, [`GET ${path}?watch=true HTTP/1.1`, 'Host: localhost'])
    const [accepted] = await once(server.app.server, 'connection')
    await expect.poll(() => stream.mock.calls.length).toBe(1)
    socket.destroy()
    await once(accepted, 'close')
    release()
    await stream.mock.results[0]?.value
    expect(server.hub.size).toBe(0)
    vi.restoreAllMocks()
  })

  it('ends with its connection, also if other requests wait behind it', async () => {
    await using server = await serve()
    const request = [`GET ${path}?watch=true HTTP/1.1`, 'Host: localhost', '', '']
    const { socket } = send(server.port, [
      ...request.slice(0, -1),
      ...request.slice(0, -1),
      ...request.slice(0, -2),
    ])
    await expect.poll(() => server.hub.size).toBe(1)
    socket.destroy()
    await expect.poll(() => server.hub.size).toBe(0)
  })

  it('that is refused does not drop the requests behind it', async () => {
    await using server = await serve()
    const body = JSON.stringify(thing('a'))
    const { socket, received } = send(server.port, [
      ...[`GET ${path}?watch=true&labelSelector=!! HTTP/1.1`, 'Host: localhost', ''],
      ...[`POST ${path} HTTP/1.1`, 'Host: localhost', 'Connection: close', 'Content-Type: application/json'],
      `Content-Length: ${body.length}`,
      '',
      body,
    ])
    await once(socket, 'end')
    expect(received().match(/HTTP\/1.1 .*/g)).toEqual(['HTTP/1.1 400 Bad Request', 'HTTP/1.1 201 Created'])
  })

  it('is not opened if the server starts to drain while it waits', async () => {
    await using server = await serve()
    const release = server.holdReads()
    const { received, socket } = send(server.port, [`GET ${path}?watch=true HTTP/1.1`, 'Host: localhost'])
    await once(server.app.server, 'request')
    await server.app.drainWatches(0)
    release()
    while (received() === '') await once(socket, 'data')
    expect(received()).toMatch(/^HTTP\/1\.1 503 /)
    expect(server.hub.size).toBe(0)
  })

  it('disconnects a client that does not read the rest after the end', async () => {
    await using server = await serve()
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    try {
      const { socket, received } = send(server.port, [`GET ${path}?watch=true HTTP/1.1`, 'Host: localhost'])
      const [accepted] = await once(server.app.server, 'connection')
      while (!received().startsWith('HTTP/1.1 200 ')) await once(socket, 'data')
      socket.pause()
      const { registry, served } = server.rooms
      const big = 'x'.repeat(1_000_000)
      // More than the kernel's buffers and then the server's hold.
      for (let n = 0; server.hub.size > 0; n++)
        await registry.create(served, thing(`t${n}`, { big }), defaultWriteOptions)
      expect(accepted.destroyed).toBe(false)
      await vi.advanceTimersByTimeAsync(streamDefaults.closeMs)
      expect(accepted.destroyed).toBe(true)
    } finally {
      vi.useRealTimers()
    }
  })
})

describe('a draining server', () => {
  it('does not wait for clients that do not complete the close of a WebSocket', async () => {
    await using server = await serve()
    const key = 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='
    const { socket } = send(server.port, upgrade(path, key))
    const [accepted] = await once(server.app.server, 'connection')
    await once(socket, 'data')
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    try {
      const drained = server.app.drainWatches(0)
      await vi.advanceTimersByTimeAsync(watchApiDefaults.closeMs - 1)
      await drained
      expect(accepted.destroyed).toBe(false)
      await vi.advanceTimersByTimeAsync(1_000)
      expect(accepted.destroyed).toBe(true)
    } finally {
      vi.useRealTimers()
    }
  })
})

describe('a WebSocket', () => {
  it('whose watch fails after the handshake is closed', async () => {
    await using server = await serve()
    vi.spyOn(server.hub, 'open').mockImplementation(() => {
      throw new Error('the watch does not open')
    })
    const socket = new WebSocket(`ws://127.0.0.1:${server.port}${path}`)
    await once(socket, 'open')
    const [code] = await once(socket, 'close')
    expect(code).toBe(1006)
    vi.restoreAllMocks()
  })

  it('is paused while its client reads no replies, and resumed afterwards', async () => {
    await using server = await serve()
    const { socket } = send(server.port, [
      ...upgrade('/apis', 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='),
      'Sec-WebSocket-Protocol: v1.watch.setpoint.dev',
    ])
    const [accepted] = await once(server.app.server, 'connection')
    await once(socket, 'data')
    socket.pause()
    // Text frames of `{`, masked with zeros. Each gets a reply.
    const messages = Buffer.concat(Array(20_000).fill(Buffer.from([0x81, 0x81, 0, 0, 0, 0, 0x7b])))
    // More than the kernel's buffers hold.
    for (let n = 0; n < 200; n++) socket.write(messages)
    await expect.poll(() => accepted.isPaused()).toBe(true)
    expect(accepted.writableLength).toBeLessThan(16_000_000)

    const before = accepted.bytesRead
    socket.resume()
    await expect.poll(() => accepted.bytesRead).toBeGreaterThan(before)
    socket.destroy()
    await expect.poll(() => accepted.closed).toBe(true)
  })

  it('is not read while its messages wait for their turn', async () => {
    await using server = await serve()
    const { socket, received } = send(server.port, [
      ...upgrade('/apis', 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='),
      'Sec-WebSocket-Protocol: v1.watch.setpoint.dev',
    ])
    const [accepted] = await once(server.app.server, 'connection')
    await once(socket, 'data')
    const waiting: (() => void)[] = []
    const wait = vi
      .spyOn(Turns.prototype, 'wait')
      .mockImplementation((_caller, handle) => void waiting.push(handle))
    const count = 500
    for (let n = 0; n < count; n++)
      socket.write(textFrame(JSON.stringify({ op: 'subscribe', id: `${n}`, path: `/${'x'.repeat(10_000)}` })))
    await expect.poll(() => accepted.isPaused()).toBe(true)
    // One message arrives in each turn of the event loop.
    for (let turn = 0; turn < count; turn++) await new Promise(resolve => setImmediate(resolve))
    // Those of the 64 KiB that Node reads at once, and the one before.
    expect(waiting.length).toBeLessThan(9)
    expect(received()).not.toContain('END')
    wait.mockRestore()
    for (const handle of waiting) handle()
    await expect.poll(() => received().match(/"type":"END","code":404/g)?.length).toBe(count)
  })

  it('of a caller with too many waiting messages is reset if it has many of them', async () => {
    await using server = await serve()
    const { socket } = send(server.port, [
      ...upgrade('/apis', 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='),
      'Sec-WebSocket-Protocol: v1.watch.setpoint.dev',
    ])
    const ended = once(socket, 'end')
    await once(socket, 'data')
    const wait = vi.spyOn(Turns.prototype, 'wait').mockImplementation(() => {})
    vi.spyOn(Turns.prototype, 'sizeOf').mockReturnValue(socketDefaults.waitingPerCaller)
    try {
      socket.write(Buffer.concat(Array(1_000).fill(Buffer.from([0x81, 0x81, 0, 0, 0, 0, 0x7b]))))
      await ended
      expect(wait).toHaveBeenCalledTimes(socketDefaults.waitingPerConnection)
    } finally {
      vi.restoreAllMocks()
    }
  })

  it('closes at a message of too many fragments', async () => {
    await using server = await serve()
    const client = new WebSocket(`ws://127.0.0.1:${server.port}/apis`, 'v1.watch.setpoint.dev')
    await once(client, 'open')
    const closed = once(client, 'close')
    // Empty ones, which do not count as bytes.
    for (let n = 0; n <= socketDefaults.maxFragments; n++) client.send('', { fin: false })
    const [code] = await closed
    expect(code).toBe(1008)
  })

  it("sends no events after the reply to its client's close, even if that is still unsent", async () => {
    await using server = await serve()
    const { registry, served, gate } = server.rooms
    const create = async (n: number, big: string) => {
      await registry.create(served, thing(`t${n}`, { big }), defaultWriteOptions)
      await gate.pass()
    }
    const key = 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='
    const { socket, received } = send(server.port, upgrade(path, key))
    const [accepted] = await once(server.app.server, 'connection')
    await once(socket, 'data')
    socket.pause()
    let made = 0
    // Until the kernel's buffers are full.
    while (accepted.writableLength < 500_000) await create(made++, 'x'.repeat(1_000_000))
    const heard = accepted.bytesRead
    socket.write(Buffer.from([0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe8]))
    await expect.poll(() => accepted.bytesRead).toBeGreaterThan(heard)
    await create(made++, 'after the close')
    await new Promise(resolve => setImmediate(resolve))
    socket.resume()
    await once(socket, 'end')
    expect(received().endsWith('\x88\x02\x03\xe8')).toBe(true)
    expect(received()).not.toContain('after the close')
  })

  it('is terminated when its client stops reading, not while it reads slowly', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    try {
      await using server = await serve()
      const { registry, served, gate } = server.rooms
      for (let n = 0; n < 40; n++)
        await registry.create(served, thing(`t${n}`, { big: 'x'.repeat(1_000_000) }), defaultWriteOptions)
      await gate.pass()
      const { socket } = send(server.port, upgrade(path, 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='))
      const [accepted] = await once(server.app.server, 'connection')
      let drains = 0
      accepted.on('drain', () => drains++)
      /** Pings while bytes are unsent. Returns true if the kernel has taken more of them since the last ping. */
      const ping = async () => {
        do await new Promise(setImmediate)
        while (accepted.writableLength === 0)
        const hasProgress = drains > 0
        drains = 0
        vi.advanceTimersByTime(socketDefaults.pingMs)
        return hasProgress
      }
      await once(socket, 'data')
      socket.pause()
      await ping()
      for (let round = 1; round <= 3; round++) {
        socket.resume()
        await once(accepted, 'drain')
        socket.pause()
        expect(await ping()).toBe(true)
        expect(accepted.destroyed).toBe(false)
      }
      // Until the kernel's buffers are full.
      while (await ping()) expect(accepted.destroyed).toBe(false)
      expect(accepted.destroyed).toBe(true)
    } finally {
      vi.useRealTimers()
    }
  })
})

describe('the deletion of a collection', () => {
  it('is aborted when its client disconnects', async () => {
    await using server = await serve()
    const handle = vi.spyOn(ResourceApi.prototype, 'handle')
    const run = vi.spyOn(ModelSnapshot.prototype, 'view')
    const release = server.holdReads()
    const { socket } = send(server.port, [`DELETE ${path} HTTP/1.1`, 'Host: localhost'])
    await expect.poll(() => handle.mock.calls.length).toBe(1)
    const signal = handle.mock.calls[0]?.[1].signal
    expect(signal?.aborted).toBe(false)
    socket.destroy()
    await expect.poll(() => signal?.aborted).toBe(true)
    release()
    await expect(handle.mock.results[0]?.value).rejects.toBe(signal?.reason)
    expect(run).not.toHaveBeenCalled()
    vi.restoreAllMocks()
  })
})

describe('a request that arrives before the plugins have started', () => {
  it.each([
    path.replace('things', 'others'),
    `${path}/a/mail`,
    '/apis/others.example.com',
    '/openapi/v3/apis/others.example.com/v1',
  ])('is responded to with 503 although it waits until they have, at %s', async target => {
    let isStarting = true
    await using server = await serve({ isStarting: () => isStarting })
    vi.spyOn(server.queues, 'passes').mockReturnValue(false)
    vi.spyOn(server.queues, 'wait').mockImplementation(async () => {
      isStarting = false
    })
    const early = send(server.port, [`GET ${target} HTTP/1.1`, 'Host: localhost'])
    await expect.poll(early.received).toMatch(/^HTTP\/1.1 503 /)
    vi.restoreAllMocks()
    const late = send(server.port, [`GET ${target} HTTP/1.1`, 'Host: localhost'])
    await expect.poll(late.received).toMatch(/^HTTP\/1.1 404 /)
  })
})
