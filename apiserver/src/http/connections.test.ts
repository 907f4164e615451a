import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { connect, Socket } from 'node:net'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { silentLogger } from '@setpoint/controller-runtime'
import { isApiError } from '@setpoint/controller-runtime/api'
import { FakeClock } from '@setpoint/controller-runtime/testing'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { hold } from '../../../test/support/rooms.ts'
import { connectionDefaults, drainDefaults } from './connection.ts'
import { Connections } from './connections.ts'
import { errorResponse, toApiError } from './error-response.ts'
import { readRequestBody } from './request-body.ts'
import { requestsThatUpgrade } from './upgrade-offer.ts'

type Handler = (message: IncomingMessage, response: ServerResponse) => Promise<void> | void

/** An HTTP server with `Connections` and a fake clock. */
class Served {
  readonly clock = new FakeClock()
  readonly connections: Connections
  /** The paths of the handled requests, in order. */
  readonly handled: string[] = []
  /** The server's sockets, in the order of their acceptance. */
  readonly accepted: Socket[] = []
  /** The number of requests that Node has parsed. */
  parsed = 0
  readonly #server = createServer(
    { connectionsCheckingInterval: 2 ** 30, IncomingMessage: requestsThatUpgrade(() => false) },
    (message, response) => {
      this.parsed++
      this.connections.handle(message, response, () => {
        this.handled.push(message.url ?? '')
        void this.#handle(message, response)
      })
    },
  )
  readonly #handler: Handler
  #port = 0

  constructor(handler: Handler, limit = Infinity) {
    this.#handler = handler
    this.connections = new Connections(this.#server, { log: silentLogger, clock: this.clock, limit })
    this.#server.on('connection', socket => this.accepted.push(socket))
    this.#server.on('upgrade', () => {})
    this.#server.on('clientError', (error, socket) => {
      if (socket instanceof Socket) this.connections.refuse(socket, toApiError(error, silentLogger, {}))
    })
  }

  async #handle(message: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      await this.#handler(message, response)
    } catch (error) {
      if (!isApiError(error) || response.destroyed) return
      const { status, body } = errorResponse(error)
      response.writeHead(status, { connection: 'close' }).end(body)
    }
  }

  async listen(): Promise<void> {
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
    const address = this.#server.address()
    if (address === null || typeof address === 'string') throw new Error('no port')
    this.#port = address.port
  }

  connect(): Client {
    return new Client(this.#port)
  }

  /** Emits what Node emits for a connection that has been idle for the keep-alive time. */
  timesOut(socket: Socket): void {
    this.#server.emit('timeout', socket)
  }

  close(): void {
    this.connections.close()
  }
}

/** A client that never closes its half of the connection. */
class Client {
  readonly socket: Socket
  text = ''
  hasEnded = false
  hasFailed = false

  constructor(port: number) {
    this.socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
    this.socket.setEncoding('latin1').on('data', text => {
      this.text += text
    })
    this.socket.on('end', () => {
      this.hasEnded = true
    })
    this.socket.on('error', () => {
      this.hasFailed = true
    })
    clients.push(this)
  }

  get(...paths: readonly string[]): void {
    this.socket.write(paths.map(path => `GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`).join(''))
  }

  post(path: string, length: number, body: string): void {
    this.socket.write(`POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-length: ${length}\r\n\r\n${body}`)
  }

  receives(text: string): Promise<void> {
    return eventually(() => expect(this.text).toContain(text))
  }

  ends(): Promise<void> {
    return eventually(() => expect(this.hasEnded).toBe(true))
  }
}

const clients: Client[] = []
let served: Served | undefined

afterEach(() => {
  for (const { socket } of clients.splice(0)) socket.destroy()
  served?.close()
})

const saysDone: Handler = async (_message, response) => {
  await Promise.resolve()
  response.end('done')
}

async function serve(handler: Handler = saysDone, limit = Infinity): Promise<Served> {
  served = new Served(handler, limit)
  await served.listen()
  return served
}

function eventually(assertion: () => void): Promise<void> {
  return vi.waitFor(assertion, { interval: 2, timeout: 60_000 })
}

