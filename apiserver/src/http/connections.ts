import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { Server, type Socket } from 'node:net'
import { Server as SecureServer } from 'node:tls'
import { type Clock, systemClock } from '@setpoint/controller-runtime'
import type { ApiError } from '@setpoint/controller-runtime/api'
import type { CancelTimer } from '@setpoint/controller-runtime/internal'
import type { Logger } from '../log/index.ts'
import { Connection, connectionDefaults, drainDefaults } from './connection.ts'
import { ConnectionBound } from './connection-bound.ts'
import { maxConnections } from './descriptors.ts'
import { TlsHandshakes } from './tls-handshakes.ts'

/**
 * A listener that makes Node read a socket as a stream. Without one, Node's parser takes data from the socket directly.
 * Over TLS it then gets further records of a read after it has paused the socket, and rejects them as malformed.
 */
const readAsStream = () => {}

/**
 * The connections of an HTTP server: a graceful drain, and the time limits that Node's server does not have.
 *
 * Guarantee: while the server drains, a request that has arrived gets its whole response or is not handled at all.
 *
 * Node limits headers, whole requests, idle connections and TLS handshakes. Its `close()` would destroy idle
 * connections at once, even with a request in the kernel's buffer, and stop the checks for stalled ones.
 */
export class Connections {
  readonly #server: Server
  readonly #clock: Clock
  readonly #log: Logger
  readonly #all = new Map<Socket, Connection>()
  /** Undefined without TLS. */
  readonly #handshakes: TlsHandshakes | undefined
  readonly #bound: ConnectionBound
  /** Responses without an end. Watches have their own limit for slow clients. */
  readonly #streams = new WeakSet<ServerResponse>()
  readonly #closed: Promise<void>
  #drainedAt: number | undefined
  #cancelCheck: CancelTimer = () => {}

  constructor(
    server: Server,
    options: {
      log: Logger
      clock?: Clock
      /** Most open connections. By default derived from the descriptors of the process. */
      limit?: number
    },
  ) {
    const { log, clock = systemClock, limit = maxConnections() } = options
    this.#server = server
    this.#clock = clock
    this.#log = log
    this.#bound = new ConnectionBound(limit, log)
    // By default Node closes the server's half together with the client's, before the responses are sent. Its types
    // lack this property.
    Object.assign(server, { httpAllowHalfOpen: true })
    this.#closed = new Promise(resolve => server.once('close', resolve))
    const handshakes = server instanceof SecureServer ? new TlsHandshakes(server) : undefined
    this.#handshakes = handshakes
    server.on('connection', socket => this.#bound.accept(socket))
    if (handshakes !== undefined) {
      server.on('connection', socket => this.#handshaking(handshakes, socket))
      server.on('secureConnection', socket => {
        const accepted = handshakes.complete(socket)
        if (accepted !== undefined) this.#bound.markInUse(accepted)
        socket.on('data', readAsStream)
        this.#opened(socket)
      })
    } else server.on('connection', socket => this.#opened(socket))
    server.on('timeout', (socket: Socket) => {
      const connection = this.#all.get(socket)
      if (connection === undefined) socket.destroy()
      else if (!connection.isBusy) connection.end()
    })
    this.#scheduleCheck()
  }

  /**
   * Handles the requests of a connection in order. Drops a request that arrives after `connection: close` was
   * announced.
   */
  handle(message: IncomingMessage, response: ServerResponse, handle: RequestListener): void {
    const { socket } = message
    const connection = this.#all.get(socket)
    if (connection === undefined) {
      handle(message, response)
      return
    }
    if (connection.begin(message, response, handle, this.#drainedAt !== undefined))
      this.#bound.markInUse(socket)
  }

  /** Marks a response that has no end. */
  streams(response: ServerResponse): void {
    this.#streams.add(response)
    if (response.socket !== null) this.#all.get(response.socket)?.dropPipelined()
  }

  /** Returns true if a request can upgrade the connection: it has no open requests before it. */
  mayRelease(socket: Socket): boolean {
    const connection = this.#all.get(socket)
    return connection !== undefined && !connection.isBusy && !connection.isEnding
  }

  /** Removes a connection that no longer carries HTTP. */
  release(socket: Socket): void {
    socket.off('data', readAsStream)
    this.#all.delete(socket)
    this.#bound.markInUse(socket)
  }

  /** Rejects malformed or late input. Responses to earlier requests are sent first. */
  refuse(socket: Socket, error: ApiError): void {
    const connection = this.#all.get(socket)
    // For example after a failed TLS handshake.
    if (connection === undefined) socket.destroy()
    else connection.refuse(error)
  }

  /**
   * Stops accepting connections. Every response from now on announces the end of its connection, and idle connections
   * are closed after a while. Resolves when all are closed.
   */
  drain(): Promise<void> {
    this.#drainedAt = this.#clock.monotonic()
    for (const connection of this.#all.values()) connection.drain()
    // Later, because requests on connections that wait to be accepted would be lost. Not the method of HTTP servers,
    // which closes connections by its own rules.
    setImmediate(() => Server.prototype.close.call(this.#server))
    this.#scheduleCheck()
    return this.#closed
  }

  /** Destroys all connections. */
  close(): void {
    this.#cancelCheck()
    // Also stops Node's own checks.
    this.#server.close()
    for (const socket of [...this.#all.keys()]) socket.destroy()
    this.#handshakes?.destroyAll()
  }

  #opened(socket: Socket): void {
    if (socket.destroyed) return
    const connection = new Connection(socket, {
      clock: this.#clock,
      log: this.#log,
      isStream: response => this.#streams.has(response),
      onIdle: () => this.#bound.markIdle(socket),
    })
    this.#all.set(socket, connection)
    this.#bound.markIdle(socket)
    socket.once('close', () => {
      this.release(socket)
      connection.abandon()
    })
  }

  #handshaking(handshakes: TlsHandshakes, socket: Socket): void {
    if (socket.destroyed) return
    handshakes.begin(socket)
    this.#bound.markIdle(socket)
    socket.once('close', () => this.#bound.markInUse(socket))
  }

  #scheduleCheck(): void {
    const { checkMs } = this.#drainedAt === undefined ? connectionDefaults : drainDefaults
    this.#cancelCheck()
    this.#cancelCheck = this.#clock.setTimeout(() => this.#checkAll(), checkMs, { unref: true })
  }

  #checkAll(): void {
    const now = this.#clock.monotonic()
    for (const [socket, connection] of this.#all) {
      connection.check(now, this.#drainedAt)
      // Otherwise one client with many unread responses would hold all connections until they stall.
      if (connection.isUnread) this.#bound.markIdle(socket)
    }
    if (this.#drainedAt !== undefined && now - this.#drainedAt >= drainDefaults.lingerMs)
      this.#handshakes?.destroyAll()
    this.#scheduleCheck()
  }
}
