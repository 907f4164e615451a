import type { IncomingMessage, ServerResponse } from 'node:http'
import { Server, type Socket } from 'node:net'
import { Server as SecureServer } from 'node:tls'
import { type Clock, systemClock } from '@setpoint/controller-runtime'
import { ApiError } from '@setpoint/controller-runtime/api'
import type { CancelTimer } from '@setpoint/controller-runtime/internal'
import type { Logger } from '../log.ts'
import { retryAfterSeconds } from '../registry/index.ts'
import { errorResponse } from './error-response.ts'
import { endWith } from './raw-response.ts'
import { refuseBody } from './request-body.ts'
import { mayEndHttp } from './upgrade-offer.ts'

export const connectionDefaults = Object.freeze({
  /** Milliseconds that an idle connection is kept: above those of ordinary load balancers, which must not meet a closed one. */
  keepAliveMs: 75_000,
  /** Milliseconds for a request's line and headers to arrive, and for the first of them on a new connection. */
  headersMs: 60_000,
  /** Milliseconds for a whole request to arrive: its largest body at some 10 KiB a second. */
  requestMs: 300_000,
  /** Milliseconds for a TLS handshake. */
  handshakeMs: 20_000,
  /** Milliseconds without a byte of a body after which it is given up. */
  bodyStallMs: 30_000,
  /**
   * Milliseconds in which a client takes nothing of its answer, after which it is cut off. The system tells of what is
   * taken in steps of some 100 KiB.
   */
  answerStallMs: 60_000,
  /** Milliseconds between two looks at all connections. */
  lookMs: 1_000,
  /** Milliseconds of silence after which the system asks whether the other end of a connection is still there. */
  probeAfterMs: 30_000,
})

/** The same while the server shuts down. */
export const drainDefaults = Object.freeze({
  /**
   * Looks at an idle connection before it is closed, so half a second for its next request: whoever asks in this time is
   * answered, and told that the connection ends. To a client that asks while its connection is being closed, its request
   * looks lost. Not by the clock: between two looks everything that has arrived is read, however busy the machine is.
   */
  quietLooks: 10,
  bodyStallMs: 3_000,
  answerStallMs: 8_000,
  lookMs: 50,
  /** Milliseconds that the client of a connection that we have closed has to close its half. */
  lingerMs: 1_000,
})

/** A request with its answer. */
interface Exchange {
  readonly message: IncomingMessage
  readonly response: ServerResponse
}

/** Bytes that have gone one way, and when that number last changed. */
interface Progress {
  bytes: number
  at: number
}

/**
 * A connection of which requests are read:
 *
 *     quiet ⇄ open      requests on it are being read or answered, or none is
 *     quiet → ending    our half is closed; what comes is read and not carried out, so that nothing is reset
 *     any   → closed
 */
interface Connection {
  readonly socket: Socket
  /** In the order in which they came and are answered. */
  readonly open: Exchange[]
  /** Looks at which nothing was asked, since the server shuts down. */
  quietLooks: number
  readonly heard: Progress
  readonly taken: Progress
  latest: IncomingMessage | undefined
  /** Bytes that had been read when the last request was answered: more than that is the beginning of another. */
  answeredBytes: number
  /** The answer that says, or will say, that the connection ends with it. */
  last: ServerResponse | undefined
  /** No request behind `last` is carried out: the parser has dropped bytes of the connection. */
  isSealed: boolean
  endingSince: number | undefined
}

/**
 * The connections of an HTTP server, and how long each may take.
 *
 * Guarantees: a client that is silent in the middle of a request, or that does not take its answer, is cut off in
 * bounded time. While the server shuts down, a request that has arrived is answered whole, or it was not carried out:
 * no connection is closed under one. Requests behind an answer that announces the connection's end are not carried out
 * (RFC 9112, 9.6).
 *
 * Node's own `close()` closes what it takes for idle at once, also where a request is in the system's buffer, and
 * stops looking for those that make no progress.
 */
export class Connections {
  readonly #server: Server
  readonly #clock: Clock
  readonly #log: Logger
  readonly #all = new Map<Socket, Connection>()
  /** Connections in their TLS handshake, by the client's address. */
  readonly #handshakes = new Map<string, Socket>()
  /** Answers that have no end of their own: who does not take them is found elsewhere. */
  readonly #streams = new WeakSet<ServerResponse>()
  readonly #closed: Promise<void>
  #drainedAt: number | undefined
  #cancelLook: CancelTimer = () => {}

