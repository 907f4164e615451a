import { Agent, request as httpRequest, type IncomingMessage } from 'node:http'
import WebSocket from 'ws'
import { domain } from './network.ts'
import type { WorldNode } from './node.ts'
import type { Scheduler } from './scheduler.ts'
import { ConnectionLost, type WorldRequest, type WorldResponse, type WorldWatch } from './world.ts'

/** A client of the servers: kept-alive connections and watches of its own. All calls happen in its node. */
export class WorldClient {
  readonly node: WorldNode
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 8 })

  readonly #scheduler: Scheduler

  constructor(scheduler: Scheduler, name: string) {
    this.#scheduler = scheduler
    this.node = scheduler.node(name)
  }

  request(server: string, request: WorldRequest): Promise<WorldResponse> {
    return new Promise((resolve, reject) => {
      this.#later(() => this.#send(server, request).then(resolve, reject))
    })
  }

  watch(server: string, path: string, headers: Readonly<Record<string, string>> = {}): ClientWatch {
    return new ClientWatch(`ws://${server}${domain}${path}`, headers, run => this.#later(run))
  }

  /** What its caller awaits may run elsewhere, but the client acts in its node. */
  #later(run: () => void): void {
    this.#scheduler.schedule(this.node, 0, run)
  }

  #send(server: string, { method, path, headers = {}, body }: WorldRequest): Promise<WorldResponse> {
    const text = typeof body === 'string' || body === undefined ? body : JSON.stringify(body)
    return new Promise((resolve, reject) => {
      const lost = (error: Error) => reject(new ConnectionLost(`${method} ${path}: ${error.message}`))
      const outgoing = httpRequest({
        host: `${server}${domain}`,
        method,
        path,
        agent: this.#agent,
        headers: {
          ...(text !== undefined && {
            'content-type': 'application/json',
            'content-length': String(Buffer.byteLength(text)),
          }),
          ...headers,
        },
      })
      outgoing.on('error', lost)
      outgoing.on('response', incoming => {
        readBody(incoming).then(read => {
          const { statusCode = 0, headers: received } = incoming
          resolve({ status: statusCode, headers: received, body: parse(read) })
        }, lost)
      })
      outgoing.end(text)
    })
  }
}

/** A watch over a WebSocket, whose messages wait for their reader. */
export class ClientWatch implements WorldWatch {
  readonly #later: (run: () => void) => void
  #socket: WebSocket | undefined
  readonly #messages: unknown[] = []
  #wake = () => {}
  #end: WorldWatch['end']
  #isOpen = false

  constructor(url: string, headers: Readonly<Record<string, string>>, later: (run: () => void) => void) {
    this.#later = later
    later(() => {
      if (this.#end === undefined) this.#open(url, headers)
    })
  }

  get end(): WorldWatch['end'] {
    return this.#end
  }

  close(): void {
    this.#ended({ type: 'closed' })
    this.#later(() => this.#socket?.terminate())
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<unknown, void, undefined> {
    for (;;) {
      const message = this.#messages.shift()
      if (message !== undefined) yield message
      else if (this.#end !== undefined) return
      else
        await new Promise<void>(resolve => {
          this.#wake = resolve
        })
    }
  }

  #open(url: string, headers: Readonly<Record<string, string>>): void {
    const socket = new WebSocket(url, {
      perMessageDeflate: false,
      headers: { ...headers },
      // The content does not depend on it, and ws takes random bytes before the world can replace them.
      generateMask: mask => mask.fill(0x5a),
    })
    this.#socket = socket
    socket.on('open', () => {
      this.#isOpen = true
    })
    socket.on('unexpected-response', (_, response) => {
      const refused = (body: unknown) => {
        this.#ended({ type: 'refused', status: response.statusCode ?? 0, body })
        socket.terminate()
      }
      readBody(response).then(
        text => refused(parse(text)),
        () => refused(undefined),
      )
    })
    socket.on('message', data => {
      // By default ws gives buffers.
      if (!Buffer.isBuffer(data) || this.#end !== undefined) return
      this.#messages.push(parse(data.toString()))
      this.#wake()
    })
    socket.on('error', () => this.#ended({ type: 'lost' }))
    socket.on('close', code => this.#ended({ type: code === 1006 || !this.#isOpen ? 'lost' : 'ended' }))
  }

  #ended(end: NonNullable<WorldWatch['end']>): void {
    this.#end ??= end
    this.#wake()
  }
}

async function readBody(incoming: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  return new Promise((resolve, reject) => {
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
    incoming.on('error', reject)
    incoming.on('aborted', () => reject(new Error('aborted')))
    incoming.on('end', () => {
      if (incoming.complete) resolve(Buffer.concat(chunks).toString())
      else reject(new Error('the response ended early'))
    })
  })
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
