import { signal } from '@preact/signals'
import { apiUrl } from './address.ts'
import { get } from './http.ts'
import { fieldsOf, isFields, textOf } from './json.ts'
import { signInReason, token } from './session.ts'

/** What the person reads. */
export type Connection = 'Live' | 'Reconnecting' | 'Offline'

export const socketDefaults = Object.freeze({
  /** Milliseconds between two pings. */
  pingMs: 5_000,
  /** Milliseconds without a message after which the server counts as lost. */
  silenceMs: 20_000,
  /** Milliseconds before the first and the last kind of attempt to reconnect. */
  retryMs: [250, 5_000] as const,
  /** Changes a second of a kind that is only counted, from which it is better asked for its number. */
  countedPerSecond: 200,
})

const closedForCredentials = 1008

/** One watch. */
export interface Subscription {
  /** Path of the API with selectors, without a version. */
  readonly path: string
  /** Resumes from here. Undefined: the objects that exist come first. */
  version: string | undefined
  /** Whether the objects of events are of interest, or only their types. */
  readonly isCounting?: boolean
  event(type: 'ADDED' | 'MODIFIED' | 'DELETED', object: unknown): void
  /** All objects that exist have been sent. */
  synced?(): void
  /** The version is no longer kept: what is known is to be read again, and subscribed to again. */
  expired(): void
  /** The watch has ended for good: not permitted, or malformed. */
  refused?(message: string): void
  /** A kind that is only counted changes all the time. */
  busy?(): void
  /** The connection was lost, and the initial events of a watch without a version begin again. */
  restarted?(): void
}

/** All watches of the page, over one WebSocket. */
class MultiplexedSocket {
  readonly connection = signal<Connection>('Reconnecting')
  readonly #subscriptions = new Map<string, Subscription>()
  #socket: WebSocket | undefined
  #failures = 0
  #ids = 0
  #heardAt = 0
  #timer: ReturnType<typeof setTimeout> | undefined
  readonly #busy = new Map<string, { readonly since: number; readonly count: number }>()
  #refusals = new Map<string, string>()

