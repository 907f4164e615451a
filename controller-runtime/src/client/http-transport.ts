import http from 'node:http'
import https from 'node:https'
import type { WebSocket } from 'ws'
import { type Clock, systemClock } from '../clock.ts'
import { injectTraceContext } from '../tracing.ts'
import { flattenHeaders } from './decode.ts'
import {
  checkHttpTransportOptions,
  type HttpTransportOptions,
  type HttpTransportTls,
  httpTransportDefaults,
} from './http-transport-options.ts'
import { InactivityTimer } from './inactivity-timer.ts'
import {
  type Transport,
  TransportError,
  type TransportRequest,
  type TransportResponse,
  type WatchConnection,
  type WatchRequestOptions,
} from './transport.ts'
import { WebSocketWatch } from './web-socket-watch.ts'
import { loadWebSockets } from './web-sockets.ts'

export { type HttpTransportOptions, httpTransportDefaults } from './http-transport-options.ts'

/**
 * Sends requests over kept-alive HTTP connections, and opens watches over WebSocket.
 *
 * A connection that the server closed while it was idle fails at its next use. GET is then sent once more; other
 * methods reject with a TransportError, since their outcome is unknown.
 */
export class HttpTransport implements Transport {
  readonly #base: URL
  readonly #options: HttpTransportOptions
  readonly #clock: Clock
  readonly #agent: http.Agent
  readonly #watches = new Set<WebSocket>()

  /** @throws TypeError if `server` is not an http or https URL, and for an unknown option. */
  constructor(options: HttpTransportOptions) {
    checkHttpTransportOptions(options)
    this.#base = new URL(options.server)
    if (this.#base.protocol !== 'http:' && this.#base.protocol !== 'https:') {
      throw new TypeError(`server ${JSON.stringify(String(options.server))} must be an http or https URL`)
    }
    this.#options = options
    this.#clock = options.clock ?? systemClock
    const { maxSockets } = httpTransportDefaults
    this.#agent =
      this.#base.protocol === 'https:'
        ? new https.Agent({ keepAlive: true, maxSockets })
        : new http.Agent({ keepAlive: true, maxSockets })
  }

  /** @throws TypeError for a request of `Client.as`, which works in the server's process only */
  async request(request: TransportRequest): Promise<TransportResponse> {
    refuseUser(request)
    const headers = { ...(await this.#headers()), ...request.headers }
    injectTraceContext(headers)
    try {
      return await this.#exchange(request, headers)
    } catch (error) {
      if (!(error instanceof StaleConnectionError) || request.method !== 'GET') throw error
      return this.#exchange(request, headers)
    }
  }

  async watch(path: string, options: WatchRequestOptions): Promise<WatchConnection> {
    const { signal } = options
    refuseUser(options)
    const headers = { ...(await this.#headers()), ...options.headers }
    const { WebSocket } = await loadWebSockets()
    signal.throwIfAborted()
    const url = this.#url(path)
    url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:'
    const socket = new WebSocket(url, {
      ...this.#tls,
      headers,
      perMessageDeflate: false,
      maxPayload: httpTransportDefaults.maxEventBytes,
      handshakeTimeout: this.#options.handshakeTimeoutMs ?? httpTransportDefaults.handshakeTimeoutMs,
    })
    this.#watches.add(socket)
    socket.once('close', () => this.#watches.delete(socket))
    const connection = new WebSocketWatch(
      socket,
      this.#clock,
      this.#options.watchIdleTimeoutMs ?? httpTransportDefaults.watchIdleTimeoutMs,
    )
    const onAbort = () => connection.close()
    signal.addEventListener('abort', onAbort, { once: true })
    void connection.end.then(() => signal.removeEventListener('abort', onAbort))
    try {
      await connection.opened
    } catch (error) {
      connection.close()
      signal.throwIfAborted()
      throw error
    }
    return connection
  }

  /** Closes every connection: watches end and pending requests fail. */
  close(): void {
    this.#agent.destroy()
    for (const socket of this.#watches) socket.terminate()
  }

  #url(path: string): URL {
    const url = new URL(this.#base)
    const [pathname = '', query = ''] = path.split(/\?(.*)/s)
    url.pathname = `${this.#base.pathname.replace(/\/+$/, '')}${pathname}`
    url.search = query
    return url
  }

  get #tls(): HttpTransportTls | undefined {
    const { tls } = this.#options
    return typeof tls === 'function' ? tls() : tls
  }

  async #headers(): Promise<Record<string, string>> {
    const { token, headers } = this.#options
    const value = typeof token === 'function' ? await token() : token
    return { ...headers, ...(value !== undefined && { authorization: `Bearer ${value}` }) }
  }

  #exchange(request: TransportRequest, headers: Record<string, string>): Promise<TransportResponse> {
    const { method, path, body, signal } = request
    const timeoutMs = this.#options.requestTimeoutMs ?? httpTransportDefaults.requestTimeoutMs
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason)
        return
      }
      const url = this.#url(path)
      const send = url.protocol === 'https:' ? https.request : http.request
      const outgoing = send(url, {
        method,
        agent: this.#agent,
        // The agent keeps connections apart by these.
        ...this.#tls,
        headers: {
          ...headers,
          ...(body !== undefined && { 'content-length': String(Buffer.byteLength(body)) }),
        },
      })
      const timer = new InactivityTimer(this.#clock, timeoutMs, () => {
        fail(new TransportError(`${method} ${path}: no response for ${timeoutMs} ms`))
      })
      const onAbort = () => fail(signal?.reason)
      const cleanUp = () => {
        timer.cancel()
        signal?.removeEventListener('abort', onAbort)
      }
      const fail = (error: unknown) => {
        cleanUp()
        reject(error)
        outgoing.destroy()
      }
      signal?.addEventListener('abort', onAbort, { once: true })
      outgoing.on('error', error => {
        const stale =
          outgoing.reusedSocket && 'code' in error && (error.code === 'ECONNRESET' || error.code === 'EPIPE')
        const message = `${method} ${path}: ${error.message || error.name}`
        fail(
          stale
            ? new StaleConnectionError(message, { cause: error })
            : new TransportError(message, { cause: error }),
        )
      })
      outgoing.on('response', incoming => {
        const chunks: Buffer[] = []
        let bytes = 0
        timer.seen()
        incoming.on('data', (chunk: Buffer) => {
          timer.seen()
          bytes += chunk.length
          chunks.push(chunk)
          if (bytes > httpTransportDefaults.maxResponseBytes) {
            fail(
              new TransportError(
                `${method} ${path}: the response exceeds ${httpTransportDefaults.maxResponseBytes} bytes`,
              ),
            )
          }
        })
        incoming.on('error', error => {
          fail(new TransportError(`${method} ${path}: the response ended early`, { cause: error }))
        })
        incoming.on('end', () => {
          cleanUp()
          resolve({
            status: incoming.statusCode ?? 0,
            headers: flattenHeaders(incoming.headers),
            body: Buffer.concat(chunks).toString('utf8'),
          })
        })
      })
      outgoing.end(body)
    })
  }
}

/** The server had closed a kept-alive connection. */
class StaleConnectionError extends TransportError {}

function refuseUser({ user }: Pick<TransportRequest, 'user'>): void {
  if (user !== undefined)
    throw new TypeError('client.as works in the handlers of routes, which run in the server, not over HTTP')
}
