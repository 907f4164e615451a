import { WebSocket } from 'ws'
import { fieldsOf, textOf } from './json.ts'
import {
  type Connection,
  type ConnectionOptions,
  type Transport,
  versionOf,
  withQuery,
} from './transports.ts'

const protocol = 'v1.watch.setpoint.dev'

/** Several watchers on one multiplexed socket. It opens with the first watch, and again after a disconnect. */
export function sharedSocket(): Transport {
  let current: SharedSocket | undefined
  return options => {
    if (current === undefined || current.isClosed) current = new SharedSocket(options.url)
    return current.subscribe(options)
  }
}

interface Subscription {
  readonly onEvent: ConnectionOptions['onEvent']
  readonly end: () => void
}

class SharedSocket {
  isClosed = false
  readonly #socket: WebSocket
  readonly #subscriptions = new Map<string, Subscription>()
  /** Requests made before the socket opened. */
  #unsent: string[] = []
  #ids = 0

  constructor(url: string) {
    const socket = new WebSocket(`${url.replace(/^http/, 'ws')}/apis`, protocol, { perMessageDeflate: false })
    this.#socket = socket
    socket.on('open', () => {
      for (const text of this.#unsent.splice(0)) socket.send(text)
    })
    socket.on('message', data => this.#receive(data.toString()))
    socket.on('close', () => {
      this.isClosed = true
      for (const { end } of this.#subscriptions.values()) end()
    })
    // A refused or broken connection closes.
    socket.on('error', () => {})
  }

  subscribe({ address, start, onEvent }: ConnectionOptions): Connection {
    const id = String(this.#ids++)
    const ended = new Promise<void>(resolve => this.#subscriptions.set(id, { onEvent, end: resolve }))
    this.#say({ op: 'subscribe', id, path: withQuery(address, versionOf(start)) })
    return {
      ended,
      cut: () => {
        this.#end(id)
        this.#say({ op: 'unsubscribe', id })
      },
    }
  }

  #receive(text: string): void {
    const { id, ...event } = fieldsOf(JSON.parse(text))
    if (id === undefined) throw new Error(`unexpected message: ${text}`)
    const subscription = this.#subscriptions.get(textOf(id))
    if (event.type === 'END') this.#end(textOf(id))
    // A refused subscription gets an ERROR that is not one of its events. A 410 looks the same on every transport.
    else if (event.type !== 'ERROR' || fieldsOf(event.object).code === 410)
      subscription?.onEvent(JSON.stringify(event))
  }

  #end(id: string): void {
    this.#subscriptions.get(id)?.end()
    this.#subscriptions.delete(id)
  }

  #say(message: object): void {
    const text = JSON.stringify(message)
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(text)
    else if (this.#socket.readyState === WebSocket.CONNECTING) this.#unsent.push(text)
  }
}