const { lingerMs } = drainDefaults
const quietMs = drainDefaults.idleChecks * drainDefaults.checkMs
const readsBody: Handler = async (message, response) => {
  response.end(await readRequestBody(message))
}

describe('a draining server', () => {
  it('responds to a request on an idle connection, announces the close, and closes it', async () => {
    const server = await serve()
    const client = server.connect()
    client.get('/one')
    await client.receives('done')
    expect(client.text).toMatch(/^connection: keep-alive/im)
    client.text = ''
    void server.connections.drain()
    client.get('/two')
    await client.receives('done')
    expect(client.text).toMatch(/^connection: close/im)
    await client.ends()
  })

  it('responds to an earlier request and announces the close', async () => {
    const { held, release } = hold()
    const server = await serve(async (_message, response) => {
      await held
      response.end('done')
    })
    const client = server.connect()
    client.get('/one')
    await eventually(() => expect(server.handled).toEqual(['/one']))
    const drained = server.connections.drain()
    // Longer than every time limit of the drain.
    await server.clock.advance(60_000)
    release()
    await client.receives('done')
    expect(client.text).toMatch(/^connection: close/im)
    await client.ends()
    client.socket.end()
    await drained
  })

  it('responds to all pipelined requests, and announces the close only with the last response', async () => {
    const server = await serve()
    const client = server.connect()
    await eventually(() => expect(server.accepted).toHaveLength(1))
    void server.connections.drain()
    client.get('/one', '/two', '/three')
    await client.ends()
    expect(client.text.match(/done/g)).toHaveLength(3)
    expect(client.text.match(/^connection: .*/gim)).toEqual([
      'Connection: keep-alive',
      'Connection: keep-alive',
      'Connection: close',
    ])
  })

  it('does not handle requests behind the announced close', async () => {
    const { held, release } = hold()
    const server = await serve(async (_message, response) => {
      response.write('begun')
      await held
      response.end('done')
    })
    const client = server.connect()
    await eventually(() => expect(server.accepted).toHaveLength(1))
    void server.connections.drain()
    client.get('/one')
    await client.receives('begun')
    client.get('/two')
    await eventually(() => expect(server.accepted[0]?.bytesRead).toBeGreaterThan(50))
    release()
    await client.ends()
    expect(server.handled).toEqual(['/one'])
    expect(client.text).toContain('done')
  })

  it('waits for one more request on an idle connection, then closes its half and handles nothing more', async () => {
    const server = await serve()
    const client = server.connect()
    client.get('/one')
    await client.receives('done')
    void server.connections.drain()
    await server.clock.advance(quietMs - drainDefaults.checkMs)
    expect(server.accepted[0]?.writableEnded).toBe(false)
    await server.clock.advance(drainDefaults.checkMs)
    await client.ends()
    client.get('/two')
    await eventually(() => expect(server.accepted[0]?.bytesRead).toBeGreaterThan(50))
    expect(server.accepted[0]?.destroyed).toBe(false)
    await server.clock.advance(lingerMs)
    expect(server.accepted[0]?.destroyed).toBe(true)
    expect(server.handled).toEqual(['/one'])
    expect(client.hasFailed).toBe(false)
  })

  it('rejects new connections, and closes silent ones', async () => {
    const server = await serve()
    const silent = server.connect()
    await eventually(() => expect(server.accepted).toHaveLength(1))
    const drained = server.connections.drain()
    await new Promise(resolve => setImmediate(resolve))
    const late = server.connect()
    await eventually(() => expect(late.hasFailed).toBe(true))
    await server.clock.advance(quietMs)
    await silent.ends()
    expect(silent.text).toBe('')
    await server.clock.advance(lingerMs)
    await drained
  })

  it('rejects a request with incomplete headers with 503 and does not handle it', async () => {
    const server = await serve()
    const client = server.connect()
    client.socket.write('POST /one HTTP/1.1\r\nhost: x\r\n')
    await eventually(() => expect(server.accepted[0]?.bytesRead).toBeGreaterThan(0))
    void server.connections.drain()
    await server.clock.advance(quietMs)
    await client.ends()
    expect(client.text).toMatch(/^HTTP\/1.1 503 /)
    expect(client.text).toContain('"reason":"ServiceUnavailable"')
    expect(server.handled).toEqual([])
  })

  it('rejects a request with a stalled body, and waits for a slow body', async () => {
    const server = await serve(readsBody)
    const still = server.connect()
    const going = server.connect()
    still.post('/still', 10, 'abc')
    going.post('/going', 10, 'a')
    await eventually(() => expect(server.handled).toHaveLength(2))
    void server.connections.drain()
    for (const letter of 'bcdefghi') {
      const before = server.accepted.map(({ bytesRead }) => bytesRead).reduce((a, b) => a + b)
      going.socket.write(letter)
      await eventually(() =>
        expect(server.accepted.map(({ bytesRead }) => bytesRead).reduce((a, b) => a + b)).toBe(before + 1),
      )
      await server.clock.advance(drainDefaults.bodyStallMs - drainDefaults.checkMs)
    }
    await still.ends()
    expect(still.text).toMatch(/^HTTP\/1.1 503 /)
    expect(going.text).toBe('')
    going.socket.write('j')
    await going.ends()
    expect(going.text).toMatch(/^HTTP\/1.1 200 [\s\S]*abcdefghij$/)
  })

  it('disconnects a client that does not read a large response', async () => {
    const server = await serve((_message, response) => void response.end(Buffer.alloc(64_000_000)))
    const still = server.connect()
    still.socket.pause()
    still.get('/still')
    await eventually(() => expect(server.handled).toHaveLength(1))
    const drained = server.connections.drain()
    await server.clock.advance(drainDefaults.responseStallMs - drainDefaults.checkMs)
    expect(server.accepted[0]?.destroyed).toBe(false)
    await server.clock.advance(drainDefaults.checkMs)
    expect(server.accepted[0]?.destroyed).toBe(true)
    await drained
  })
})

