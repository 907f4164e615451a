import http from 'node:http'
import https from 'node:https'
import type { WebSocket } from 'ws'
import { type KeysOf, refuseUnknownKeys } from '../api/known-keys.ts'
import { type Clock, systemClock } from '../clock.ts'
import { decodeError } from './decode.ts'
import { FrameQueue } from './frame-queue.ts'
import { InactivityTimer } from './inactivity-timer.ts'
import {
  type Transport,
  TransportError,
  type TransportRequest,
  type TransportResponse,
  type WatchConnection,
  type WatchEnd,
  type WatchRequestOptions,
} from './transport.ts'
import { loadWebSockets } from './web-sockets.ts'

/** Limits and timeouts of requests and watches. */
export const httpTransportDefaults = Object.freeze({
  /** Fails a request after this long without a byte in either direction. The server itself responds 504 earlier. */
  requestTimeoutMs: 60_000,
  /** Closes a watch after this long without a ping or an event. The server pings every 25 s, so two may be lost. */
  watchIdleTimeoutMs: 60_000,
  /** Time to connect and upgrade a watch. */
  handshakeTimeoutMs: 15_000,
  /** Connections to the server; further requests wait. */
  maxSockets: 64,
  /** Bytes of one response: a list of 100,000 ordinary objects is 80 MB; a JavaScript string holds at most 512 MB. */
  maxResponseBytes: 256 * 1024 * 1024,
  /** Bytes of one event: an object is at most 3 MiB when sent, and the server may add to it. */
  maxEventBytes: 16 * 1024 * 1024,
  /** Frames of a watch that are buffered before the socket is paused. */
  frameQueueLength: 1_000,
  /** Time for the closing handshake of a watch before the socket is destroyed. */
  closeTimeoutMs: 1_000,
  /** Bytes read of the body of a refused upgrade. */
  maxRefusalBytes: 1024 * 1024,
})

/** The server, credentials and timeouts. */
export interface HttpTransportOptions {
  /** `http://` or `https://`, host, port, and the server's base path if it has one. */
  readonly server: string | URL
  /** Bearer token, or a function that returns the current one. */
  readonly token?: string | (() => string | Promise<string>)
  /** Sent with every request. Lower-case names. */
  readonly headers?: Readonly<Record<string, string>>
  /** In PEM format. */
  readonly tls?: { readonly ca?: string; readonly cert?: string; readonly key?: string }
  readonly requestTimeoutMs?: number
  readonly watchIdleTimeoutMs?: number
  readonly handshakeTimeoutMs?: number
  readonly clock?: Clock
}

const optionKeys: KeysOf<HttpTransportOptions> = {
  server: true,
  token: true,
  headers: true,
  tls: true,
  requestTimeoutMs: true,
  watchIdleTimeoutMs: true,
  handshakeTimeoutMs: true,
  clock: true,
}
const tlsKeys: KeysOf<HttpTransportOptions['tls'] & object> = { ca: true, cert: true, key: true }

/**
 * Sends requests over kept-alive HTTP connections, and opens watches over WebSocket.
 *
 * A connection that the server closed while it was idle fails at its next use. GET is then sent once more; other methods
 * reject with a TransportError, since their outcome is unknown.
 */
export class HttpTransport implements Transport {
  readonly #base: URL
  readonly #options: HttpTransportOptions
  readonly #clock: Clock
  readonly #agent: http.Agent
  readonly #watches = new Set<WebSocket>()

  /** @throws TypeError if `server` is not an http or https URL, and for an unknown option. */
  constructor(options: HttpTransportOptions) {
    refuseUnknownKeys(options, optionKeys, 'the options of HttpTransport')
    if (options.tls !== undefined) refuseUnknownKeys(options.tls, tlsKeys, 'tls of HttpTransport')
    this.#base = new URL(options.server)
    if (this.#base.protocol !== 'http:' && this.#base.protocol !== 'https:') {
      throw new TypeError(`server ${JSON.stringify(String(options.server))} must be an http or https URL`)
    }
    this.#options = options
    this.#clock = options.clock ?? systemClock
    const { maxSockets } = httpTransportDefaults
    this.#agent =
      this.#base.protocol === 'https:'
        ? new https.Agent({ keepAlive: true, maxSockets, ...options.tls })
        : new http.Agent({ keepAlive: true, maxSockets })
  }

