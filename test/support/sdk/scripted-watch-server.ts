import { once } from 'node:events'
import http from 'node:http'
import type { Socket } from 'node:net'
import { type WebSocket, WebSocketServer } from 'ws'
import { freePort } from '../ports.ts'

/** One watch as the scripted server sees it. */
class ScriptedWatch {
  /** The requested path and query. */
  readonly url: URL
  readonly #socket: WebSocket
  /** Resolves when the client or the network has closed it. */
  readonly closed: Promise<number>
  /** Number of pongs received. */
  pongs = 0

  constructor(url: URL, socket: WebSocket) {
    this.url = url
    this.#socket = socket
    this.closed = new Promise(resolve => {
      socket.once('close', resolve)
    })
    socket.on('error', () => {})
    socket.on('pong', () => {
      this.pongs++
    })
  }

  /** The version that the client resumes from, or null for a list. */
  get version(): string | null {
    return this.url.searchParams.get('version')
  }

  send(event: object): void {
    this.#socket.send(JSON.stringify(event))
  }

  sendRaw(text: string): void {
    this.#socket.send(text)
  }

  ping(): void {
    this.#socket.ping()
  }

  close(code: number, reason?: string): void {
    this.#socket.close(code, reason)
  }

  /** Terminates the connection without a closing handshake. */
  cut(): void {
    this.#socket.terminate()
  }

  /** The same, once the client has received everything that was sent. */
  cutWhenReceived(): void {
    this.#socket.once('pong', () => this.cut())
    this.#socket.ping()
  }
}

export type WatchScript = (watch: ScriptedWatch) => void
export type RequestHandler = (request: http.IncomingMessage, response: http.ServerResponse) => void

/** An HTTP response instead of the upgrade. */
export interface Refusal {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: object
}

/**
 * A real HTTP and WebSocket server that follows a script: the n-th watch runs the n-th script, and further ones the
 * last. A Refusal is sent instead of the upgrade.
 */
export class ScriptedWatchServer {
  /** All watches, in order. */
  readonly watches: ScriptedWatch[] = []
  /** All attempts to open a watch, including refused ones. */
  readonly attempts: URL[] = []
  readonly #http: http.Server
  readonly #sockets = new Set<Socket>()
  readonly #port: number

  private constructor(port: number, scripts: readonly (WatchScript | Refusal)[], onRequest: RequestHandler) {
    this.#port = port
    const webSockets = new WebSocketServer({ noServer: true, perMessageDeflate: false })
    this.#http = http.createServer(onRequest)
    this.#http.on('connection', socket => {
      this.#sockets.add(socket)
      socket.once('close', () => this.#sockets.delete(socket))
    })
    this.#http.on('upgrade', (request, socket, head) => {
      const url = new URL(request.url ?? '/', 'http://localhost')
      const script = scripts[Math.min(this.attempts.length, scripts.length - 1)]
      this.attempts.push(url)
      if (typeof script !== 'function') {
        const { status = 503, headers = {}, body } = script ?? {}
        const text = body === undefined ? '' : JSON.stringify(body)
        const lines = Object.entries({ 'content-length': String(Buffer.byteLength(text)), ...headers })
        socket.end(
          `HTTP/1.1 ${status} Refused\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n${text}`,
        )
        return
      }
      webSockets.handleUpgrade(request, socket, head, webSocket => {
        const watch = new ScriptedWatch(url, webSocket)
        this.watches.push(watch)
        script(watch)
      })
    })
  }

  static async start(
    scripts: readonly (WatchScript | Refusal)[],
    onRequest: RequestHandler = (_request, response) => response.writeHead(404).end(),
  ): Promise<ScriptedWatchServer> {
    const server = new ScriptedWatchServer(await freePort(), scripts, onRequest)
    await server.listen()
    return server
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`
  }

  /** Listens; after `stop`, on the same port. */
  async listen(): Promise<void> {
    await once(this.#http.listen(this.#port, '127.0.0.1'), 'listening')
  }

  /** Terminates all connections and stops listening. */
  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    await new Promise<void>(resolve => this.#http.close(() => resolve()))
  }
}
