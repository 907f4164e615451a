import { type ClientHttp2Session, type ClientHttp2Stream, connect, constants } from 'node:http2'
import { backoffMs } from './backoff.ts'
import { CallError, grpcStatus } from './call-error.ts'
import { etcdDefaults } from './defaults.ts'
import { MessageCutter } from './message-cutter.ts'

/**
 * PEM. `ca` are the roots to trust (default: Node's), `cert` and `key` what this client shows. Looked at for each
 * connection: what their owner has renewed counts from the next one on.
 */
export interface TlsOptions {
  readonly ca?: Buffer
  readonly cert?: Buffer
  readonly key?: Buffer
}

/** Lower-case names. */
export type Metadata = Readonly<Record<string, string>>

/** One call of a method: what gRPC needs to know of it, and nothing of its messages. */
export interface ChannelCall {
  /** `/<package>.<service>/<method>` */
  readonly path: string
  readonly metadata: Metadata
  /** The request with gRPC's prefix. */
  readonly message: Buffer
}

/** The messages of an answer that has no end of its own; its failure is thrown from the iteration, as CallError. */
export interface MessageStream extends AsyncIterable<Buffer> {
  /** Ends it at once, whether or not the other side still takes anything. */
  cancel(): void
}

/**
 * gRPC over one HTTP/2 connection to one address.
 *
 *     idle ──call──▶ connecting ──settings received──▶ connected ──lost, GOAWAY──▶ idle
 *       ▲                │
 *       └──next call─ pausing ◀──refused, too late
 *
 * A call waits for the connection, and is sent on no other. While the channel pauses after a failed attempt, calls fail
 * at once. Of every call that fails it is known whether it has been sent. None is repeated.
 */
export class Channel {
  readonly #endpoint: string
  readonly #tls: TlsOptions | undefined
  #session: ClientHttp2Session | undefined
  #connecting: Promise<ClientHttp2Session> | undefined
  #failures = 0
  #pausedUntil = 0
  #whyPaused = ''
  readonly #calls = new Set<UnaryCall>()
  readonly #streams = new Set<MessageStream>()
  #closed = false

  /** @param endpoint `http://host:port` or `https://host:port` */
  constructor(endpoint: string, tls?: TlsOptions) {
    this.#endpoint = endpoint
    this.#tls = tls
  }

