import { createServer, type IncomingMessage, request, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type WebSocket, WebSocketServer } from 'ws'

/**
 * Stands before a server. It passes requests on, and takes the WebSockets itself: each watch of the flooded path gets
 * events at a steady rate, more than the disk of a test machine could store.
 */
export class EventFlood {
  /** Events that have been sent. */
  sent = 0
  readonly #server: Server
  readonly #sockets: WebSocketServer
  readonly #timers = new Map<string, ReturnType<typeof setInterval>>()

  private constructor(server: Server, sockets: WebSocketServer) {
    this.#server = server
    this.#sockets = sockets
  }

  /**
   * @param path of the watches that are flooded, without a query
   * @param event returns the text of the next event, given its number
   * @param perSecond how many events each watch gets a second
   */
  static async open(
    target: string,
    path: string,
    event: (at: number) => string,
    perSecond: number,
  ): Promise<EventFlood> {
    const { hostname, port } = new URL(target)
    const server = createServer((incoming: IncomingMessage, response) => {
      const { method, url, headers } = incoming
      const passed = request({ hostname, port, method, path: url, headers }, answer => {
        response.writeHead(answer.statusCode ?? 500, answer.headers)
        answer.pipe(response)
      })
      passed.on('error', () => response.destroy())
      incoming.pipe(passed)
    })
    const sockets = new WebSocketServer({ server, handleProtocols: () => 'v1.watch.setpoint.dev' })
    const flood = new EventFlood(server, sockets)
    sockets.on('connection', socket =>
      socket.on('message', data => {
        const message: unknown = JSON.parse(String(data))
        flood.#receive(socket, message, path, event, perSecond)
      }),
    )
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    return flood
  }

  get url(): string {
    const { port } = this.#server.address() as AddressInfo
    return `http://127.0.0.1:${port}`
  }

  close(): void {
    for (const timer of this.#timers.values()) clearInterval(timer)
    for (const socket of this.#sockets.clients) socket.terminate()
    this.#server.closeAllConnections()
    this.#server.close()
  }

  #receive(
    socket: WebSocket,
    message: unknown,
    flooded: string,
    event: (at: number) => string,
    perSecond: number,
  ): void {
    const { op, id, path = '' } = message as { op: string; id: string; path?: string }
    if (op === 'ping') socket.send(JSON.stringify({ id, type: 'PONG' }))
    if (op === 'unsubscribe') clearInterval(this.#timers.get(id))
    if (op !== 'subscribe' || path.split('?')[0] !== flooded) return
    let due = performance.now()
    const timer = setInterval(() => {
      for (const now = performance.now(); due < now; due += 1000 / perSecond) {
        socket.send(`{"id":${JSON.stringify(id)},${event(this.sent++).slice(1)}`)
      }
    }, 4)
    this.#timers.set(id, timer)
    socket.on('close', () => clearInterval(timer))
  }
}
