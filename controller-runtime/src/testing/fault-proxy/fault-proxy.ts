import { once } from 'node:events'
import http, { type IncomingMessage } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { type Clock, systemClock } from '../../clock.ts'
import { AnswerExchange, refuseAnswer } from './answer-exchange.ts'
import { type FaultLane, Lane, Lanes, type WatchLane } from './lane.ts'
import { refuseUpgrade, UpgradeExchange } from './upgrade-exchange.ts'

export { flowDefaults as faultProxyDefaults } from './flow.ts'

/**
 * An HTTP and WebSocket proxy on a loopback port.
 *
 * What an exchange is, is told by its request: one that upgrades its connection, or asks with `watch=true`, is a
 * watch; another GET of a collection (`/apis/<group>/<version>/<plural>`) is a list; the rest are other requests.
 * Each exchange has a connection to the server of its own, so that what happens to one says nothing to another; on the
 * client's side a reset takes with it whatever shares the connection, which with HTTP/1.1 is nothing that is under way.
 *
 * The server gets its own address as Host, and WebSockets use no extensions, so that their frames can be read. A server
 * that is away shows as a reset connection.
 */
export interface FaultProxy extends AsyncDisposable {
  /** What to give to the client in place of the server's URL: `http://127.0.0.1:<port>` with the target's path. */
  readonly url: string
  readonly watches: WatchLane
  readonly lists: FaultLane
  /** Everything that is neither a watch nor a list. */
  readonly requests: FaultLane
  readonly all: FaultLane
  /** Resets every connection, and listens no more. Idempotent. */
  close(): Promise<void>
}

/**
 * Starts a proxy on a free port; one for each client under test, so that faults are that client's alone.
 *
 * @param targetUrl `http://host:port`, with the server's base path where it has one
 * @param options.clock times delays; by default the system's
 * @throws TypeError when the target is no `http:` URL
 */
export async function startFaultProxy(
  targetUrl: string,
  { clock = systemClock }: { readonly clock?: Clock } = {},
): Promise<FaultProxy> {
  const target = new URL(targetUrl)
  if (target.protocol !== 'http:') throw new TypeError(`a fault proxy takes an http: URL, not ${targetUrl}`)
  const proxy = new LoopbackProxy(target, clock)
  await proxy.listen()
  return proxy
}

class LoopbackProxy implements FaultProxy {
  readonly watches = new Lane()
  readonly lists = new Lane()
  readonly requests = new Lane()
  readonly all = new Lanes([this.watches, this.lists, this.requests])
  #port = 0
  readonly #target: URL
  readonly #clock: Clock
  readonly #basePath: string
  readonly #server: http.Server
  readonly #sockets = new Set<Socket>()
  #closed: Promise<unknown> | undefined

  constructor(target: URL, clock: Clock) {
    this.#target = target
    this.#clock = clock
    this.#basePath = target.pathname.replace(/\/$/, '')
    // Half-open and slow are what this is for: no time-out of Node's own may end them.
    this.#server = http.createServer({ requestTimeout: 0, headersTimeout: 0, keepAliveTimeout: 0 })
    this.#server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket)
      socket.setNoDelay(true)
      socket.once('close', () => this.#sockets.delete(socket))
    })
    this.#server.on('request', (request, response) => {
      const lane = this.#laneOf(request)
      if (lane.refusal !== undefined) refuseAnswer(request, response, lane, lane.refusal)
      else new AnswerExchange({ request, response, lane, target, clock })
    })
    this.#server.on('upgrade', (request: IncomingMessage, client: Duplex, head: Buffer) => {
      if (!isSocket(client)) throw new TypeError('an upgrade without a socket')
      const lane = this.#laneOf(request)
      if (lane.refusal !== undefined) refuseUpgrade(client, lane, lane.refusal)
      else new UpgradeExchange({ request, client, head, lane, target: this.#target, clock: this.#clock })
    })
    this.#server.on('clientError', (_error, socket) => socket.destroy())
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}${this.#basePath}`
  }

  async listen(): Promise<void> {
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
    const address: AddressInfo | string | null = this.#server.address()
    if (typeof address === 'object' && address !== null) this.#port = address.port
  }

  async close(): Promise<void> {
    if (this.#closed === undefined) {
      this.#closed = once(this.#server, 'close')
      this.#server.close()
      this.all.cut()
      for (const socket of this.#sockets) socket.destroy()
    }
    await this.#closed
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  #laneOf({ method, url = '/', headers }: IncomingMessage): Lane {
    const { pathname, searchParams } = new URL(url, 'http://proxy')
    if (headers.upgrade?.toLowerCase() === 'websocket') return this.watches
    if (method !== 'GET') return this.requests
    if (['true', '1'].includes(searchParams.get('watch') ?? '')) return this.watches
    const path = pathname.startsWith(this.#basePath) ? pathname.slice(this.#basePath.length) : pathname
    return /^\/apis\/[^/]+\/[^/]+\/[^/]+\/?$/.test(path) ? this.lists : this.requests
  }
}

function isSocket(stream: Duplex): stream is Socket {
  return 'resetAndDestroy' in stream
}