describe('pipelined requests', () => {
  const paths = (count: number) => Array.from({ length: count }, (_, n) => `/${n}`)

  it('are handled one after another', async () => {
    const { held, release } = hold()
    const server = await serve(async (message, response) => {
      await held
      response.end(`saw ${message.url};`)
    })
    const client = server.connect()
    client.get(...paths(5))
    await eventually(() => expect(server.parsed).toBe(5))
    expect(server.handled).toEqual(['/0'])
    release()
    await client.receives('saw /4')
    expect(client.text.match(/saw [^;]*/g)).toEqual(paths(5).map(path => `saw ${path}`))
    client.get('/again')
    await client.receives('saw /again')
  })

  it('are handled in different turns of the event loop', async () => {
    let turn = 0
    let isOver = false
    const count = () => {
      turn++
      if (!isOver) setImmediate(count)
    }
    const turns: number[] = []
    const server = await serve((_message, response) => {
      turns.push(turn)
      response.end('done')
    })
    const client = server.connect()
    count()
    client.get(...paths(20))
    await eventually(() => expect(turns).toHaveLength(20))
    isOver = true
    expect(new Set(turns).size).toBe(20)
  })

  it('disconnect a client with too many, and are parsed no further', async () => {
    const { pipelined } = connectionDefaults
    const server = await serve(() => {})
    const modest = server.connect()
    modest.get(...paths(1 + pipelined))
    await eventually(() => expect(server.parsed).toBe(1 + pipelined))
    const greedy = server.connect()
    greedy.get(...paths(1_500))
    await eventually(() => expect(greedy.hasEnded || greedy.hasFailed).toBe(true))
    expect(server.parsed).toBe(1 + pipelined + 1 + pipelined + 1)
    expect(server.accepted.map(({ destroyed }) => destroyed)).toEqual([false, true])
  })

  it('disconnect a client with too many bytes of them', async () => {
    const server = await serve(() => {})
    const client = server.connect()
    const long = `/${'x'.repeat(8 * 1024)}`
    client.get('/', ...Array.from({ length: connectionDefaults.pipelined }, () => long))
    await eventually(() => expect(client.hasEnded || client.hasFailed).toBe(true))
    expect(server.handled).toEqual(['/'])
  })

  it('wait with a part of their bodies', async () => {
    const server = await serve(readsBody)
    const client = server.connect()
    for (const letter of 'abc') client.post(`/${letter}`, 100_000, letter.repeat(100_000))
    for (const letter of 'abc') await client.receives(letter.repeat(100_000))
    expect(server.handled).toEqual(['/a', '/b', '/c'])
  })

  it('are not handled behind a response that closes the connection', async () => {
    const server = await serve((_message, response) => {
      response.writeHead(200, { connection: 'close' }).end('done')
    })
    const client = server.connect()
    client.get(...paths(3))
    await client.ends()
    expect(server.handled).toEqual(['/0'])
  })
})

