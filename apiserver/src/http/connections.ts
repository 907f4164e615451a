import type { IncomingMessage, ServerResponse } from 'node:http'
import { Server, type Socket } from 'node:net'
import { Server as SecureServer } from 'node:tls'
import { type Clock, systemClock } from '@setpoint/controller-runtime'
import { ApiError } from '@setpoint/controller-runtime/api'
import type { CancelTimer } from '@setpoint/controller-runtime/internal'
import type { Logger } from '../log/index.ts'
import { retryAfterSeconds } from '../registry/index.ts'
import { maxConnections } from './descriptors.ts'
import { errorResponse } from './error-response.ts'
import { endWith } from './raw-response.ts'
import { refuseBody } from './request-body.ts'
import { mayEndHttp } from './upgrade-offer.ts'

export const connectionDefaults = Object.freeze({
  /** Milliseconds before an idle connection is closed: more than load balancers keep theirs, which must close first. */
  keepAliveMs: 75_000,
  /** Milliseconds for a request's line and headers, and for the first request of a new connection. */
  headersMs: 60_000,
  /** Milliseconds for a whole request: its largest body at 10 KiB per second. */
  requestMs: 300_000,
  /** Milliseconds for a TLS handshake. */
  handshakeMs: 20_000,
  /** Milliseconds without a byte of a body before its request is rejected. */
  bodyStallMs: 30_000,
  /** Milliseconds without progress of a response before its client is disconnected. Progress shows in steps of 100 KiB. */
  responseStallMs: 60_000,
  /** Milliseconds between two checks of all connections. */
  checkMs: 1_000,
  /** Milliseconds of silence before the kernel's first TCP keep-alive probe. */
  probeAfterMs: 30_000,
})

/** The same while the server drains. */
export const drainDefaults = Object.freeze({
  /**
   * Checks of an idle connection before it is closed: half a second for one more request, whose response announces the
   * close. To a client that sends a request during the close, it looks lost. Checks are counted, not time: between two
   * of them everything that has arrived is read, also on a busy machine.
   */
  idleChecks: 10,
  bodyStallMs: 3_000,
  responseStallMs: 8_000,
  checkMs: 50,
  /** Milliseconds for the client to close its half of a connection after the server has closed its own. */
  lingerMs: 1_000,
})

/** A request with its response. */
interface Exchange {
  readonly message: IncomingMessage
  readonly response: ServerResponse
}

/** The bytes transferred in one direction, and the time of the last change. */
interface Progress {
  bytes: number
  at: number
}

/**
 * A connection with HTTP requests:
 *
 *     idle ⇄ busy       `open` has requests while busy
 *     idle → ending     the server's half is closed; later requests are read but not handled, to avoid a reset
 *     any  → closed
 */
interface Connection {
  readonly socket: Socket
  /** Requests without a complete response, oldest first. */
  readonly open: Exchange[]
  /** Checks without a request since the server drains. */
  idleChecks: number
  readonly received: Progress
  readonly sent: Progress
  latest: IncomingMessage | undefined
  /** Bytes read at the end of the last response: more bytes belong to another request. */
  respondedBytes: number
  /** The response that announces the end of the connection. */
  last: ServerResponse | undefined
  /** Later requests are not handled, because Node's parser has dropped bytes of the connection. */
  isSealed: boolean
  endingSince: number | undefined
}

/**
 * The connections of an HTTP server: a graceful drain, and the time limits that Node's server does not have.
 *
 * Connections are bounded in number, so that descriptors remain for files and the store. At the bound a new connection
 * replaces the one that has been idle the longest; if none is idle, it is closed.
 *
 * Guarantees: disconnects a client that stalls within a request or does not read its response. While the server drains,
 * a request that has arrived gets its whole response or is not handled at all. Requests behind a response that announces
 * the end of the connection are not handled (RFC 9112, 9.6).
 *
 * Node limits headers, whole requests, idle connections and TLS handshakes. Its `close()` would destroy idle connections
 * at once, even with a request in the kernel's buffer, and stop the checks for stalled ones.
 */