  constructor() {
    addEventListener('online', () => this.reopen())
    addEventListener('offline', () => this.#lose())
    document.addEventListener('visibilitychange', () => {
      if (!document.hidden && this.#socket === undefined) this.reopen()
    })
    setInterval(() => this.#checkSilence(), 1_000)
  }

  /** Opens the socket now, for example with another token. */
  reopen(): void {
    this.#failures = 0
    this.#lose()
    this.#open()
  }

  close(): void {
    clearTimeout(this.#timer)
    this.#lose()
    clearTimeout(this.#timer)
  }

  /** Returns a function that ends the watch. */
  subscribe(subscription: Subscription): () => void {
    const id = `${subscription.isCounting ? 'n' : 's'}${++this.#ids}`
    this.#subscriptions.set(id, subscription)
    this.#ask(id, subscription)
    return () => {
      if (this.#subscriptions.delete(id)) this.#send({ op: 'unsubscribe', id })
    }
  }

  #open(): void {
    clearTimeout(this.#timer)
    if (this.#socket !== undefined || signInReason.value !== undefined) return
    if (!navigator.onLine) {
      this.connection.value = 'Offline'
      return
    }
    const url = apiUrl('/apis')
    url.protocol = url.protocol.replace('http', 'ws')
    const socket = new WebSocket(url, ['v1.watch.setpoint.dev', ...credentials()])
    this.#socket = socket
    this.#heardAt = performance.now()
    socket.onopen = () => {
      for (const [id, subscription] of this.#subscriptions) {
        if (subscription.version === undefined) subscription.restarted?.()
        this.#ask(id, subscription)
      }
      this.#send({ op: 'ping', id: 'ping' })
    }
    socket.onmessage = ({ data }) => {
      this.#heardAt = performance.now()
      if (this.connection.value !== 'Live') {
        this.#failures = 0
        this.connection.value = 'Live'
      }
      if (typeof data === 'string') this.#receive(data)
    }
    socket.onclose = ({ code }) => {
      if (this.#socket !== socket) return
      // A refused handshake says no reason, and credentials may have ended: a request finds out.
      if (code === closedForCredentials || this.connection.value !== 'Live') get('/apis').catch(() => {})
      this.#lose()
    }
  }

  #lose(): void {
    const socket = this.#socket
    this.#socket = undefined
    socket?.close()
    this.connection.value = navigator.onLine ? 'Reconnecting' : 'Offline'
    clearTimeout(this.#timer)
    if (!navigator.onLine) return
    const [first, last] = socketDefaults.retryMs
    const wait = Math.min(last, first * 2 ** this.#failures++) * (0.75 + Math.random() / 2)
    this.#timer = setTimeout(() => this.#open(), wait)
  }

  #checkSilence(): void {
    if (this.#socket === undefined) return
    const silent = performance.now() - this.#heardAt
    if (silent > socketDefaults.silenceMs) this.#lose()
    else if (silent > socketDefaults.pingMs) this.#send({ op: 'ping', id: 'ping' })
  }

  #ask(id: string, { path, version }: Subscription): void {
    const url = new URL(path, 'http://api')
    if (version !== undefined) url.searchParams.set('version', version)
    this.#send({ op: 'subscribe', id, path: url.pathname + url.search })
  }

  #send(message: object): void {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message))
  }

  #receive(text: string): void {
    // A busy kind that is only counted is not worth parsing.
    const counted = /^\{"id":"(n\d+)","type":"(ADDED|MODIFIED|DELETED)"/.exec(text)
    if (counted !== null) {
      const [, id = '', type = ''] = counted
      const subscription = this.#subscriptions.get(id)
      if (subscription === undefined) return
      if (type === 'MODIFIED') {
        this.#meter(id, subscription)
        return
      }
      this.#note(subscription, JSON.parse(text), type)
      return
    }
    const message = fieldsOf(JSON.parse(text))
    const id = textOf(message.id)
    const subscription = this.#subscriptions.get(id)
    if (subscription === undefined) return
    const type = textOf(message.type)
    if (type === 'END') this.#ended(id, subscription, Number(message.code))
    else if (type === 'ERROR') this.#refusals.set(id, textOf(fieldsOf(message.object).message))
    else this.#note(subscription, message, type)
  }

  /** A kind that changes all the time costs too much to be followed for its number alone. */
  #meter(id: string, subscription: Subscription): void {
    const now = performance.now()
    const { since, count } = this.#busy.get(id) ?? { since: now, count: 0 }
    const isOver = now - since > 1_000
    this.#busy.set(id, isOver ? { since: now, count: 1 } : { since, count: count + 1 })
    if (!isOver && count + 1 === socketDefaults.countedPerSecond) {
      this.#busy.delete(id)
      subscription.busy?.()
    }
  }

  #note(subscription: Subscription, message: unknown, type: string): void {
    const { object } = fieldsOf(message)
    const { version, annotations } = fieldsOf(fieldsOf(object).metadata)
    if (type === 'BOOKMARK') {
      subscription.version = textOf(version) || subscription.version
      if (isFields(annotations) && annotations['k8s.io/initial-events-end'] === 'true')
        subscription.synced?.()
      return
    }
    // Initial events are not in the order of versions, so a watch resumes only from the bookmark after them.
    if (subscription.version !== undefined && typeof version === 'string') subscription.version = version
    if (type === 'ADDED' || type === 'MODIFIED' || type === 'DELETED') subscription.event(type, object)
  }

  #ended(id: string, subscription: Subscription, code: number): void {
    const why = this.#refusals.get(id) ?? ''
    this.#refusals.delete(id)
    if (code === 410) {
      this.#subscriptions.delete(id)
      subscription.expired()
    } else if (code === 400 || code === 403 || code === 404) {
      this.#subscriptions.delete(id)
      subscription.refused?.(why)
    } else {
      // A normal end, or a kind that is not ready.
      setTimeout(
        () => {
          if (this.#subscriptions.get(id) !== subscription) return
          if (subscription.version === undefined) subscription.restarted?.()
          this.#ask(id, subscription)
        },
        code === 200 ? 0 : 1_000 + 1_000 * Math.random(),
      )
    }
  }
}

/** A page cannot set headers of a handshake, so the token is the name of a sub-protocol. */
function credentials(): string[] {
  const { value } = token
  if (value === undefined) return []
  const encoded = btoa(String.fromCharCode(...new TextEncoder().encode(value)))
  return [
    `base64url.bearer.authorization.k8s.io.${encoded.replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '')}`,
  ]
}

export const socket = new MultiplexedSocket()
