import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { WebSocketServer } from 'ws'
import { realProtocols } from '../security/index.ts'
import { socketDefaults, WatchConnection } from './watch-connection.ts'

/** The sub-protocol of many watches on one WebSocket (contract, section 6). */
export const multiplexProtocol = 'v1.watch.setpoint.dev'

/** Every WebSocket of this server: opens them and finds those whose client is gone without a word. */
export class WatchSockets {
  readonly #single = webSocketServer(firstReal)
  readonly #multiplexed = webSocketServer(protocols => protocols.has(multiplexProtocol) && multiplexProtocol)
  readonly #connections = new Set<WatchConnection>()
  readonly #pings: NodeJS.Timeout

  /** `refuse` answers a handshake that is malformed. */
  constructor(refuse: (socket: Duplex, why: string) => void) {
    for (const server of [this.#single, this.#multiplexed])
      server.on('wsClientError', (error, socket) => refuse(socket, error.message))
    this.#pings = setInterval(() => {
      for (const connection of this.#connections) connection.ping()
    }, socketDefaults.pingMs)
    this.#pings.unref()
  }

  /** Completes the upgrade. @returns undefined where the handshake was malformed and has been refused. */
  accept(
    kind: 'single' | 'multiplexed',
    message: IncomingMessage,
    socket: Duplex,
    head: Buffer,
  ): WatchConnection | undefined {
    const server = kind === 'single' ? this.#single : this.#multiplexed
    let connection: WatchConnection | undefined
    // Called back before it returns, or not at all.
    server.handleUpgrade(message, socket, head, client => {
      const opened = new WatchConnection(client, socket)
      this.#connections.add(opened)
      opened.onClose(() => this.#connections.delete(opened))
      connection = opened
    })
    return connection
  }

  /** Drops what has not closed by itself. */
  close(): void {
    clearInterval(this.#pings)
    for (const connection of this.#connections) connection.terminate()
  }
}

/** One watch speaks no protocol of its own, but a browser that offered some wants to see one of them chosen. */
function firstReal(_protocols: Set<string>, { headers }: IncomingMessage): string | false {
  return realProtocols(headers)[0] ?? false
}

function webSocketServer(
  handleProtocols: (protocols: Set<string>, message: IncomingMessage) => string | false,
): WebSocketServer {
  return new WebSocketServer({
    noServer: true,
    // Events are framed once for all subscribers, and compression would need them one by one.
    perMessageDeflate: false,
    maxPayload: socketDefaults.maxMessageBytes,
    clientTracking: false,
    handleProtocols,
  })
}

/** Whether a client offers the multiplexed sub-protocol. */
export function offersMultiplexing({ headers }: IncomingMessage): boolean {
  return realProtocols(headers).includes(multiplexProtocol)
}
