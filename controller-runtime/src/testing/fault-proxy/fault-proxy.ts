import { once } from 'node:events'
import http, { type IncomingMessage } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { type Clock, systemClock } from '../../clock.ts'
import {
  type FaultInjection,
  FaultInjector,
  FaultInjectors,
  type WatchFaultInjection,
} from './fault-injector.ts'
import { HttpExchange, refuseRequest } from './http-exchange.ts'
import { refuseUpgrade, UpgradeExchange } from './upgrade-exchange.ts'

export { flowDefaults as faultProxyDefaults } from './flow.ts'

/**
 * An HTTP and WebSocket proxy on a loopback port.
 *
 * A request that upgrades the connection or has `watch=true` is a watch; another GET of a collection
 * (`/apis/<group>/<version>/<plural>`) is a list; the rest are other requests. Each exchange has its own connection to
 * the server, so faults do not spread. On the client's side a reset affects all that shares the connection, which with
 * HTTP/1.1 is only idle.
 *
 * The server receives its own address as Host. WebSocket extensions are disabled, so that frames can be parsed. If the
 * server cannot be reached, the client's connection is reset.
 */
export interface FaultProxy extends AsyncDisposable {
  /** URL for the client: `http://127.0.0.1:<port>` with the target's path. */
  readonly url: string
  readonly watches: WatchFaultInjection
  readonly lists: FaultInjection
  /** All requests that are neither watches nor lists. */
  readonly requests: FaultInjection
  readonly all: FaultInjection
  /** Resets all connections and stops listening. Idempotent. */
  close(): Promise<void>
}

/**
 * Starts a proxy on a free port. Use one per client, so that faults affect only that client.
 *
 * @param targetUrl `http://host:port`, with the server's base path if it has one
 * @param options.clock clock for delays; default: the system's
 * @throws TypeError if the target is not an `http:` URL
 */
export async function startFaultProxy(
  targetUrl: string,
  { clock = systemClock }: { readonly clock?: Clock } = {},
): Promise<FaultProxy> {
  const target = new URL(targetUrl)
  if (target.protocol !== 'http:')
    throw new TypeError(`the target of a fault proxy must be an http: URL, not ${targetUrl}`)
  const proxy = new LoopbackProxy(target, clock)
  await proxy.listen()
  return proxy
}

class LoopbackProxy implements FaultProxy {
  readonly watches = new FaultInjector()
  readonly lists = new FaultInjector()
  readonly requests = new FaultInjector()
  readonly all = new FaultInjectors([this.watches, this.lists, this.requests])
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
    // Half-open and slow connections are intended: disables Node's timeouts.
    this.#server = http.createServer({ requestTimeout: 0, headersTimeout: 0, keepAliveTimeout: 0 })
    this.#server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket)
      socket.setNoDelay(true)
      socket.once('close', () => this.#sockets.delete(socket))
    })
    this.#server.on('request', (request, response) => {
      const injector = this.#injectorFor(request)
      if (injector.refusal !== undefined) refuseRequest(request, response, injector, injector.refusal)
      else new HttpExchange({ request, response, injector, target, clock })
    })
    this.#server.on('upgrade', (request: IncomingMessage, client: Duplex, head: Buffer) => {
      if (!isSocket(client)) throw new TypeError('an upgrade without a socket')
      const injector = this.#injectorFor(request)
      if (injector.refusal !== undefined) refuseUpgrade(client, injector, injector.refusal)
      else new UpgradeExchange({ request, client, head, injector, target: this.#target, clock: this.#clock })
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

  #injectorFor({ method, url = '/', headers }: IncomingMessage): FaultInjector {
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
