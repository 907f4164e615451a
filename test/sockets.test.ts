import { once } from 'node:events'
import { readdir, readFile, rm } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { connect as connectSecurely } from 'node:tls'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Certificates, makeCertificates } from './support/certificates.ts'
import { type ServerProcess, startServer } from './support/server.ts'

/** Every shape of a request, abandoned in every way: the server closes its side and keeps no descriptor. */

const plugin = fileURLToPath(new URL('./fixtures/items-plugin', import.meta.url))
const items = '/apis/items.example.com/v1/items'

/** Bytes of a list that fills the kernel's buffers of both ends. */
const largeBytes = 8_000_000

function request(line: string, ...headers: readonly string[]): string {
  return [`${line} HTTP/1.1`, 'Host: localhost', ...headers, '', ''].join('\r\n')
}

const json = 'Content-Type: application/json'
const h2c = ['Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c', 'HTTP2-Settings: AAMAAABk']
const webSocket = [
  'Connection: Upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
]
const tunnel = request('CONNECT localhost:443')
const live = request('GET /livez')
const selected = `${items}?watch=true&allowWatchBookmarks=true&labelSelector=none`
const watch = request(`GET ${selected}`)

interface Shape {
  readonly name: string
  readonly bytes: string
  /** The response that the client waits for before it leaves. Without it, the server has only read the request. */
  readonly until?: RegExp
  /** The client does not read before it leaves. */
  readonly unread?: true
}

const shapes: readonly Shape[] = [
  { name: 'nothing', bytes: '' },
  { name: 'GET', bytes: live, until: /ok$/ },
  { name: 'a request line', bytes: 'GET /livez HT' },
  { name: 'half of its headers', bytes: 'GET /livez HTTP/1.1\r\nHost: local' },
  { name: 'POST', bytes: `${request(`POST ${items}`, json, 'Content-Length: 2')}{}`, until: /"BadRequest"/ },
  { name: 'POST with half a body', bytes: `${request(`POST ${items}`, json, 'Content-Length: 9')}{"a"` },
  { name: 'GET with half a body', bytes: `${request('GET /livez', 'Content-Length: 9')}{"a"`, until: /ok$/ },
  {
    name: 'POST with half a chunk',
    bytes: `${request(`POST ${items}`, json, 'Transfer-Encoding: chunked')}9\r\n{"a"`,
  },
  {
    name: 'POST that expects 100',
    bytes: request(`POST ${items}`, json, 'Content-Length: 9', 'Expect: 100-continue'),
    until: /100 Continue/,
  },
  { name: 'an unknown expectation', bytes: request('GET /livez', 'Expect: tea'), until: /ok$/ },
  {
    name: 'a body that is too large',
    bytes: `${request(`POST ${items}`, json, 'Content-Length: 9999999')}{"a"`,
    until: /"RequestEntityTooLarge"/,
  },
  { name: 'no HTTP', bytes: 'tea\r\n\r\n', until: /"BadRequest"/ },
  { name: 'no HTTP behind GET', bytes: `${live}tea\r\n\r\n`, until: /ok$/ },
  { name: 'headers that are too large', bytes: request('GET /', `A: ${'a'.repeat(300_000)}`), until: /400/ },
  { name: 'two GET', bytes: `${live}${live}`, until: /ok[\s\S]*ok$/ },
  { name: 'an offer of h2c', bytes: request('GET /livez', ...h2c), until: /ok$/ },
  {
    name: 'an offer of h2c behind GET',
    bytes: `${live}${request('GET /', ...h2c)}`,
    until: /ok[\s\S]*"NotFound"/,
  },
  { name: 'GET behind an offer of h2c', bytes: `${request('GET /livez', ...h2c)}${live}`, until: /ok$/ },
  {
    name: 'an offer of h2c with half a body',
    bytes: `${request(`POST ${items}`, json, 'Content-Length: 9', ...h2c)}{"a"`,
  },
  {
    name: 'a watch that offers h2c',
    bytes: request(`GET ${selected}`, ...h2c),
    until: /BOOKMARK/,
  },
  { name: 'CONNECT', bytes: tunnel, until: /405/ },
  { name: 'CONNECT behind GET', bytes: `${live}${tunnel}`, until: /ok[\s\S]*405/ },
  { name: 'CONNECT behind a watch', bytes: `${watch}${tunnel}`, until: /BOOKMARK/ },
  { name: 'a WebSocket', bytes: request(`GET ${selected}`, ...webSocket), until: /101[\s\S]*BOOKMARK/ },
  {
    name: 'a WebSocket behind GET',
    bytes: `${live}${request('GET /version', ...webSocket)}`,
    until: /ok[\s\S]*200 OK/,
  },
  {
    name: 'a WebSocket behind a watch',
    bytes: `${watch}${request(`GET ${items}`, ...webSocket)}`,
    until: /BOOKMARK/,
  },
  {
    name: 'a WebSocket of many watches',
    bytes: request('GET /apis', ...webSocket, 'Sec-WebSocket-Protocol: v1.watch.setpoint.dev'),
    until: /101/,
  },
  {
    name: 'a WebSocket that is refused',
    bytes: request('GET /apis/x/v1/y', ...webSocket),
    until: /"NotFound"/,
  },
  {
    name: 'a malformed WebSocket handshake',
    bytes: request(`GET ${items}`, ...webSocket.slice(0, 3)),
    until: /"BadRequest"/,
  },
  { name: 'a watch', bytes: watch, until: /BOOKMARK/ },
  { name: 'two watches', bytes: `${watch}${watch}`, until: /BOOKMARK/ },
  {
    name: 'a watch as Server-Sent Events',
    bytes: request(`GET ${selected}`, 'Accept: text/event-stream'),
    until: /BOOKMARK/,
  },
  { name: 'an unread list', bytes: request(`GET ${items}`), unread: true },
  { name: 'an unread watch', bytes: request(`GET ${items}?watch=true`), unread: true },
  { name: 'an unread WebSocket', bytes: request(`GET ${items}`, ...webSocket), unread: true },
]

