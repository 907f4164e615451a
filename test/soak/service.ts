import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'

/**
 * Forwards each TCP connection to the next of its ports that accepts one, as a Service does to the pods that are ready.
 */
export class Service {
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  #next = 0

  private constructor(ports: readonly number[]) {
    this.#server = createServer(client => {
      this.#keep(client)
      this.#next += 1
      const first = this.#next % ports.length
      void this.#forward(client, [...ports.slice(first), ...ports.slice(0, first)])
    })
  }

  static async start(port: number, ports: readonly number[]): Promise<Service> {
    const service = new Service(ports)
    service.#server.listen(port, '127.0.0.1')
    await once(service.#server, 'listening')
    return service
  }

  async stop(): Promise<void> {
    const closed = once(this.#server, 'close')
    this.#server.close()
    for (const socket of this.#sockets) socket.destroy()
    await closed
  }

  async #forward(client: Socket, ports: readonly number[]): Promise<void> {
    for (const port of ports) {
      const upstream = connect(port, '127.0.0.1')
      this.#keep(upstream)
      try {
        await once(upstream, 'connect')
      } catch {
        continue
      }
      upstream.on('close', () => client.destroy())
      client.on('close', () => upstream.destroy())
      client.pipe(upstream).pipe(client)
      return
    }
    client.destroy()
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket)
    // `close` follows.
    socket.on('error', () => {})
    socket.on('close', () => this.#sockets.delete(socket))
  }
}