  constructor(server: Server, { log, clock = systemClock }: { log: Logger; clock?: Clock }) {
    this.#server = server
    this.#clock = clock
    this.#log = log
    this.#closed = new Promise(resolve => server.once('close', resolve))
    if (server instanceof SecureServer) {
      server.on('connection', socket => this.#shakesHands(socket))
      server.on('secureConnection', socket => {
        this.#handshakes.delete(addressOf(socket))
        this.#opened(socket)
      })
    } else server.on('connection', socket => this.#opened(socket))
    server.on('timeout', (socket: Socket) => {
      const connection = this.#all.get(socket)
      if (connection === undefined) socket.destroy()
      else if (connection.open.length === 0) this.#end(connection)
    })
    this.#lookLater()
  }

  /** A request has come. @returns whether it is to be carried out. */
  begin(message: IncomingMessage, response: ServerResponse): boolean {
    const connection = this.#all.get(message.socket)
    if (connection === undefined) return true
    const { open, last, socket } = connection
    if (connection.endingSince !== undefined || connection.isSealed || last?.headersSent) {
      message.resume()
      return false
    }
    // More than one may have been on its way before the client could know.
    if (last !== undefined) last.shouldKeepAlive = true
    const exchange: Exchange = { message, response }
    open.push(exchange)
    connection.latest = message
    connection.isSealed = mayEndHttp(message)
    if (this.#drainedAt !== undefined || last !== undefined || connection.isSealed)
      this.#announceEnd(connection, response)
    const now = this.#clock.monotonic()
    connection.heard.at = now
    if (open.length === 1) connection.taken.at = now
    response.once('close', () => {
      open.splice(open.indexOf(exchange), 1)
      if (open.length > 0) return
      connection.quietLooks = 0
      connection.answeredBytes = socket.bytesRead
      if (connection.last !== undefined && !socket.destroyed) this.#end(connection)
    })
    return true
  }

  /** An answer is one that has no end of its own. */
  streams(response: ServerResponse): void {
    this.#streams.add(response)
  }

  /** Returns true if a request on the connection can turn it into another protocol: all before it are answered. */
  mayRelease(socket: Socket): boolean {
    const connection = this.#all.get(socket)
    return connection?.open.length === 0 && connection.endingSince === undefined
  }

  /** Stops looking after a connection: it no longer speaks HTTP. */
  release(socket: Socket): void {
    this.#all.delete(socket)
  }

  /** What came is no request, or has not come in time. Requests before it are answered first. */
  refuse(socket: Socket, error: ApiError): void {
    const connection = this.#all.get(socket)
    // Such as one whose TLS handshake has failed: nothing can be said on it.
    if (connection === undefined || !socket.writable) {
      socket.destroy()
      return
    }
    const newest = connection.open.at(-1)
    if (newest === undefined) {
      if (connection.endingSince === undefined) this.#end(connection, error)
    } else if (newest.message.complete || !refuseBody(newest.message, error)) {
      this.#endAfterAnswers(connection)
    }
  }

  /**
   * Takes no new connections: whoever comes knows that nothing of his was done. Every answer from now on says that its
   * connection ends, and those that are idle are closed after a while. Resolves when all are closed.
   */
  drain(): Promise<void> {
    this.#drainedAt = this.#clock.monotonic()
    for (const connection of this.#all.values()) {
      const newest = connection.open.at(-1)
      if (newest !== undefined && !newest.response.headersSent) this.#announceEnd(connection, newest.response)
    }
    // After those that are waiting to be accepted: what they have asked would be lost.
    // The method of HTTP servers would close connections by its own rules.
    setImmediate(() => Server.prototype.close.call(this.#server))
    this.#lookLater()
    return this.#closed
  }

  /** Drops everything that is still there. */
  close(): void {
    this.#cancelLook()
    // Also ends Node's own look at what makes no progress.
    this.#server.close()
    for (const socket of [...this.#all.keys(), ...this.#handshakes.values()]) socket.destroy()
  }

  #opened(socket: Socket): void {
    const at = this.#clock.monotonic()
    const connection: Connection = {
      socket,
      open: [],
      quietLooks: 0,
      heard: { bytes: 0, at },
      taken: { bytes: 0, at },
      latest: undefined,
      answeredBytes: 0,
      last: undefined,
      isSealed: false,
      endingSince: undefined,
    }
    this.#all.set(socket, connection)
    socket.once('close', () => {
      this.#all.delete(socket)
      // Node tells only the answer whose turn it is; a watch that waits behind it would last to the end of its time.
      for (const { response } of [...connection.open]) {
        if (response.socket !== null) continue
        response.destroy()
        response.emit('close')
      }
    })
  }

  #shakesHands(socket: Socket): void {
    const address = addressOf(socket)
    this.#handshakes.set(address, socket)
    socket.once('close', () => {
      if (this.#handshakes.get(address) === socket) this.#handshakes.delete(address)
    })
  }

  #announceEnd(connection: Connection, response: ServerResponse): void {
    connection.last = response
    response.shouldKeepAlive = false
  }

  /** Nothing more is read from it: it ends with the answers that are still to come. */
  #endAfterAnswers(connection: Connection): void {
    const newest = connection.open.at(-1)
    if (newest === undefined || connection.last !== undefined) return
    if (newest.response.headersSent) connection.last = newest.response
    else this.#announceEnd(connection, newest.response)
  }

  /** Closes our half, with an answer where a request had begun that is refused. */
  #end(connection: Connection, error?: ApiError): void {
    const { socket } = connection
    connection.endingSince = this.#clock.monotonic()
    const hasBegun = socket.bytesRead > connection.answeredBytes && connection.latest?.complete !== false
    if (error !== undefined && hasBegun) endWith(socket, errorResponse(error))
    else socket.end()
  }

  #lookLater(): void {
    const { lookMs } = this.#drainedAt === undefined ? connectionDefaults : drainDefaults
    this.#cancelLook()
    this.#cancelLook = this.#clock.setTimeout(() => this.#look(), lookMs, { unref: true })
  }

  #look(): void {
    const now = this.#clock.monotonic()
    for (const connection of this.#all.values()) this.#lookAt(connection, now)
    if (this.#drainedAt !== undefined && now - this.#drainedAt >= drainDefaults.lingerMs)
      for (const socket of this.#handshakes.values()) socket.destroy()
    this.#lookLater()
  }

  #lookAt(connection: Connection, now: number): void {
    const { socket, open, heard, taken, endingSince } = connection
    const drainedAt = this.#drainedAt
    if (endingSince !== undefined) {
      if (now - endingSince >= drainDefaults.lingerMs) socket.destroy()
      return
    }
    const newest = open.at(-1)
    if (newest === undefined) {
      if (drainedAt === undefined) return
      connection.quietLooks++
      if (connection.quietLooks >= drainDefaults.quietLooks)
        this.#end(connection, shuttingDown('it did not arrive in time'))
      return
    }
    const { bodyStallMs, answerStallMs } = drainedAt === undefined ? connectionDefaults : drainDefaults
    note(heard, socket.bytesRead, now)
    note(taken, socket.bytesWritten - socket.writableLength, now)
    if (socket.writableLength === 0) taken.at = now
    const since = (at: number) => now - Math.max(at, drainedAt ?? at)
    if (!newest.message.complete && since(heard.at) >= bodyStallMs) {
      const error =
        drainedAt === undefined
          ? new ApiError('BadRequest', `nothing of the body has come for ${bodyStallMs / 1000} s`)
          : shuttingDown(`nothing of the body has come for ${bodyStallMs / 1000} s`)
      refuseBody(newest.message, error)
    }
    const [current] = open
    // A stream ends with its response, or when the client has closed its half: Node closes ours then.
    const isEndless =
      current !== undefined &&
      this.#streams.has(current.response) &&
      !current.response.writableEnded &&
      socket.writable
    if (since(taken.at) >= answerStallMs && !isEndless) {
      const { url } = current?.message ?? {}
      this.#log.warn({ path: url }, 'a client that did not take its answer was cut off')
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
  return new ApiError(
    'ServiceUnavailable',
    `the server is shutting down, and the request was given up: ${why}`,
    {
      retryAfterSeconds,
    },
  )
}

function addressOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`
}
