import type WebSocket from 'ws'
import { isFields } from '../../support/json.ts'
import { ClientWatch, type Later, openSocket, type WatchTarget } from './client-watch.ts'
import { parse } from './read-body.ts'

/** A WebSocket that carries many watches, each under its id. */
export class SharedSocket {
  readonly #later: Later
  readonly #watches = new Map<string, SharedWatch>()
  #socket: WebSocket | undefined
  #isOpen = false
  #isClosed = false
  #last = 0

  constructor({ host, headers }: WatchTarget, later: Later) {
    this.#later = later
    later(() => this.#open({ host, headers, path: '/apis' }))
  }

  /** True once it takes no further watches. */
  get isClosed(): boolean {
    return this.#isClosed
  }

  subscribe(path: string): ClientWatch {
    const id = `w${++this.#last}`
    const watch = new SharedWatch({ id, path, later: this.#later, left: () => this.#leave(id) })
    this.#watches.set(id, watch)
    this.#later(() => {
      if (this.#isOpen) this.#ask({ op: 'subscribe', id, path })
    })
    return watch
  }

  #leave(id: string): void {
    if (!this.#watches.delete(id) || !this.#isOpen) return
    this.#ask({ op: 'unsubscribe', id })
    if (this.#watches.size > 0) return
    this.#isClosed = true
    this.#socket?.close()
  }

  #open(target: WatchTarget): void {
    const socket = openSocket(target, ['v1.watch.setpoint.dev'])
    this.#socket = socket
    socket.on('open', () => {
      this.#isOpen = true
      for (const [id, { path }] of this.#watches) this.#ask({ op: 'subscribe', id, path })
    })
    socket.on('message', data => {
      const message = Buffer.isBuffer(data) ? parse(data.toString()) : undefined
      if (isFields(message)) this.#received(message)
    })
    socket.on('error', () => this.#closed())
    socket.on('close', () => this.#closed())
  }

  #ask(request: object): void {
    this.#socket?.send(JSON.stringify(request))
  }

  #received({ id, type, object, code }: Record<string, unknown>): void {
    const watch = this.#watches.get(String(id))
    if (watch === undefined) return
    if (type !== 'END') watch.take({ type, object })
    else {
      this.#watches.delete(String(id))
      watch.finish(Number(code))
    }
  }

  #closed(): void {
    this.#isClosed = true
    this.#isOpen = false
    for (const watch of this.#watches.values()) watch.lose()
    this.#watches.clear()
  }
}

class SharedWatch extends ClientWatch {
  readonly path: string
  readonly #left: () => void
  #hasMessages = false

  constructor(parts: { id: string; path: string; later: Later; left: () => void }) {
    super(parts.later)
    this.path = parts.path
    this.#left = parts.left
  }

  take(message: { readonly type: unknown; readonly object: unknown }): void {
    // A refusal comes as an error and the end. On other transports it is a response.
    if (!this.#hasMessages && message.type === 'ERROR' && codeOf(message.object) !== 410) return
    this.#hasMessages = true
    this.received(message)
  }

  finish(code: number): void {
    if (code === 200 || this.#hasMessages) this.ended({ type: 'ended' })
    else this.ended({ type: 'refused', status: code, body: undefined })
  }

  lose(): void {
    this.ended({ type: 'lost' })
  }

  protected override disconnect(): void {
    this.#left()
  }
}

function codeOf(status: unknown): unknown {
  return isFields(status) ? status.code : undefined
}
