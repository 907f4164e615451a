import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Clock } from '@setpoint/controller-runtime'
import { ApiError } from '@setpoint/controller-runtime/api'
import { retryAfterSeconds } from '@setpoint/controller-runtime/internal'
import type { Logger } from '../log/index.ts'
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
  /**
   * Milliseconds without progress of a response before its client is disconnected. Progress shows in steps of 100 KiB.
   */
  responseStallMs: 60_000,
  /** Requests that may wait behind the one that is being handled. Parsing one takes some 10 µs. */
  pipelined: 32,
  /** Bytes of them that may have been read, with another 64 KiB that Node reads at once. */
  pipelinedBytes: 256 * 1024,
  /** Milliseconds between two checks of all connections. */
  checkMs: 1_000,
  /**
   * Milliseconds for a response to begin after the client has closed its half. Most clients that do so have left, and
   * the work for them ends then.
   */
  leftMs: 1_000,
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
  readonly handle: RequestListener
  /** Characters of the line and headers of a request that has waited. */
  readonly headLength: number
}

/** The bytes transferred in one direction, and the time of the last change. */
interface Progress {
  bytes: number
  at: number
}

/**
 * A connection with HTTP requests:
 *
 *     idle ⇄ busy       `#open` has requests while busy
 *     any  → ending     the server's half is closed; later requests are read but not handled, to avoid a reset
 *     any  → closed
 *
 * Requests are handled one after another, each in a later turn of the event loop than the one before. So pipelined
 * requests cost others no more than the same requests on one connection after another.
 *
 * Disconnects a client that stalls within a request, does not read its response, or pipelines too many requests.
 * Requests behind a response without an end, or behind one that announces the end of the connection, are not handled
 * (RFC 9112, 9.6).
 */
export class Connection {
  readonly #socket: Socket
  readonly #clock: Clock
  readonly #log: Logger
  readonly #isStream: (response: ServerResponse) => boolean
  readonly #onIdle: () => void
  /** Requests without a complete response, oldest first. The others wait for the first. */
  readonly #open: Exchange[] = []
  /** Checks without a request since the server drains. */
  #idleChecks = 0
  readonly #received: Progress
  readonly #sent: Progress
  #latest: IncomingMessage | undefined
  /** Bytes read at the end of the last response: more bytes belong to another request. */
  #respondedBytes = 0
  /** The response that announces the end of the connection. */
  #last: ServerResponse | undefined
  /**
   * Later requests are not handled: Node's parser has dropped bytes of the connection, or an earlier one is dropped.
   */
  #isSealed = false
  #endingSince: number | undefined
  #clientEndedAt: number | undefined