describe('a response that closes the connection', () => {
  it.each(['HTTP/1.1', 'HTTP/1.0'])('is not reset with the requests behind it: %s', async version => {
    const { held, release } = hold()
    const server = await serve(async (_message, response) => {
      await held
      response.writeHead(200, { connection: 'close' }).end('done')
    })
    const client = server.connect()
    client.socket.write(`GET /one ${version}\r\nhost: x\r\n\r\n`)
    client.get('/two')
    await eventually(() => expect(server.handled).toEqual(['/one']))
    release()
    client.get(...Array.from({ length: 5_000 }, (_, n) => `/${n}`))
    await client.ends()
    const [accepted] = server.accepted
    expect(client.text).toContain('done')
    // Everything that the client has sent is read.
    await eventually(() => expect(accepted?.bytesRead).toBe(client.socket.bytesWritten))
    expect([server.handled, client.hasFailed]).toEqual([['/one'], false])
    await server.clock.advance(connectionDefaults.checkMs + lingerMs)
    expect(accepted?.destroyed).toBe(true)
  })

  it('is closed as soon as the client closes its half', async () => {
    const server = await serve((_message, response) => {
      response.writeHead(200, { connection: 'close' }).end('done')
    })
    const client = server.connect()
    client.get('/one')
    await client.ends()
    client.socket.end()
    await eventually(() => expect(server.accepted[0]?.destroyed).toBe(true))
  })
})

describe('a client that closes its half', () => {
  it('gets the responses to all of its requests, and then the close', async () => {
    const server = await serve(async ({ socket }, response) => {
      await eventually(() => expect(socket.readableEnded).toBe(true))
      response.end(`saw ${response.req.url};`)
    })
    const client = server.connect()
    client.get('/one', '/two', '/three')
    client.socket.end()
    await client.ends()
    expect(client.text.match(/saw [^;]*/g)).toEqual(['saw /one', 'saw /two', 'saw /three'])
  })

  it('counts as gone if no response begins for a second', async () => {
    const server = await serve((message, response) => {
      if (message.url === '/begun') response.write('begun')
    })
    const silent = server.connect()
    const begun = server.connect()
    silent.get('/silent')
    begun.get('/begun')
    await begun.receives('begun')
    for (const { socket } of [silent, begun]) socket.end()
    await eventually(() => {
      expect(server.accepted.map(({ readableEnded }) => readableEnded)).toEqual([true, true])
    })
    await server.clock.advance(connectionDefaults.leftMs - 1)
    expect(server.accepted.map(({ destroyed }) => destroyed)).toEqual([false, false])
    await server.clock.advance(connectionDefaults.checkMs)
    expect(server.accepted.map(({ destroyed }) => destroyed).sort()).toEqual([false, true])
    await silent.ends()
  })

  it('ends its stream, now or when that begins', async () => {
    const server = await serve(async (message, response) => {
      const { socket } = message
      if (message.url === '/late') await eventually(() => expect(socket.readableEnded).toBe(true))
      response.write('event')
      server.connections.streams(response)
    })
    for (const path of ['/early', '/late']) {
      const client = server.connect()
      client.get(path)
      if (path === '/early') await client.receives('event')
      client.socket.end()
      await client.ends()
      await eventually(() => expect(server.accepted.at(-1)?.destroyed).toBe(true))
    }
  })
})

