import { type ApiError, isRecord } from '@setpoint/controller-runtime/api'
import { closeCodes, type WatchEnd } from '@setpoint/controller-runtime/internal'
import { quote } from '../model/index.ts'
import { badRequest } from '../registry/index.ts'
import type { Turns } from '../scheduling/index.ts'
import {
  encodeAll,
  errorEvent,
  type FrameCodec,
  subscriptionFrames,
  subscriptionLimits,
  textFrame,
  tooMany,
  tooSlow,
  type Watch,
  type WatchSink,
  webSocketFrames,
} from '../watch/index.ts'
import type { WatchConnection } from './watch-connection.ts'

export const multiplexerDefaults = Object.freeze({
  /** Characters of a subscription's id. */
  idLength: 128,
  /** Characters of a path: room for selectors of 16 KiB with every byte percent-encoded. */
  pathLength: 64 * 1024,
})

/** A request of a client. */
type Request =
  | { readonly op: 'subscribe'; readonly id: string; readonly path: unknown }
  | { readonly op: 'unsubscribe' | 'ping'; readonly id: string }

/** Opens the watch that `path` names. @throws ApiError, or the signal's reason when aborted */
export type OpenWatch = (path: string, sink: WatchSink, signal: AbortSignal) => Promise<Watch>

interface MultiplexerParts {
  readonly connection: WatchConnection
  readonly turns: Turns
  /** Whose messages take turns with those of others. */
  readonly caller: string
  readonly open: OpenWatch
  readonly toApiError: (thrown: unknown) => ApiError
}

/**
 * Many watches on one WebSocket. Each has an id that the client chooses, and its own life cycle:
 *
 *     subscribe ──> opening ──> open ──> END
 *                      └───── error: ERROR, END
 *
 * Its last message is always `{"id":...,"type":"END","code":...}`; then the id is free again. A malformed request gets
 * an ERROR without an id. A ping gets a PONG with its id, because pages see no pings of the WebSocket. A client that is
 * too slow for one watch loses the socket.
 */
export class WatchMultiplexer {
  readonly #connection: WatchConnection
  readonly #open: OpenWatch
  readonly #toApiError: (thrown: unknown) => ApiError
  readonly #subscriptions = new Map<string, MultiplexedSink>()

  constructor({ connection, turns, caller, open, toApiError }: MultiplexerParts) {
    this.#connection = connection
    this.#open = open
    this.#toApiError = toApiError
    connection.onMessage(turns, caller, text => this.#receive(text))
    connection.onClose(() => {
      for (const subscription of this.#subscriptions.values()) subscription.close()
    })
    connection.onDrained(() => {
      for (const subscription of this.#subscriptions.values()) subscription.watch?.drained()
      this.#rotate()
    })
  }

  #receive(text: string | undefined): void {
    try {
      const request = readRequest(text)
      if (request.op === 'ping') {
        this.#connection.write(textFrame(JSON.stringify({ id: request.id, type: 'PONG' })))
        return
      }
      const known = this.#subscriptions.get(request.id)
      if (request.op !== 'subscribe') known?.close()
      else if (known !== undefined) throw badRequest(`the id ${JSON.stringify(request.id)} is in use`)
      else void this.#subscribe(request.id, request.path)
    } catch (thrown) {
      this.#refuse(webSocketFrames, this.#toApiError(thrown))
    }
  }

  /** Never rejects. */
  async #subscribe(id: string, path: unknown): Promise<void> {
    const subscriptions = this.#subscriptions
    const sink = new MultiplexedSink(id, this.#connection, end => {
      subscriptions.delete(id)
      // While the server drains, the last subscription closes the socket.
      if (end?.code === closeCodes.goingAway && subscriptions.size === 0) this.#connection.close(end)
    })
    subscriptions.set(id, sink)
    try {
      if (subscriptions.size > subscriptionLimits.subscriptions)
        throw tooMany(`this connection has ${subscriptions.size - 1}`)
      if (typeof path !== 'string' || !path.startsWith('/'))
        throw badRequest(`path ${quoted(path)} must begin with /`)
      if (path.length > multiplexerDefaults.pathLength)
        throw badRequest(`path is longer than ${multiplexerDefaults.pathLength} characters`)
      const watch = await this.#open(path, sink, sink.signal)
      sink.opened(watch)
    } catch (thrown) {
      if (sink.hasEnded) return
      const error = this.#toApiError(thrown)
      this.#refuse(sink.codec, error)
      sink.finish(error.code)
    }
  }