  /**
   * A call with one answer.
   * @throws CallError; with the status `cancelled` when the signal or `close` ended it.
   */
  call(call: ChannelCall, deadlineMs: number, signal?: AbortSignal): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      const over = () => this.#calls.delete(unary)
      const unary = new UnaryCall(call, this.#endpoint, deadlineMs, signal, { resolve, reject, over })
      this.#calls.add(unary)
      const session = this.#usable()
      if (session !== undefined) unary.send(session)
      else
        this.#connected().then(
          ready => unary.send(ready),
          (error: unknown) => unary.fail(error),
        )
    })
  }

  /** A call whose answers come for as long as both sides want. @throws CallError when there is no connection. */
  async stream({ path, metadata, message }: ChannelCall): Promise<MessageStream> {
    const session = this.#usable() ?? (await this.#connected())
    const request = requestOn(session, { ...metadata, ...fixedHeaders, ':path': path }, this.#endpoint)
    request.write(message)
    const stream = new StreamedMessages(request, this.#endpoint)
    this.#streams.add(stream)
    request.once('close', () => this.#streams.delete(stream))
    return stream
  }

  /** Ends every call with `cancelled`, and the connection. Idempotent. */
  close(): void {
    this.#closed = true
    for (const call of this.#calls) call.cancel('the connection is closed')
    for (const stream of this.#streams) stream.cancel()
    this.#session?.destroy()
  }

  #usable(): ClientHttp2Session | undefined {
    const session = this.#session
    // One that is closing takes no more calls, and answers those that it has.
    if (session === undefined || session.closed || session.destroyed) return undefined
    return this.#connecting === undefined ? session : undefined
  }

  #connected(): Promise<ClientHttp2Session> {
    if (this.#closed) return Promise.reject(this.#unsent('the connection is closed'))
    if (performance.now() < this.#pausedUntil) return Promise.reject(this.#unsent(this.#whyPaused))
    this.#connecting ??= this.#connect().finally(() => {
      this.#connecting = undefined
    })
    return this.#connecting
  }

  async #connect(): Promise<ClientHttp2Session> {
    const session = openSession(this.#endpoint, this.#tls)
    this.#session = session
    try {
      await established(session)
      this.#failures = 0
      keepAlive(session, () => this.#calls.size + this.#streams.size > 0)
      return session
    } catch (error) {
      this.#pausedUntil = performance.now() + backoffMs(this.#failures++)
      this.#whyPaused = `no connection: ${error instanceof Error ? error.message : error}`
      throw this.#unsent(this.#whyPaused, error)
    }
  }

  #unsent(why: string, cause?: unknown): CallError {
    return new CallError(grpcStatus.unavailable, why, this.#endpoint, { cause, unsent: true })
  }
}

function openSession(endpoint: string, tls: TlsOptions | undefined): ClientHttp2Session {
  const session = connect(endpoint, {
    ...tls,
    settings: { enablePush: false, initialWindowSize: etcdDefaults.flowControlBytes },
    // What bounds the memory is how much is asked for; Node would refuse calls while a large page comes in.
    maxSessionMemory: Number.MAX_SAFE_INTEGER,
  })
  session.once('connect', () => {
    // It may have been given up while it was on its way.
    if (!session.destroyed) session.setLocalWindowSize(etcdDefaults.flowControlBytes)
  })
  return session
}

/** Resolves once the other side has shown that it speaks HTTP/2 and takes us. */
function established(session: ClientHttp2Session): Promise<void> {
  return new Promise((resolve, reject) => {
    const tooLate = setTimeout(
      () => session.destroy(new Error(`not there within ${etcdDefaults.connectMs} ms`)),
      etcdDefaults.connectMs,
    )
    // For as long as it lives: its calls hear of errors by themselves.
    session.on('error', reject)
    session.once('remoteSettings', () => {
      clearTimeout(tooLate)
      resolve()
    })
    session.once('close', () => {
      clearTimeout(tooLate)
      reject(new Error('closed before it was open'))
    })
  })
}

/** Ends a connection whose other end is gone without a word, while somebody waits for an answer on it. */
function keepAlive(session: ClientHttp2Session, isWaitedFor: () => boolean): void {
  let silence: NodeJS.Timeout | undefined
  const timer = setInterval(() => {
    if (session.destroyed || !isWaitedFor() || silence !== undefined) return
    silence = setTimeout(
      () => session.destroy(new Error('the other end does not answer')),
      etcdDefaults.keepaliveTimeoutMs,
    )
    session.ping(() => {
      clearTimeout(silence)
      silence = undefined
    })
  }, etcdDefaults.keepaliveMs)
  timer.unref()
  session.once('close', () => {
    clearInterval(timer)
    clearTimeout(silence)
  })
}

const fixedHeaders = Object.freeze({
  ':method': 'POST',
  'content-type': 'application/grpc',
  te: 'trailers',
})

/** @throws CallError */
function requestOn(
  session: ClientHttp2Session,
  headers: Record<string, string>,
  endpoint: string,
): ClientHttp2Stream {
  try {
    return session.request(headers)
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw new CallError(grpcStatus.unavailable, reason, endpoint, { cause: error, unsent: true })
  }
}

/** Who waits for a call. */
interface Caller {
  resolve(message: Buffer): void
  reject(error: CallError): void
  /** Before either, once. */
  over(): void
}

/** One call with one answer: waits for the connection, then for the answer. */
class UnaryCall {
  readonly #call: ChannelCall
  readonly #endpoint: string
  readonly #deadlineMs: number
  readonly #begun = performance.now()
  readonly #timer: NodeJS.Timeout
  readonly #signal: AbortSignal | undefined
  readonly #onAbort = () => this.cancel('no longer wanted')
  readonly #caller: Caller
  #request: ClientHttp2Stream | undefined
  #isOver = false

  constructor(
    call: ChannelCall,
    endpoint: string,
    deadlineMs: number,
    signal: AbortSignal | undefined,
    caller: Caller,
  ) {
    this.#call = call
    this.#endpoint = endpoint
    this.#deadlineMs = deadlineMs
    this.#caller = caller
    // After what has arrived is read: an answer is not late because this process was busy, or was not let run.
    this.#timer = setTimeout(() => setImmediate(() => this.#expire()), deadlineMs)
    this.#signal = signal
    if (signal?.aborted) queueMicrotask(this.#onAbort)
    else signal?.addEventListener('abort', this.#onAbort, { once: true })
  }

  send(session: ClientHttp2Session): void {
    if (this.#isOver) return
    const { path, metadata, message } = this.#call
    const timeLeft = Math.max(1, Math.ceil(this.#begun + this.#deadlineMs - performance.now()))
    const headers = { ...metadata, ...fixedHeaders, ':path': path, 'grpc-timeout': `${timeLeft}m` }
    let request: ClientHttp2Stream
    try {
      request = requestOn(session, headers, this.#endpoint)
    } catch (error) {
      this.fail(error)
      return
    }
    this.#request = request
    const cutter = new MessageCutter()
    let answer: Buffer | undefined
    let failure: Error | undefined
    const status = (headers: IncomingMetadata) => {
      const { code, details } = statusOf(headers)
      if (code !== grpcStatus.ok) this.#end(code, details)
      else if (answer === undefined) this.#end(grpcStatus.internal, 'no message in the answer')
      else this.#succeed(answer)
    }
    request.on('response', headers => {
      if (headers['grpc-status'] !== undefined) status(headers)
      else if (headers[':status'] !== 200)
        this.#end(grpcStatus.unavailable, `not gRPC: HTTP status ${headers[':status']}`)
    })
    request.on('data', (chunk: Buffer) => {
      try {
        answer = cutter.take(chunk)[0] ?? answer
      } catch (error) {
        this.#end(grpcStatus.internal, String(error))
      }
    })
    request.on('trailers', status)
    request.on('error', (error: Error) => {
      failure = error
    })
    request.on('close', () => {
      const unsent = request.rstCode === constants.NGHTTP2_REFUSED_STREAM
      this.#end(grpcStatus.unavailable, whyClosed(request, failure), unsent)
    })
    request.end(message)
  }

  fail(error: unknown): void {
    if (error instanceof CallError) this.#end(error.code, error.message, error.unsent)
    else this.#end(grpcStatus.internal, String(error))
  }

  cancel(why: string): void {
    this.#end(grpcStatus.cancelled, why)
  }

  #expire(): void {
    const what = this.#request === undefined ? 'no connection' : 'no answer'
    this.#end(grpcStatus.deadlineExceeded, `${what} within ${Math.round(this.#deadlineMs)} ms`)
  }

  #succeed(answer: Buffer): void {
    if (!this.#finish()) return
    this.#caller.resolve(answer)
  }

  #end(code: number, details: string, unsent = this.#request === undefined): void {
    if (!this.#finish()) return
    const request = this.#request
    if (request !== undefined && !request.closed) request.close(constants.NGHTTP2_CANCEL)
    this.#caller.reject(new CallError(code, details, this.#endpoint, { unsent }))
  }

  /** @returns whether it was not over yet. */
  #finish(): boolean {
    if (this.#isOver) return false
    this.#isOver = true
    clearTimeout(this.#timer)
    this.#signal?.removeEventListener('abort', this.#onAbort)
    this.#caller.over()
    return true
  }
}

class StreamedMessages implements MessageStream {
  readonly #request: ClientHttp2Stream
  readonly #endpoint: string
  #status: { readonly code: number; readonly details: string } | undefined
  #failure: Error | undefined

  constructor(request: ClientHttp2Stream, endpoint: string) {
    this.#request = request
    this.#endpoint = endpoint
    const take = (headers: IncomingMetadata) => {
      if (headers['grpc-status'] !== undefined) this.#status = statusOf(headers)
    }
    request.once('response', headers => {
      take(headers)
      if (headers[':status'] !== 200)
        this.#status = {
          code: grpcStatus.unavailable,
          details: `not gRPC: HTTP status ${headers[':status']}`,
        }
    })
    request.once('trailers', take)
    // Also after its reader has gone.
    request.on('error', (error: Error) => {
      this.#failure = error
    })
  }

  cancel(): void {
    if (!this.#request.closed) this.#request.close(constants.NGHTTP2_CANCEL)
    // A connection that takes nothing does not take the word of the end either.
    this.#request.destroy()
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer, void, undefined> {
    const cutter = new MessageCutter()
    try {
      for await (const chunk of this.#request) yield* cutter.take(chunk)
    } catch (error) {
      if (this.#status === undefined)
        this.#failure ??= error instanceof Error ? error : new Error(String(error))
    }
    const { code, details } = this.#status ?? {
      code: grpcStatus.unavailable,
      details: whyClosed(this.#request, this.#failure),
    }
    if (code !== grpcStatus.ok) throw new CallError(code, details, this.#endpoint, { cause: this.#failure })
  }
}

type IncomingMetadata = Readonly<Record<string, string | string[] | number | undefined>>

/** Anything but a known status counts as an outcome that is not known. */
function statusOf(headers: IncomingMetadata): { code: number; details: string } {
  const code = Number(headers['grpc-status'] ?? Number.NaN)
  const message = String(headers['grpc-message'] ?? '')
  if (!Number.isInteger(code)) return { code: grpcStatus.unavailable, details: 'an answer without a status' }
  return { code, details: decodeMessage(message) }
}

/** gRPC writes bytes that are not printable ASCII as %XX. */
function decodeMessage(message: string): string {
  try {
    return decodeURIComponent(message)
  } catch {
    return message
  }
}

function whyClosed(request: ClientHttp2Stream, failure: Error | undefined): string {
  return failure?.message ?? `the stream was closed with code ${request.rstCode ?? 'none'}`
}