describe('a client', () => {
  it('that stalls within a body gets a 400', async () => {
    const server = await serve(readsBody)
    const client = server.connect()
    client.post('/one', 10, 'abc')
    await eventually(() => expect(server.handled).toHaveLength(1))
    await server.clock.advance(connectionDefaults.bodyStallMs - connectionDefaults.checkMs)
    expect(client.text).toBe('')
    await server.clock.advance(2 * connectionDefaults.checkMs)
    await client.ends()
    expect(client.text).toMatch(/^HTTP\/1.1 400 /)
  })

  it('is not blamed for the part of a body that waits behind another request', async () => {
    const { held, release } = hold()
    const server = await serve(async (message, response) => {
      if (message.url === '/slow') await held
      response.end(`read ${(await readRequestBody(message)).length};`)
    })
    const client = server.connect()
    const length = 1_000_000
    client.get('/slow')
    client.post('/large', length, 'x'.repeat(length))
    await eventually(() => expect(server.parsed).toBe(2))
    await server.clock.advance(2 * connectionDefaults.bodyStallMs)
    release()
    await client.receives(`read ${length};`)
    expect(client.text).not.toContain('HTTP/1.1 400')
  })

  it('is disconnected when it stops reading its response, not while it reads slowly', async () => {
    const blocks = Array.from({ length: 1000 }, () => Buffer.alloc(64 * 1024))
    const server = await serve((_message, response) =>
      pipeline(Readable.from(blocks), response).catch(() => {}),
    )
    const client = server.connect()
    client.get('/one')
    await client.receives('\r\n\r\n')
    client.socket.pause()
    const [accepted] = server.accepted
    for (let round = 0; round < 5; round++) {
      const before = accepted?.bytesWritten ?? 0
      client.socket.resume()
      await eventually(() => expect(accepted?.bytesWritten).toBeGreaterThan(before))
      client.socket.pause()
      await server.clock.advance(connectionDefaults.responseStallMs - connectionDefaults.checkMs)
      expect(accepted?.destroyed).toBe(false)
    }
    await server.clock.advance(2 * connectionDefaults.responseStallMs)
    expect(accepted?.destroyed).toBe(true)
  })

  it('may pause an endless response, until that is ended', async () => {
    const answers: ServerResponse[] = []
    const server = await serve((_message, response) => {
      answers.push(response)
      server.connections.streams(response)
      response.write(Buffer.alloc(64_000_000))
    })
    const client = server.connect()
    client.socket.pause()
    client.get('/watch')
    await eventually(() => expect(answers).toHaveLength(1))
    await server.clock.advance(2 * connectionDefaults.responseStallMs)
    expect(server.accepted[0]?.destroyed).toBe(false)
    answers[0]?.end()
    await server.clock.advance(connectionDefaults.checkMs)
    expect(server.accepted[0]?.destroyed).toBe(true)
  })

  const partOfGet = 'GET /more HTTP/1.1\r\nhost'
  const largePost = `POST /more HTTP/1.1\r\nhost: x\r\ncontent-length: 200000\r\n\r\n${'x'.repeat(200_000)}`
  it.each([
    ['a part of a request', partOfGet],
    ['a request, and a part of one', `GET /b HTTP/1.1\r\nhost: x\r\n\r\n${partOfGet}`],
    ['a request with a body', largePost],
    ['requests without and with a body', `GET /b HTTP/1.1\r\nhost: x\r\n\r\n${largePost}`],
  ])('that leaves is noticed behind a stream and %s', async (_, text) => {
    const server = await serve((_message, response) => {
      response.write('event')
      setImmediate(() => server.connections.streams(response))
    })
    for (const behind of ['at once', 'later']) {
      const client = server.connect()
      if (behind === 'later') {
        client.get('/watch')
        await client.receives('event')
        client.socket.write(text)
      } else client.socket.write(`GET /watch HTTP/1.1\r\nhost: x\r\n\r\n${text}`)
      await client.receives('event')
      client.socket.destroy()
      await eventually(() => expect(server.accepted.at(-1)?.destroyed).toBe(true))
    }
    expect(server.handled).toEqual(['/watch', '/watch'])
  })

  it('that closes its half of a stream and does not read it is disconnected', async () => {
    const server = await serve((_message, response) => {
      server.connections.streams(response)
      response.write(Buffer.alloc(64_000_000))
    })
    const client = server.connect()
    client.socket.pause()
    client.get('/watch')
    await eventually(() => expect(server.handled).toEqual(['/watch']))
    client.socket.end()
    const [accepted] = server.accepted
    await eventually(() => expect(accepted?.readableEnded).toBe(true))
    await server.clock.advance(connectionDefaults.responseStallMs - connectionDefaults.checkMs)
    expect(accepted?.destroyed).toBe(false)
    await server.clock.advance(2 * connectionDefaults.checkMs)
    expect(accepted?.destroyed).toBe(true)
  })

  it('that sends a request while its idle connection is closed is not reset', async () => {
    const server = await serve()
    const client = server.connect()
    client.get('/one')
    await client.receives('done')
    const [accepted] = server.accepted
    if (accepted === undefined) throw new Error('no connection was accepted')
    const before = accepted.bytesRead
    server.timesOut(accepted)
    client.get('/two')
    await client.ends()
    await eventually(() => expect(accepted.bytesRead).toBeGreaterThan(before))
    expect(accepted.destroyed).toBe(false)
    await server.clock.advance(connectionDefaults.checkMs + drainDefaults.lingerMs)
    expect(accepted.destroyed).toBe(true)
    expect([server.handled, client.hasFailed]).toEqual([['/one'], false])
  })

  it('that sends garbage behind a request gets the response first, and then the close', async () => {
    const { held, release } = hold()
    const server = await serve(async (_message, response) => {
      await held
      response.end('done')
    })
    const client = server.connect()
    client.socket.write('GET /one HTTP/1.1\r\nhost: x\r\n\r\ngarbage\r\n\r\n')
    await eventually(() => expect(server.handled).toEqual(['/one']))
    release()
    await client.ends()
    expect(client.text).toMatch(/^HTTP\/1.1 200 [\s\S]*done$/)
    expect(client.text).toMatch(/^connection: close/im)
  })
})

