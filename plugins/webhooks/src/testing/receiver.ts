import { createHmac, timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'

/** The signing key of the tests: 32 bytes. */
export const testKey = `whsec_${Buffer.alloc(32, 7).toString('base64')}`

/** A message that a receiver has verified. */
export interface Received {
  readonly id: string
  readonly type: string
  readonly event: string
  readonly kind: string
  readonly namespace: string | undefined
  readonly name: string
  readonly uid: string
  readonly version: bigint
  readonly resync: string | undefined
  readonly path: string
  /** As sent. */
  readonly body: string
}

/** A real HTTP server on the loopback interface that verifies signatures and records messages. */
export class Receiver {
  readonly received: Received[] = []
  /** Requests with an invalid signature. */
  readonly refused: string[] = []
  /** Returns the status of the response. Only messages that get 200 are recorded. */
  answer: (message: Received, request: IncomingMessage) => number | Promise<number> = () => 200
  readonly #server: Server
  readonly #port: number

  private constructor(port: number) {
    this.#port = port
    this.#server = createServer((request, response) => void this.#handle(request, response))
  }

  static async start(): Promise<Receiver> {
    for (;;) {
      // Below the ephemeral ports, which the system may give to another process while the receiver is stopped.
      const receiver = new Receiver(10_000 + Math.floor(Math.random() * 22_000))
      try {
        await receiver.listen()
        return receiver
      } catch (error) {
        if (!(error instanceof Error && 'code' in error && error.code === 'EADDRINUSE')) throw error
      }
    }
  }

  /** Listens; after `stop`, on the same port. */
  async listen(): Promise<void> {
    await once(this.#server.listen(this.#port, '127.0.0.1'), 'listening')
  }

  /** Refuses connections, and cuts those that are open. */
  async stop(): Promise<void> {
    const closed = new Promise(resolve => this.#server.close(resolve))
    this.#server.closeAllConnections()
    await closed
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}/`
  }

  /** The messages about one object, in the order of their arrival. */
  about(name: string): Received[] {
    return this.received.filter(message => message.name === name)
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    try {
      for await (const chunk of request) chunks.push(chunk)
    } catch {
      return
    }
    const body = Buffer.concat(chunks).toString()
    if (!isSigned(request, body)) {
      this.refused.push(body)
      response.writeHead(401).end()
      return
    }
    const message = read(request, body)
    const status = await this.answer(message, request)
    if (status === 200) this.received.push(message)
    response.writeHead(status).end()
  }
}

/** Verifies as Standard Webhooks says: any signature of the list suffices. */
function isSigned({ headers }: IncomingMessage, body: string): boolean {
  const key = Buffer.from(testKey.slice('whsec_'.length), 'base64')
  const content = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`
  const expected = createHmac('sha256', key).update(content).digest()
  return String(headers['webhook-signature'])
    .split(' ')
    .some(each => {
      const given = Buffer.from(each.replace(/^v1,/, ''), 'base64')
      return given.length === expected.length && timingSafeEqual(given, expected)
    })
}

interface Body {
  readonly type: string
  readonly data: {
    readonly event: string
    readonly kind: string
    readonly version: string
    readonly namespace?: string
    readonly name?: string
    readonly uid?: string
    readonly resync?: string
  }
}

function read(request: IncomingMessage, body: string): Received {
  const { type, data }: Body = JSON.parse(body)
  return {
    id: String(request.headers['webhook-id']),
    type,
    event: data.event,
    kind: data.kind,
    namespace: data.namespace,
    name: data.name ?? '',
    uid: data.uid ?? '',
    version: BigInt(data.version),
    resync: data.resync,
    path: request.url ?? '',
    body,
  }
}

/**
 * Returns the versions of each object in the order of their arrival, without those that are not above the highest one
 * received before: repetitions, and changes that arrive for the first time after a later one.
 */
export function firstReceptions(messages: readonly Received[]): Map<string, bigint[]> {
  const byName = new Map<string, bigint[]>()
  for (const { name, version } of messages) {
    const versions = byName.get(name) ?? []
    byName.set(name, versions)
    if (version > (versions.at(-1) ?? 0n)) versions.push(version)
  }
  return byName
}
