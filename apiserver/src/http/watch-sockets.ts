import type { IncomingMessage } from 'node:http'
import { loadWebSockets } from '@setpoint/controller-runtime/internal'
import type { WebSocketServer } from 'ws'
import { realProtocols } from '../security/index.ts'
import { MalformedHandshakeError } from './error-response.ts'
import type { HandshakeResponse } from './handshake-response.ts'
import { socketDefaults, WatchConnection } from './watch-connection.ts'

/** The sub-protocol for many watches on one WebSocket. */
export const multiplexProtocol = 'v1.watch.setpoint.dev'

interface Servers {
  readonly single: WebSocketServer
  readonly multiplexed: WebSocketServer
}

/** A handshake that ws works on. */
interface Attempt {
  readonly handshake: HandshakeResponse
  problem?: Error
}

/** All WebSockets of this server. Accepts them, and pings them to find dead clients. */
export class WatchSockets {
  #loading: Promise<void> | undefined
  #servers: Servers | undefined
  readonly #connections = new Set<WatchConnection>()
  readonly #pings: NodeJS.Timeout
  #current: Attempt | undefined

  constructor() {
    this.#pings = setInterval(() => {
      for (const connection of this.#connections) connection.ping()
    }, socketDefaults.pingMs)
    this.#pings.unref()
  }

  /** Loads what `accept` needs. */
  load(): Promise<void> {
    this.#loading ??= this.#load()
    return this.#loading
  }

  async #load(): Promise<void> {
    const { WebSocketServer } = await loadWebSockets()
    const serverFor = (choose: ProtocolChoice) => {
      const server = new WebSocketServer({ ...serverOptions, handleProtocols: choose })
      server.on('wsClientError', error => {
        if (this.#current !== undefined) this.#current.problem = error
      })
      server.on('headers', lines => {
        // ws encodes the lines as UTF-8, Node as Latin-1.
        for (const [name, value] of Object.entries(this.#current?.handshake.getHeaders() ?? {}))
          lines.push(`${name}: ${Buffer.from(String(value), 'latin1')}`)
      })
      return server
    }
    this.#servers = {
      single: serverFor(firstReal),
      multiplexed: serverFor(protocols => protocols.has(multiplexProtocol) && multiplexProtocol),
    }
  }

  /**
   * Completes a handshake, with the headers of its response. Returns undefined if the client has left. `load` must have
   * resolved. @throws MalformedHandshakeError
   */
  accept(kind: 'single' | 'multiplexed', handshake: HandshakeResponse): WatchConnection | undefined {
    const server = this.#servers?.[kind]
    if (server === undefined) throw new Error('a WebSocket was accepted before ws was loaded')
    const { req, head, connectionSocket: socket } = handshake
    let connection: WatchConnection | undefined
    const attempt: Attempt = { handshake }
    this.#current = attempt
    // Emits its events and calls back before it returns, or never.
    server.handleUpgrade(req, socket, head, client => {
      handshake.take()
      const opened = new WatchConnection(client, socket)
      this.#connections.add(opened)
      opened.onClose(() => this.#connections.delete(opened))
      connection = opened
    })
    this.#current = undefined
    if (attempt.problem !== undefined) throw new MalformedHandshakeError(attempt.problem.message)
    return connection
  }

  /** Terminates all connections that are still open. */
  close(): void {
    clearInterval(this.#pings)
    for (const connection of this.#connections) connection.terminate()
  }
}

/** A single watch needs no sub-protocol, but a browser that offers some requires one of them in the response. */
function firstReal(_protocols: Set<string>, { headers }: IncomingMessage): string | false {
  return realProtocols(headers)[0] ?? false
}

/** Chooses the sub-protocol of a WebSocket from those that the client offers. */
type ProtocolChoice = (protocols: Set<string>, message: IncomingMessage) => string | false

const serverOptions = Object.freeze({
  noServer: true,
  // Events are framed once for all subscribers; compression would frame them for each.
  perMessageDeflate: false,
  maxPayload: socketDefaults.maxMessageBytes,
  // ws parses the fragments of a message without a pause, and its cost of a message grows with the square of its
  // chunks.
  maxFragments: socketDefaults.maxFragments,
  maxBufferedChunks: socketDefaults.maxChunks,
  // One message of a socket in each turn of the event loop, so that many of them do not delay other clients.
  allowSynchronousEvents: false,
  clientTracking: false,
})

/** Returns true if a client offers the multiplexed sub-protocol. */
export function offersMultiplexing({ headers }: IncomingMessage): boolean {
  return realProtocols(headers).includes(multiplexProtocol)
}