describe('a server with as many connections as it may have', () => {
  const never: Handler = () => {}
  const echoes: Handler = (message, response) => {
    response.end(`saw ${message.url}`)
  }
  /** Opens a connection, and waits until the server has accepted it. */
  const accepted = async (server: Served) => {
    const before = server.accepted.length
    const client = server.connect()
    await eventually(() => expect(server.accepted).toHaveLength(before + 1))
    return client
  }

  it('closes the longest idle one for a new one, whether or not it has sent a request', async () => {
    const server = await serve(echoes, 3)
    const first = await accepted(server)
    const halfWay = await accepted(server)
    halfWay.socket.write('GET /half HTTP/1.1\r\nhost: ')
    const third = await accepted(server)
    first.get('/first')
    await first.receives('saw /first')
    const fourth = await accepted(server)
    await halfWay.ends()
    const fifth = await accepted(server)
    await third.ends()
    for (const [n, client] of [first, fourth, fifth].entries()) {
      client.get(`/${n}`)
      await client.receives(`saw /${n}`)
    }
  })

  it('closes the new one if all others have requests in progress', async () => {
    const server = await serve(never, 2)
    const busy = [await accepted(server), await accepted(server)]
    for (const client of busy) client.get('/')
    await eventually(() => expect(server.handled).toHaveLength(2))
    const refused = await accepted(server)
    await eventually(() => expect(refused.hasEnded || refused.hasFailed).toBe(true))
    for (const { hasEnded } of busy) expect(hasEnded).toBe(false)
  })

  it('closes one whose client does not read a complete response, before it stalls', async () => {
    const server = await serve((message, response) => {
      if (message.url === '/large') response.end(Buffer.alloc(64_000_000))
    }, 2)
    const unread = await accepted(server)
    unread.socket.pause()
    unread.get('/large')
    const waiting = await accepted(server)
    waiting.get('/never')
    await eventually(() => expect(server.handled).toHaveLength(2))
    await server.clock.advance(connectionDefaults.checkMs)
    await accepted(server)
    expect(server.accepted.map(({ destroyed }) => destroyed)).toEqual([true, false, false])
  })

  it('counts one that no longer speaks HTTP until it closes', async () => {
    const server = await serve(echoes, 1)
    const released = await accepted(server)
    const [socket] = server.accepted
    if (socket === undefined) throw new Error('nothing was accepted')
    server.connections.release(socket)
    const refused = await accepted(server)
    await eventually(() => expect(refused.hasEnded || refused.hasFailed).toBe(true))
    expect(released.hasEnded).toBe(false)
    released.socket.destroy()
    await eventually(() => expect(socket.destroyed).toBe(true))
    const next = await accepted(server)
    next.get('/next')
    await next.receives('saw /next')
  })
})