  /** Moves the first subscription to the end, so that each is first in turn to use free room. */
  #rotate(): void {
    for (const [id, subscription] of this.#subscriptions) {
      this.#subscriptions.delete(id)
      this.#subscriptions.set(id, subscription)
      return
    }
  }

  #refuse(codec: FrameCodec, error: ApiError): void {
    this.#connection.write(encodeAll(codec, [errorEvent(error.toStatus())]))
  }
}

/** One subscription's end of the socket. */
class MultiplexedSink implements WatchSink {
  readonly codec: FrameCodec
  watch: Watch | undefined
  hasEnded = false
  readonly #id: string
  readonly #connection: WatchConnection
  readonly #onEnd: (end: WatchEnd | undefined) => void
  readonly #closing = new AbortController()

  constructor(id: string, connection: WatchConnection, onEnd: (end: WatchEnd | undefined) => void) {
    this.#id = id
    this.codec = subscriptionFrames(id)
    this.#connection = connection
    this.#onEnd = onEnd
  }

  /** Aborts when the client unsubscribes or disconnects. */
  get signal(): AbortSignal {
    return this.#closing.signal
  }

  get backlog(): number {
    return this.#connection.backlog
  }

  write(frames: Buffer): void {
    this.#connection.write(frames)
  }

  opened(watch: Watch): void {
    if (this.hasEnded) watch.close()
    else this.watch = watch
  }

  /** The client has unsubscribed or disconnected. */
  close(): void {
    this.#closing.abort()
    this.watch?.close()
    // For a watch that is still being opened.
    this.finish(200)
  }

  end(end: WatchEnd): void {
    if (end === tooSlow) this.#connection.close(end)
    this.finish(statusOf(end), end)
  }

  finish(code: number, end?: WatchEnd): void {
    if (this.hasEnded) return
    this.hasEnded = true
    this.#connection.write(textFrame(JSON.stringify({ id: this.#id, type: 'END', code })))
    this.#onEnd(end)
  }
}

/** Returns the HTTP status for the end of a subscription. */
function statusOf({ code }: WatchEnd): number {
  if (code === closeCodes.normal) return 200
  if (code === closeCodes.expired) return 410
  if (code === closeCodes.policyViolation) return 403
  if (code === closeCodes.internalError) return 500
  return 503
}

/** @throws ApiError 400 */
function readRequest(text: string | undefined): Request {
  if (text === undefined) throw badRequest('a request must be a text message')
  let fields: unknown
  try {
    fields = JSON.parse(text)
  } catch {
    throw badRequest('the message is not JSON')
  }
  const { op, id, path }: Record<string, unknown> = isRecord(fields) ? fields : {}
  if (op !== 'subscribe' && op !== 'unsubscribe' && op !== 'ping')
    throw badRequest(`op ${quoted(op)} must be subscribe, unsubscribe or ping`)
  if (typeof id !== 'string' || id === '' || id.length > multiplexerDefaults.idLength)
    throw badRequest(`id must be a string of 1 to ${multiplexerDefaults.idLength} characters`)
  return op === 'subscribe' ? { op, id, path } : { op, id }
}

/** Returns the beginning of an invalid value as text. */
function quoted(value: unknown): string {
  return value === undefined ? 'is missing and' : quote(value)
}