export class Connections {
  readonly #server: Server
  readonly #clock: Clock
  readonly #log: Logger
  readonly #all = new Map<Socket, Connection>()
  /** Connections in their TLS handshake, by the client's address. */
  readonly #handshakes = new Map<string, Socket>()
  /** Responses without an end. Watches have their own limit for slow clients. */
  readonly #streams = new WeakSet<ServerResponse>()
  readonly #maxConnections: number
  /** Open TCP connections, including those that no longer speak HTTP. */
  #open = 0
  /** Sockets without a request in progress, or in their TLS handshake, the longest idle first. */
  readonly #idle = new Set<Socket>()
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
    this.#maxConnections = limit
    this.#closed = new Promise(resolve => server.once('close', resolve))
    server.on('connection', socket => this.#accepted(socket))
    if (server instanceof SecureServer) {
      server.on('connection', socket => this.#handshaking(socket))
      server.on('secureConnection', socket => {
        this.#shookHands(socket)
        this.#opened(socket)
      })
    } else server.on('connection', socket => this.#opened(socket))
    server.on('timeout', (socket: Socket) => {
      const connection = this.#all.get(socket)
      if (connection === undefined) socket.destroy()
      else if (connection.open.length === 0) this.#end(connection)
    })
    this.#scheduleCheck()
  }

  /** Registers a request. Returns false if it must not be handled. */
  begin(message: IncomingMessage, response: ServerResponse): boolean {
    const connection = this.#all.get(message.socket)
    if (connection === undefined) return true
    const { open, last, socket } = connection
    if (connection.endingSince !== undefined || connection.isSealed || last?.headersSent) {
      message.resume()
      return false
    }
    // Another request was sent before the client could read the announcement.
    if (last !== undefined) last.shouldKeepAlive = true
    const exchange: Exchange = { message, response }
    open.push(exchange)
    this.#idle.delete(socket)
    connection.latest = message
    connection.isSealed = mayEndHttp(message)
    if (this.#drainedAt !== undefined || last !== undefined || connection.isSealed)
      this.#announceEnd(connection, response)
    const now = this.#clock.monotonic()
    connection.received.at = now
    if (open.length === 1) connection.sent.at = now
    response.once('close', () => {
      open.splice(open.indexOf(exchange), 1)
      if (open.length > 0) return
      if (this.#all.has(socket) && !socket.destroyed) this.#idle.add(socket)
      connection.idleChecks = 0
      connection.respondedBytes = socket.bytesRead
      if (connection.last !== undefined && !socket.destroyed) this.#end(connection)
    })
    return true
  }

  /** Marks a response that has no end. */
  streams(response: ServerResponse): void {
    this.#streams.add(response)
  }

  /** Returns true if a request can upgrade the connection: it has no open requests before it. */
  mayRelease(socket: Socket): boolean {
    const connection = this.#all.get(socket)
    return connection?.open.length === 0 && connection.endingSince === undefined
  }

  /** Removes a connection that no longer carries HTTP. */
  release(socket: Socket): void {
    this.#all.delete(socket)
    this.#idle.delete(socket)
  }

  /** Rejects malformed or late input. Responses to earlier requests are sent first. */
  refuse(socket: Socket, error: ApiError): void {
    const connection = this.#all.get(socket)
    // For example after a failed TLS handshake.
    if (connection === undefined || !socket.writable) {
      socket.destroy()
      return
    }
    const newest = connection.open.at(-1)
    if (newest === undefined) {
      if (connection.endingSince === undefined) this.#end(connection, error)
    } else if (newest.message.complete || !refuseBody(newest.message, error)) {
      this.#endAfterResponses(connection)
    }
  }

  /**
   * Stops accepting connections. Every response from now on announces the end of its connection, and idle connections
   * are closed after a while. Resolves when all are closed.
   */
  drain(): Promise<void> {
    this.#drainedAt = this.#clock.monotonic()
    for (const connection of this.#all.values()) {
      const newest = connection.open.at(-1)
      if (newest !== undefined && !newest.response.headersSent) this.#announceEnd(connection, newest.response)
    }
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
    for (const socket of [...this.#all.keys(), ...this.#handshakes.values()]) socket.destroy()
  }

  /** Counts a connection, and makes room for it. */
  #accepted(socket: Socket): void {
    if (this.#open >= this.#maxConnections) {
      const [longestIdle = socket] = this.#idle
      longestIdle.destroy()
      this.#idle.delete(longestIdle)
      this.#log.warn(
        { connections: this.#open },
        longestIdle === socket
          ? 'too many connections, closed a new one'
          : 'too many connections, closed the longest idle one',
      )
      if (longestIdle === socket) return
    }
    this.#open++
    socket.once('close', () => this.#open--)
  }

  #opened(socket: Socket): void {
    if (socket.destroyed) return
    const at = this.#clock.monotonic()
    const connection: Connection = {
      socket,
      open: [],
      idleChecks: 0,
      received: { bytes: 0, at },
      sent: { bytes: 0, at },
      latest: undefined,
      respondedBytes: 0,
      last: undefined,
      isSealed: false,
      endingSince: undefined,
    }
    this.#all.set(socket, connection)
    this.#idle.add(socket)
    socket.once('close', () => {
      this.#all.delete(socket)
      this.#idle.delete(socket)
      // Node closes only the current response. A watch behind it would stay open until its own time limit.
      for (const { response } of [...connection.open]) {
        if (response.socket !== null) continue
        response.destroy()
        response.emit('close')
      }
    })
  }

  #handshaking(socket: Socket): void {
    const address = addressOf(socket)
    if (socket.destroyed) return
    this.#handshakes.set(address, socket)
    this.#idle.add(socket)
    socket.once('close', () => {
      this.#idle.delete(socket)
      if (this.#handshakes.get(address) === socket) this.#handshakes.delete(address)
    })
  }

  #shookHands(socket: Socket): void {
    const address = addressOf(socket)
    const plain = this.#handshakes.get(address)
    if (plain !== undefined) this.#idle.delete(plain)
    this.#handshakes.delete(address)
  }

  #announceEnd(connection: Connection, response: ServerResponse): void {
    connection.last = response
    response.shouldKeepAlive = false
  }

  /** Ends the connection after the responses to all open requests. */
  #endAfterResponses(connection: Connection): void {
    const newest = connection.open.at(-1)
    if (newest === undefined || connection.last !== undefined) return
    if (newest.response.headersSent) connection.last = newest.response
    else this.#announceEnd(connection, newest.response)
  }

  /** Closes the server's half, after an error response if a request has begun. */
  #end(connection: Connection, error?: ApiError): void {
    const { socket } = connection
    connection.endingSince = this.#clock.monotonic()
    const hasBegun = socket.bytesRead > connection.respondedBytes && connection.latest?.complete !== false
    if (error !== undefined && hasBegun) endWith(socket, errorResponse(error))
    else socket.end()
  }

  #scheduleCheck(): void {
    const { checkMs } = this.#drainedAt === undefined ? connectionDefaults : drainDefaults
    this.#cancelCheck()
    this.#cancelCheck = this.#clock.setTimeout(() => this.#checkAll(), checkMs, { unref: true })
  }