  constructor(
    socket: Socket,
    options: {
      clock: Clock
      log: Logger
      /** Returns true for a response without an end. */
      isStream: (response: ServerResponse) => boolean
      /** Called when all requests have their responses. */
      onIdle: () => void
    },
  ) {
    this.#socket = socket
    this.#clock = options.clock
    this.#log = options.log
    this.#isStream = options.isStream
    this.#onIdle = options.onIdle
    const at = this.#clock.monotonic()
    this.#received = { bytes: 0, at }
    this.#sent = { bytes: 0, at }
    socket.once('end', () => {
      this.#clientEndedAt = this.#clock.monotonic()
      // It gets the responses to its requests, but no stream.
      if (this.#isStreaming) socket.end()
    })
    // Node calls this after a response that ends the connection. Its own method would reset a connection with unread
    // bytes, and the client could lose responses (RFC 9112, 9.6).
    socket.destroySoon = () => this.end()
  }

  get isBusy(): boolean {
    return this.#open.length > 0
  }

  /** True if only the client has something left to do: to read responses that are complete. */
  get isUnread(): boolean {
    return this.#open[0]?.response.writableEnded === true
  }

  get isEnding(): boolean {
    return this.#endingSince !== undefined
  }

  /** Handles a request when those before it have their responses. Returns false if it must not be handled. */
  begin(
    message: IncomingMessage,
    response: ServerResponse,
    handle: RequestListener,
    isDraining: boolean,
  ): boolean {
    if (this.#isStreaming) this.#seal()
    if (this.isEnding || this.#isSealed || this.#last?.headersSent) {
      message.resume()
      return false
    }
    // Another request was sent before the client could read the announcement.
    if (this.#last !== undefined) this.#last.shouldKeepAlive = true
    const exchange = { message, response, handle, headLength: this.isBusy ? headLengthOf(message) : 0 }
    this.#open.push(exchange)
    this.#latest = message
    this.#isSealed = mayEndHttp(message)
    if (isDraining || this.#last !== undefined || this.#isSealed) this.#announceEnd(response)
    if (this.#open.length === 1) this.#handle(exchange)
    else if (this.#isOverfull) {
      this.#log.warn({}, 'disconnected a client that pipelined too many requests')
      this.#socket.destroy()
    }
    return true
  }

  #handle(exchange: Exchange): void {
    const { message, response, handle } = exchange
    const now = this.#clock.monotonic()
    this.#received.at = now
    this.#sent.at = now
    response.once('close', () => this.#responded(exchange))
    handle(message, response)
  }

  /** True if more requests wait than may. */
  get #isOverfull(): boolean {
    const [, ...waiting] = this.#open
    const bytes = waiting.reduce(
      (sum, { headLength, message }) => sum + headLength + message.readableLength,
      0,
    )
    return waiting.length > connectionDefaults.pipelined || bytes > connectionDefaults.pipelinedBytes
  }

  /**
   * Drops the requests behind a response without an end, so that Node reads on and notices when the client leaves. The
   * connection ends after that response.
   */
  dropPipelined(): void {
    if (this.#socket.readableEnded) this.#socket.end()
    const waiting = this.#open.splice(1)
    for (const { message } of waiting) message.resume()
    if (waiting.length > 0) this.#seal()
  }

  /** Handles no later request, and ends the connection after the open ones. */
  #seal(): void {
    const newest = this.#open.at(-1)
    this.#isSealed = true
    if (newest !== undefined) this.#endAfterResponses(newest)
  }

  get #isStreaming(): boolean {
    const [current] = this.#open
    return current !== undefined && this.#isStream(current.response)
  }

  #responded(exchange: Exchange): void {
    const at = this.#open.indexOf(exchange)
    // It was dropped.
    if (at < 0) return
    this.#open.splice(at, 1)
    if (this.isBusy) {
      setImmediate(() => this.#handleNext())
      return
    }
    this.#idleChecks = 0
    this.#respondedBytes = this.#socket.bytesRead
    if (!this.#socket.destroyed) this.#onIdle()
    if (this.#last !== undefined && !this.#socket.destroyed) this.end()
  }

  #handleNext(): void {
    const [next] = this.#open
    // A response can close the connection before its end is announced, for example one to an unread body.
    if (next === undefined || !this.#socket.writable) return
    this.#handle(next)
  }

  /** Rejects malformed or late input. Responses to earlier requests are sent first, but for one without an end. */
  refuse(error: ApiError): void {
    if (this.isEnding) return
    const newest = this.#open.at(-1)
    if (newest === undefined) {
      this.end(error)
    } else if (this.#isStreaming) {
      // Also after a client has left within its next request: Node does not close the socket then.
      this.#socket.destroy()
    } else if (newest.message.complete || !refuseBody(newest.message, error)) {
      this.#endAfterResponses(newest)
    }
  }

  /** Announces the end of the connection with the newest response, if its headers are not sent yet. */
  drain(): void {
    const newest = this.#open.at(-1)
    if (newest !== undefined && !newest.response.headersSent) this.#announceEnd(newest.response)
  }

  /** Closes the server's half, after an error response if a request has begun. */
  end(error?: ApiError): void {
    if (this.isEnding) return
    this.#endingSince = this.#clock.monotonic()
    this.#socket.resume()
    const hasBegun = this.#socket.bytesRead > this.#respondedBytes && this.#latest?.complete !== false
    if (error !== undefined && hasBegun) endWith(this.#socket, errorResponse(error))
    else this.#socket.end()
  }

  /** Forgets all requests. To be called when the socket has closed. */
  abandon(): void {
    this.#open.length = 0
  }

  /**
   * Disconnects a client that stalls. While the server drains, also ends an idle connection.
   * @param drainedAt the start of the drain
   */
  check(now: number, drainedAt: number | undefined): void {
    if (this.#endingSince !== undefined) {
      if (now - this.#endingSince >= drainDefaults.lingerMs) this.#socket.destroy()
      return
    }
    const newest = this.#open.at(-1)
    if (this.#hasLeft(now)) this.#socket.destroy()
    else if (newest !== undefined) this.#checkProgress(newest, now, drainedAt)
    else if (drainedAt !== undefined) {
      this.#idleChecks++
      if (this.#idleChecks >= drainDefaults.idleChecks) this.end(shuttingDown('it did not arrive in time'))
    }
  }

  /** True if the client has closed its half, and gets no response. */
  #hasLeft(now: number): boolean {
    const isLate = this.#clientEndedAt !== undefined && now - this.#clientEndedAt >= connectionDefaults.leftMs
    return isLate && this.#open[0]?.response.headersSent === false
  }

  #checkProgress(newest: Exchange, now: number, drainedAt: number | undefined): void {
    const socket = this.#socket
    const { bodyStallMs, responseStallMs } = drainedAt === undefined ? connectionDefaults : drainDefaults
    note(this.#received, socket.bytesRead, now)
    note(this.#sent, socket.bytesWritten - socket.writableLength, now)
    if (socket.writableLength === 0) this.#sent.at = now
    const since = (at: number) => now - Math.max(at, drainedAt ?? at)
    // A body that waits is not read yet.
    const isReceiving = this.#open.length === 1 && !newest.message.complete
    if (isReceiving && since(this.#received.at) >= bodyStallMs) {
      const why = `no data of the body arrived for ${bodyStallMs / 1000} s`
      refuseBody(
        newest.message,
        drainedAt === undefined ? new ApiError('BadRequest', why) : shuttingDown(why),
      )
    }
    const [current] = this.#open
    // A stream ends with its response, or when the client closes its half.
    const isEndless = this.#isStreaming && current?.response.writableEnded === false && socket.writable
    if (since(this.#sent.at) >= responseStallMs && !isEndless) {
      const { url } = current?.message ?? {}
      this.#log.warn({ path: url }, 'disconnected a client that did not read its response')
      socket.destroy()
    }
  }

  #announceEnd(response: ServerResponse): void {
    this.#last = response
    response.shouldKeepAlive = false
  }

  /** Ends the connection after the responses to all open requests. */
  #endAfterResponses({ response }: Exchange): void {
    if (this.#last !== undefined) return
    if (response.headersSent) this.#last = response
    else this.#announceEnd(response)
  }
}

function headLengthOf({ url = '', rawHeaders }: IncomingMessage): number {
  return rawHeaders.reduce((sum, { length }) => sum + length, url.length)
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
