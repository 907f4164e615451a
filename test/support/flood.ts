import { once } from 'node:events'
import { connect, type Socket } from 'node:net'

/** Connections that send pipelined requests, all for the same target. */
export class Flood {
  readonly #sockets: readonly Socket[]
  readonly #requests: readonly string[]
  readonly #received: string[]
  #onData: () => void = () => {}

  private constructor(sockets: readonly Socket[], requests: readonly string[]) {
    this.#sockets = sockets
    this.#requests = requests
    this.#received = sockets.map(() => '')
    for (const [n, socket] of sockets.entries()) {
      socket.on('error', () => {})
      socket.setEncoding('latin1').on('data', text => {
        this.#received[n] = `${this.#received[n]}${text}`
        this.#onData()
      })
    }
  }

  /**
   * Resolves when the server has accepted the connections.
   * @param headersOf returns the headers of the requests on each connection
   */
  static async open(
    port: number,
    connections: number,
    target: string,
    headersOf: (connection: number) => Readonly<Record<string, string>>,
  ): Promise<Flood> {
    const sockets = Array.from({ length: connections }, () => connect(port, '127.0.0.1'))
    const requests = sockets.map((_, n) => {
      const headers = Object.entries({ host: '127.0.0.1', ...headersOf(n) })
      const lines = [`GET ${target} HTTP/1.1`, ...headers.map(([name, value]) => `${name}: ${value}`)]
      return `${lines.join('\r\n')}\r\n\r\n`
    })
    const flood = new Flood(sockets, requests)
    await Promise.all(sockets.map(socket => once(socket, 'connect')))
    // The kernel connects them first. The server accepts them in order, so a response on a later one shows that it has.
    const later = connect(port, '127.0.0.1').setEncoding('latin1')
    later.write('GET /livez HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n')
    await once(later, 'data')
    later.destroy()
    return flood
  }

  /** Returns how often a pattern is in the responses so far. */
  count(pattern: RegExp): number {
    return this.#received.reduce((sum, text) => sum + (text.match(pattern)?.length ?? 0), 0)
  }

  /** Returns the status codes of the responses so far. */
  statuses(): string[] {
    return this.#received.flatMap(text => text.match(/(?<=HTTP\/1\.1 )\d{3}/g) ?? [])
  }

  /** Sends this many requests on each connection. Resolves when the kernel has them. */
  async send(each: number): Promise<void> {
    await Promise.all(
      this.#sockets.map(
        (socket, n) =>
          new Promise<void>(resolve => socket.write((this.#requests[n] ?? '').repeat(each), () => resolve())),
      ),
    )
  }

  /** From now on, sends a request for each response. */
  repeat(): void {
    for (const [n, socket] of this.#sockets.entries())
      socket.on('data', text => {
        socket.write((this.#requests[n] ?? '').repeat(`${text}`.split('HTTP/1.1 ').length - 1))
      })
  }

  /** Resolves when a pattern is in the responses so often. */
  async until(pattern: RegExp, times: number): Promise<void> {
    while (this.count(pattern) < times)
      await new Promise<void>(resolve => {
        this.#onData = resolve
      })
  }

  /** A client that only closes its half gets responses for a while. */
  leave(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy()
  }
}
