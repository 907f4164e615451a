import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http'
import WebSocket from 'ws'
import { parse, readBody } from './read-body.ts'
import type { WorldWatch } from './world.ts'

export interface WatchTarget {
  readonly host: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
}

/** Runs something in the node of the client. */
export type Later = (run: () => void) => void

/** A watch whose messages wait for their reader. */
export abstract class ClientWatch implements WorldWatch {
  protected readonly later: Later
  readonly #messages: unknown[] = []
  #wake = () => {}
  #end: WorldWatch['end']

  constructor(later: Later) {
    this.later = later
  }

  get end(): WorldWatch['end'] {
    return this.#end
  }

  close(): void {
    this.ended({ type: 'closed' })
    this.later(() => this.disconnect())
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

  protected abstract disconnect(): void

  protected received(message: unknown): void {
    if (this.#end !== undefined) return
    this.#messages.push(message)
    this.#wake()
  }

  protected ended(end: NonNullable<WorldWatch['end']>): void {
    this.#end ??= end
    this.#wake()
  }
}

/** Opens a WebSocket of the world. */
export function openSocket({ host, path, headers }: WatchTarget, protocols: string[] = []): WebSocket {
  return new WebSocket(`ws://${host}${path}`, protocols, {
    perMessageDeflate: false,
    headers: { ...headers },
    // The content does not depend on it, and ws takes random bytes before the world can replace them.
    generateMask: mask => mask.fill(0x5a),
  })
}

/** A WebSocket of one watch. */
export class SocketWatch extends ClientWatch {
  #socket: WebSocket | undefined
  #isOpen = false

  constructor(target: WatchTarget, later: Later) {
    super(later)
    later(() => {
      if (this.end === undefined) this.#open(target)
    })
  }

  protected override disconnect(): void {
    this.#socket?.terminate()
  }

  #open(target: WatchTarget): void {
    const socket = openSocket(target)
    this.#socket = socket
    socket.on('open', () => {
      this.#isOpen = true
    })
    socket.on('unexpected-response', (_, response) => {
      const refused = (body: unknown) => {
        this.ended({ type: 'refused', status: response.statusCode ?? 0, body })
        socket.terminate()
      }
      readBody(response).then(
        text => refused(parse(text)),
        () => refused(undefined),
      )
    })
    socket.on('message', data => {
      // By default ws gives buffers.
      if (Buffer.isBuffer(data)) this.received(parse(data.toString()))
    })
    socket.on('error', () => this.ended({ type: 'lost' }))
    socket.on('close', code => this.ended({ type: code === 1006 || !this.#isOpen ? 'lost' : 'ended' }))
  }
}

/** A watch in the response to a GET: one JSON document a line, or Server-Sent Events. */
export class StreamWatch extends ClientWatch {
  #outgoing: ClientRequest | undefined

  constructor(target: WatchTarget, form: 'lines' | 'events', later: Later) {
    super(later)
    later(() => {
      if (this.end === undefined) this.#open(target, form)
    })
  }

  protected override disconnect(): void {
    this.#outgoing?.destroy()
  }

  #open({ host, path, headers }: WatchTarget, form: 'lines' | 'events'): void {
    const accept = form === 'events' ? { accept: 'text/event-stream' } : {}
    const outgoing = httpRequest({ host, path, agent: false, headers: { ...headers, ...accept } })
    this.#outgoing = outgoing
    outgoing.on('error', () => this.ended({ type: 'lost' }))
    outgoing.on('response', incoming => {
      if (incoming.statusCode === 200) this.#follow(incoming, form === 'events' ? 'data: ' : '')
      else
        readBody(incoming).then(
          text => this.ended({ type: 'refused', status: incoming.statusCode ?? 0, body: parse(text) }),
          () => this.ended({ type: 'lost' }),
        )
    })
    outgoing.end()
  }

  /** Takes the lines that begin with the prefix. */
  #follow(incoming: IncomingMessage, prefix: string): void {
    let rest = ''
    incoming.setEncoding('utf8')
    incoming.on('data', (text: string) => {
      const lines = (rest + text).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines)
        if (line !== '' && line.startsWith(prefix)) this.received(parse(line.slice(prefix.length)))
    })
    incoming.on('error', () => this.ended({ type: 'lost' }))
    incoming.on('close', () => this.ended({ type: incoming.complete ? 'ended' : 'lost' }))
  }
}
