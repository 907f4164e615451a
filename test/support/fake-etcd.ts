import { once } from 'node:events'
import { createServer, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2'
import { EtcdClient } from '../../apiserver/src/storage/etcd/client.ts'

/** A gRPC server that speaks etcd's messages and responds as a test says. */
export interface FakeEtcd extends AsyncDisposable {
  readonly endpoint: string
  /** Connections accepted so far. */
  readonly sessions: readonly ServerHttp2Session[]
  /** The methods called so far, in order. */
  readonly calls: readonly string[]
}

export class FakeCall {
  readonly method: string
  /** As the proto files name the fields. */
  readonly request: Record<string, unknown>
  readonly metadata: Readonly<Record<string, string | string[] | undefined>>
  readonly stream: ServerHttp2Stream
  readonly #encode: (response: unknown) => Buffer
  #trailers: Record<string, string> = { 'grpc-status': '0' }

  constructor(
    method: string,
    request: Record<string, unknown>,
    metadata: FakeCall['metadata'],
    stream: ServerHttp2Stream,
    encode: (response: unknown) => Buffer,
  ) {
    this.method = method
    this.request = request
    this.metadata = metadata
    this.stream = stream
    this.#encode = encode
  }

  /** Sends a response and ends the call with success. */
  respond(response: unknown): void {
    this.send(this.#encode(response))
    this.stream.end()
  }

  /** Sends a message of these bytes, and leaves the call open. */
  send(message: Buffer, length = message.length): void {
    if (!this.stream.headersSent) {
      this.stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true })
      this.stream.on('wantTrailers', () => this.stream.sendTrailers(this.#trailers))
    }
    const prefix = Buffer.alloc(5)
    prefix.writeUInt32BE(length, 1)
    this.stream.write(Buffer.concat([prefix, message]))
  }

  /** Sends one message of a stream. */
  push(response: unknown): void {
    this.send(this.#encode(response))
  }

  /** Ends the call with an error, after the messages sent so far. */
  fail(code: number, details: string): void {
    this.#trailers = { 'grpc-status': String(code), 'grpc-message': encodeURIComponent(details) }
    if (this.stream.headersSent) this.stream.end()
    else
      this.stream.respond(
        { ':status': 200, 'content-type': 'application/grpc', ...this.#trailers },
        { endStream: true },
      )
  }
}

export async function startFakeEtcd(handle: (call: FakeCall) => void): Promise<FakeEtcd> {
  const services = await servicesOfEtcd3()
  const sessions: ServerHttp2Session[] = []
  const calls: string[] = []
  const server = createServer()
  server.on('session', session => {
    sessions.push(session)
    session.on('error', () => {})
  })
  server.on('stream', (stream: ServerHttp2Stream, headers) => {
    stream.on('error', () => {})
    const method = String(headers[':path']).split('/').at(-1) ?? ''
    const definition = services.get(method)
    if (definition === undefined) throw new Error(`no method ${method}`)
    let body = Buffer.alloc(0)
    stream.on('data', (chunk: Buffer) => {
      body = Buffer.concat([body, chunk])
      if (body.length < 5 || body.length < 5 + body.readUInt32BE(1)) return
      const request = definition.requestDeserialize(body.subarray(5, 5 + body.readUInt32BE(1)))
      body = Buffer.alloc(0)
      const call = new FakeCall(method, request, headers, stream, definition.responseSerialize)
      if (isReadOfBase(call)) return call.respond({ header: headerAt(1), kvs: [], more: false, count: '0' })
      calls.push(method)
      handle(call)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  return {
    endpoint: `http://127.0.0.1:${address.port}`,
    sessions,
    calls,
    async [Symbol.asyncDispose]() {
      for (const session of sessions) session.destroy()
      server.close()
    },
  }
}

/** Every storage reads the base first, see `Base`. The fake store was never restored. */
function isReadOfBase({ method, request: { key } }: FakeCall): boolean {
  return method === 'Range' && Buffer.isBuffer(key) && key.toString().endsWith('/base')
}

/** A response header of etcd. */
export function headerAt(revision: number): Record<string, string> {
  return { cluster_id: '1', member_id: '1', revision: String(revision), raft_term: '1' }
}

interface Definition {
  readonly requestDeserialize: (bytes: Buffer) => Record<string, unknown>
  readonly responseSerialize: (response: unknown) => Buffer
}

async function servicesOfEtcd3(): Promise<Map<string, Definition>> {
  const client = new EtcdClient('http://127.0.0.1:1')
  const { range, txn, compact, authenticate, watch } = await client.open()
  client.close()
  const methods = [range, txn, compact, authenticate, watch]
  return new Map(
    methods.map(method => {
      if (!isDefinition(method)) throw new Error(`no server side of ${method.path}`)
      return [method.path.split('/').at(-1) ?? '', method]
    }),
  )
}

function isDefinition(method: object): method is Definition {
  return 'requestDeserialize' in method && 'responseSerialize' in method
}
