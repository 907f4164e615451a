import { ApiError } from '@setpoint/controller-runtime'
import { closeCodes, type WatchEnd } from '@setpoint/controller-runtime/internal'
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
})

/** What a client may say. */
type Request =
  | { readonly op: 'subscribe'; readonly id: string; readonly path: unknown }
  | { readonly op: 'unsubscribe'; readonly id: string }

/** Opens the watch that `path` asks for, on a sink. @throws ApiError for every refusal; the signal's reason when aborted. */
export type OpenWatch = (path: string, sink: WatchSink, signal: AbortSignal) => Promise<Watch>

/**
 * Many watches on one WebSocket (contract, section 6). Each has an id that the client chose, and a life of its own:
 *
 *     subscribe ──> opening ──> open ──> END
 *                      └───── refused: ERROR, END
 *
 * Its last message is always `{"id":...,"type":"END","code":...}`, after which the id is free again. What is no request
 * is answered with an ERROR without an id. A client that is too slow for one is too slow for the socket: it is closed.
 */
export class WatchMultiplexer {
  readonly #connection: WatchConnection
  readonly #open: OpenWatch
  readonly #toApiError: (thrown: unknown) => ApiError
  readonly #subscriptions = new Map<string, MultiplexedSink>()

  constructor(connection: WatchConnection, open: OpenWatch, toApiError: (thrown: unknown) => ApiError) {
    this.#connection = connection
    this.#open = open
    this.#toApiError = toApiError
    connection.onMessage(text => this.#receive(text))
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
      const known = this.#subscriptions.get(request.id)
      if (request.op === 'unsubscribe') known?.close()
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
      // A draining server ends one subscription after another, and the socket with the last.
      if (end?.code === closeCodes.goingAway && subscriptions.size === 0) this.#connection.close(end)
    })
    subscriptions.set(id, sink)
    try {
      if (subscriptions.size > subscriptionLimits.subscriptions)
        throw tooMany(`this connection has ${subscriptions.size - 1}`)
      if (typeof path !== 'string' || !path.startsWith('/'))
        throw badRequest(`path ${JSON.stringify(path) ?? 'is missing and'} must begin with /`)
      const watch = await this.#open(path, sink, sink.signal)
      sink.opened(watch)
    } catch (thrown) {
      if (sink.hasEnded) return
      const error = this.#toApiError(thrown)
      this.#refuse(sink.codec, error)
      sink.finish(error.code)
    }
  }

  /** The first one gets the room that there is; the next time another is the first. */
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

  /** Aborted when the client does not want it any more. */
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

  /** The client does not want it any more, or has gone. */
  close(): void {
    this.#closing.abort()
    this.watch?.close()
    // One that was still being opened.
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

/** How a subscription ended, as an HTTP status. */
function statusOf({ code }: WatchEnd): number {
  if (code === closeCodes.normal) return 200
  if (code === closeCodes.expired) return 410
  if (code === closeCodes.policyViolation) return 403
  return 503
}

/** @throws ApiError 400 */
function readRequest(text: string | undefined): Request {
  if (text === undefined) throw badRequest('a request is a text message')
  let fields: unknown
  try {
    fields = JSON.parse(text)
  } catch {
    throw badRequest('the message is not JSON')
  }
  const { op, id, path }: Record<string, unknown> = isRecord(fields) ? fields : {}
  if (op !== 'subscribe' && op !== 'unsubscribe')
    throw badRequest(`op ${JSON.stringify(op) ?? 'is missing and'} must be subscribe or unsubscribe`)
  if (typeof id !== 'string' || id === '' || id.length > multiplexerDefaults.idLength)
    throw badRequest(`id must be a text of 1 to ${multiplexerDefaults.idLength} characters`)
  if (op === 'unsubscribe') return { op, id }
  return { op, id, path }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

function badRequest(why: string): ApiError {
  return new ApiError('BadRequest', why)
}