  /** @throws TypeError for a request of `Client.as`, which works in the server's process only */
  async request(request: TransportRequest): Promise<TransportResponse> {
    refuseUser(request)
    const headers = { ...(await this.#headers()), ...request.headers }
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
      ...this.#options.tls,
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
            headers: flatten(incoming.headers),
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

class WebSocketWatch implements WatchConnection {
  /** Rejects with the refusal, or if the server cannot be reached. */
  readonly opened: Promise<void>
  readonly end: Promise<WatchEnd>
  readonly #socket: WebSocket
  readonly #clock: Clock
  readonly #frames: FrameQueue
  #localEnd: WatchEnd | undefined

  constructor(socket: WebSocket, clock: Clock, idleTimeoutMs: number) {
    this.#socket = socket
    this.#clock = clock
    let guard: InactivityTimer | undefined
    const startGuard = () => {
      guard?.cancel()
      guard = new InactivityTimer(clock, idleTimeoutMs, () => {
        this.#terminate(`no ping or event for ${idleTimeoutMs} ms`)
      })
    }
    this.#frames = new FrameQueue(
      httpTransportDefaults.frameQueueLength,
      () => {
        // While the socket is paused, silence says nothing about the server.
        guard?.cancel()
        socket.pause()
      },
      () => {
        if (socket.readyState !== socket.OPEN) return
        startGuard()
        socket.resume()
      },
    )
    this.opened = new Promise((resolve, reject) => {
      socket.once('open', () => {
        startGuard()
        resolve()
      })
      socket.once('unexpected-response', (_request, response) => {
        void readRefusal(response).then(error => {
          reject(error)
          socket.terminate()
        })
      })
      // Stays for the life of the socket: an unhandled `error` event would end the process.
      socket.on('error', error => {
        reject(new TransportError(`watch ${socket.url}: ${error.message || error.name}`, { cause: error }))
      })
    })
    // The caller of `watch` handles the rejection; errors after `open` reject nothing.
    this.opened.catch(() => {})
    this.end = new Promise(resolve => {
      socket.once('close', (code, reason) => {
        guard?.cancel()
        this.#frames.end()
        resolve(this.#localEnd ?? { code, reason: reason.toString('utf8') })
      })
    })
    socket.on('ping', () => guard?.seen())
    socket.on('message', data => {
      guard?.seen()
      this.#frames.push(Array.isArray(data) ? Buffer.concat(data).toString('utf8') : textOf(data))
    })
  }

  close(): void {
    this.#localEnd ??= { code: 1000, reason: 'closed by the client' }
    this.#frames.end()
    if (this.#socket.readyState === this.#socket.OPEN && !this.#socket.isPaused) {
      this.#socket.close(1000)
      this.#clock.setTimeout(() => this.#socket.terminate(), httpTransportDefaults.closeTimeoutMs, {
        unref: true,
      })
    } else if (this.#socket.readyState !== this.#socket.CLOSING) {
      this.#socket.terminate()
    }
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<string, void> {
    try {
      for (;;) {
        const frame = await this.#frames.next()
        if (frame === undefined) return
        yield frame
      }
    } finally {
      this.close()
    }
  }

  #terminate(reason: string): void {
    this.#localEnd ??= { code: 1006, reason }
    this.#socket.terminate()
  }
}

function textOf(data: Buffer | ArrayBuffer): string {
  return (Buffer.isBuffer(data) ? data : Buffer.from(data)).toString('utf8')
}

async function readRefusal(response: http.IncomingMessage): Promise<Error> {
  const chunks: Buffer[] = []
  let bytes = 0
  try {
    for await (const chunk of response) {
      const part = Buffer.from(chunk)
      bytes += part.length
      if (bytes > httpTransportDefaults.maxRefusalBytes) break
      chunks.push(part)
    }
  } catch {
    // A partial body is enough: the status code identifies the error.
  }
  return decodeError({
    status: response.statusCode ?? 0,
    headers: flatten(response.headers),
    body: Buffer.concat(chunks).toString('utf8'),
  })
}

function flatten(headers: http.IncomingHttpHeaders): Record<string, string> {
  const flat: Record<string, string> = {}
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined) flat[name] = Array.isArray(value) ? value.join(', ') : value
  }
  return flat
}

function refuseUser({ user }: Pick<TransportRequest, 'user'>): void {
  if (user !== undefined)
    throw new TypeError('client.as works in the handlers of routes, which run in the server, not over HTTP')
}