  #checkAll(): void {
    const now = this.#clock.monotonic()
    for (const connection of this.#all.values()) this.#check(connection, now)
    if (this.#drainedAt !== undefined && now - this.#drainedAt >= drainDefaults.lingerMs)
      for (const socket of this.#handshakes.values()) socket.destroy()
    this.#scheduleCheck()
  }

  #check(connection: Connection, now: number): void {
    const { socket, open, received, sent, endingSince } = connection
    const drainedAt = this.#drainedAt
    if (endingSince !== undefined) {
      if (now - endingSince >= drainDefaults.lingerMs) socket.destroy()
      return
    }
    const newest = open.at(-1)
    if (newest === undefined) {
      if (drainedAt === undefined) return
      connection.idleChecks++
      if (connection.idleChecks >= drainDefaults.idleChecks)
        this.#end(connection, shuttingDown('it did not arrive in time'))
      return
    }
    const { bodyStallMs, responseStallMs } = drainedAt === undefined ? connectionDefaults : drainDefaults
    note(received, socket.bytesRead, now)
    note(sent, socket.bytesWritten - socket.writableLength, now)
    if (socket.writableLength === 0) sent.at = now
    const since = (at: number) => now - Math.max(at, drainedAt ?? at)
    if (!newest.message.complete && since(received.at) >= bodyStallMs) {
      const why = `no data of the body arrived for ${bodyStallMs / 1000} s`
      refuseBody(
        newest.message,
        drainedAt === undefined ? new ApiError('BadRequest', why) : shuttingDown(why),
      )
    }
    const [current] = open
    // A stream ends with its response, or when the client closes its half: Node then closes the server's.
    const isEndless =
      current !== undefined &&
      this.#streams.has(current.response) &&
      !current.response.writableEnded &&
      socket.writable
    if (since(sent.at) >= responseStallMs && !isEndless) {
      const { url } = current?.message ?? {}
      this.#log.warn({ path: url }, 'disconnected a client that did not read its response')
      socket.destroy()
    }
  }
}

function note(progress: Progress, bytes: number, now: number): void {
  if (bytes === progress.bytes) return
  progress.bytes = bytes
  progress.at = now
}

function shuttingDown(why: string): ApiError {
  return new ApiError('ServiceUnavailable', `the server is shutting down and dropped the request: ${why}`, {
    retryAfterSeconds,
  })
}

function addressOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`
}
