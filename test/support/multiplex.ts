import { WebSocket } from 'ws'
import { type Fields, fieldsOf, textOf } from './json.ts'
import type { Close } from './watch.ts'

export const multiplexProtocol = 'v1.watch.setpoint.dev'

/** One message of the server: an event, the end of a subscription, or an ERROR without an id. */
export interface Message {
  readonly id: string | undefined
  readonly type: string
  /** The name of the object or bookmark; '' without one. */
  readonly version: string
  readonly name: string
  readonly raw: Fields
}

/** A WebSocket with many watches. It records every message. */
export class Multiplexed {
  readonly messages: Message[] = []
  readonly closed: Promise<Close>
  readonly #socket: WebSocket
  #isClosed = false
  #wake: (() => void)[] = []

  private constructor(socket: WebSocket) {
    this.#socket = socket
    socket.on('message', data => {
      this.messages.push(readMessage(data.toString()))
      this.#notify()
    })
    socket.on('error', () => {})
    this.closed = new Promise(resolve => {
      socket.on('close', (code, reason) => {
        this.#isClosed = true
        this.#notify()
        resolve({ code, reason: reason.toString() })
      })
    })
  }

  /** @throws Error with the status if the server does not upgrade */
  static open(url: string, path = '/apis', headers: Record<string, string> = {}): Promise<Multiplexed> {
    const protocols = ['other.example.com', multiplexProtocol]
    const socket = new WebSocket(`${url.replace(/^http/, 'ws')}${path}`, protocols, { headers })
    const opened = new Multiplexed(socket)
    return new Promise((resolve, reject) => {
      socket.on('open', () => resolve(opened))
      socket.on('error', reject)
    })
  }

  get protocol(): string {
    return this.#socket.protocol
  }

  say(request: unknown): void {
    this.#socket.send(typeof request === 'string' ? request : JSON.stringify(request))
  }

  subscribe(id: string, path: string): void {
    this.say({ op: 'subscribe', id, path })
  }

  unsubscribe(id: string): void {
    this.say({ op: 'unsubscribe', id })
  }

  /** Returns the messages of one subscription. */
  of(id: string | undefined): Message[] {
    return this.messages.filter(message => message.id === id)
  }

  /** Returns `TYPE name` for every event of a subscription except bookmarks, and `END code` at its end. */
  story(id: string): string[] {
    return this.of(id)
      .filter(({ type }) => type !== 'BOOKMARK')
      .map(({ type, name, raw }) => (type === 'END' ? `END ${raw.code}` : `${type} ${name}`.trim()))
  }

  async until(condition: () => boolean, what: string): Promise<void> {
    while (!condition()) {
      if (this.#isClosed) {
        const { code, reason } = await this.closed
        throw new Error(`the socket closed (${code} ${reason}) before ${what}`)
      }
      await new Promise<void>(resolve => this.#wake.push(resolve))
    }
  }

  /** Resolves when the initial events of a subscription are complete. */
  synced(id: string): Promise<void> {
    return this.until(() => this.of(id).some(({ type }) => type === 'BOOKMARK'), `${id} was in sync`)
  }

  /** Resolves when a subscription has received this version or a later one. */
  reaches(id: string, version: string): Promise<void> {
    const reached = () => this.of(id).some(message => Number(message.version) >= Number(version))
    return this.until(reached, `${id} had version ${version}`)
  }

  async ends(id: string): Promise<Message> {
    const end = () => this.of(id).find(({ type }) => type === 'END')
    await this.until(() => end() !== undefined, `${id} ended`)
    const found = end()
    if (found === undefined) throw new Error(`${id} has not ended`)
    return found
  }

  /** Stops or resumes reading from the socket. */
  pause(): void {
    this.#socket.pause()
  }
  resume(): void {
    this.#socket.resume()
  }

  async close(): Promise<Close> {
    this.#socket.close()
    return this.closed
  }

  async cut(): Promise<Close> {
    this.#socket.terminate()
    return this.closed
  }

  #notify(): void {
    const waiting = this.#wake
    this.#wake = []
    for (const wake of waiting) wake()
  }
}

function readMessage(text: string): Message {
  const raw = fieldsOf(JSON.parse(text))
  const type = textOf(raw.type)
  const metadata = raw.object === undefined ? {} : fieldsOf(fieldsOf(raw.object).metadata)
  const read = (value: unknown) => (typeof value === 'string' ? value : '')
  return {
    id: raw.id === undefined ? undefined : textOf(raw.id),
    type,
    version: read(metadata.version),
    name: type === 'BOOKMARK' ? '' : read(metadata.name),
    raw,
  }
}