const departures: readonly (readonly [string, (client: Client) => void])[] = [
  ['half closes', ({ stream }) => stream.end()],
  ['resets', ({ socket }) => socket.resetAndDestroy()],
  ['closes', ({ socket }) => socket.destroy()],
]

/** The beginning of a ClientHello. */
const handshake = '\x16\x03\x01\x02\x00\x01'

/** One connection, over TLS if the server uses it. */
class Client {
  readonly socket: Socket
  readonly stream: Duplex
  received = ''
  readonly #closed = new AbortController()

  private constructor(socket: Socket, stream: Duplex) {
    this.socket = socket
    this.stream = stream
    for (const each of [socket, stream]) each.on('error', () => {})
    stream.setEncoding('latin1').once('close', () => this.#closed.abort())
  }

  static async open(port: number, ca: string | undefined): Promise<Client> {
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
    if (ca === undefined) {
      await once(socket, 'connect')
      return new Client(socket, socket)
    }
    const secure = connectSecurely({ socket, ca, host: '127.0.0.1' })
    await once(secure, 'secureConnect')
    return new Client(socket, secure)
  }

  read(): void {
    this.stream.on('data', (text: string) => {
      this.received += text
    })
  }

  /** @throws AbortError if the connection closes first */
  async receives(pattern: RegExp): Promise<void> {
    const { signal } = this.#closed
    while (!pattern.test(this.received)) await once(this.stream, 'data', { signal })
  }
}

describe.each(['HTTP', 'TLS'])('the descriptors of a server over %s', transport => {
  let certificates: Certificates
  let ca: string | undefined
  let server: ServerProcess
  let quiet: number

  const descriptors = async () => (await readdir(`/proc/${server.pid}/fd`)).length
  const open = () => Client.open(server.port, ca)

  /** Resolves when the server has read the earlier bytes. */
  const barrier = async () => {
    const client = await open()
    client.read()
    client.stream.write(request('GET /livez', 'Connection: close'))
    await client.receives(/ok$/)
    client.socket.destroy()
  }

  beforeAll(async () => {
    certificates = await makeCertificates()
    const { cert, key } = certificates
    const isSecure = transport === 'TLS'
    ca = isSecure ? await readFile(certificates.ca, 'utf8') : undefined
    server = await startServer({
      plugins: [plugin],
      args: isSecure ? ['--tls-cert', cert, '--tls-key', key] : [],
    })
    quiet = await descriptors()
    const object = JSON.stringify({
      apiVersion: 'items.example.com/v1',
      kind: 'Item',
      metadata: { generateName: 'large-' },
      spec: { text: 'x'.repeat(1_000_000) },
    })
    for (let sent = 0; sent < largeBytes; sent += object.length) {
      const client = await open()
      client.read()
      client.stream.write(request(`POST ${items}`, json, `Content-Length: ${object.length}`))
      client.stream.write(object)
      await client.receives(/^HTTP\/1.1 201 /)
      client.socket.destroy()
    }
  })

  afterAll(async () => {
    await server?.stop()
    if (certificates !== undefined) await rm(certificates.folder, { recursive: true, force: true })
  })

  describe.each(departures)('of a client that %s', (_name, leave) => {
    it.each(shapes)('after $name are as many as before', async ({ bytes, until, unread }) => {
      const client = await open()
      if (unread === undefined) client.read()
      client.stream.write(bytes)
      if (until === undefined) await barrier()
      else await client.receives(until)
      leave(client)
      client.read()
      await expect.poll(descriptors).toBe(quiet)
      client.socket.destroy()
    })

    if (transport === 'TLS') {
      it('after half a handshake are as many as before', async () => {
        const client = await Client.open(server.port, undefined)
        client.socket.write(handshake)
        await barrier()
        leave(client)
        await expect.poll(descriptors).toBe(quiet)
        client.socket.destroy()
      })
    }
  })
})
