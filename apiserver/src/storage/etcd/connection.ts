import { CallError, grpcStatus } from './call-error.ts'
import { Channel, type Metadata, type TlsOptions } from './channel.ts'
import { decodeWatch, encodeWatchCreate, type WatchCreateRequest, type WatchResponse } from './messages.ts'
import { rpc, type UnaryMethod, watchPath } from './rpc.ts'

export interface ConnectionOptions {
  readonly tls?: TlsOptions
  readonly auth?: { readonly user: string; readonly password: string }
  /** Of every unary call, in milliseconds. */
  readonly deadlineMs: number
}

/** The responses of a watch, as they come. */
export interface WatchStream extends AsyncIterable<WatchResponse> {
  cancel(): void
}

/**
 * A member that has no leader says so at once: it would keep a proposal or a linearizable read for 7 s, and a watch
 * open and silent.
 */
const ownMetadata: Metadata = Object.freeze({ hasleader: 'true' })

/**
 * One TCP connection to one etcd member, made anew when it is lost and needed. Every unary call has a deadline, none is
 * repeated, except when etcd refuses its token: then nothing was applied.
 */
export class Connection {
  readonly endpoint: string
  readonly #channel: Channel
  readonly #options: ConnectionOptions
  #calls = 0
  #token: Promise<string> | undefined
  #state: 'open' | 'retired' | 'closed' = 'open'

  constructor(endpoint: string, options: ConnectionOptions) {
    this.endpoint = endpoint
    this.#options = options
    this.#channel = new Channel(endpoint, options.tls)
  }

  /**
   * One unary call.
   * @throws CallError; with the status `cancelled` when the signal or `close` ended it.
   */
  async call<Request, Response>(
    method: UnaryMethod<Request, Response>,
    request: Request,
    signal?: AbortSignal,
    deadlineMs: number = this.#options.deadlineMs,
  ): Promise<Response> {
    this.#calls += 1
    try {
      if (!this.#options.auth) return await this.#send(method, request, ownMetadata, deadlineMs, signal)
      const metadata = await this.#authorised(deadlineMs)
      try {
        return await this.#send(method, request, metadata, deadlineMs, signal)
      } catch (error) {
        if (!(error instanceof CallError) || !error.staleToken) throw error
        this.#token = undefined
        const renewed = await this.#authorised(deadlineMs)
        return await this.#send(method, request, renewed, deadlineMs, signal)
      }
    } finally {
      this.#calls -= 1
      if (this.#state === 'retired' && this.#calls === 0) this.close()
    }
  }

  /**
   * A raw watch stream with this watcher created on it. Its failures come out of its iteration.
   * @throws CallError when there is no connection, or the token could not be had.
   */
  async watch(request: WatchCreateRequest): Promise<WatchStream> {
    const metadata = this.#options.auth ? await this.#authorised() : ownMetadata
    const message = encodeWatchCreate(request)
    const stream = await this.#channel.stream({ path: watchPath, metadata, message })
    return {
      cancel: () => stream.cancel(),
      async *[Symbol.asyncIterator]() {
        for await (const response of stream) yield decodeWatch(response)
      },
    }
  }

  /** Forgets the token, so that the next call or watch asks for a new one. */
  renewToken(): void {
    this.#token = undefined
  }

  get closed(): boolean {
    return this.#state === 'closed'
  }

  /** Closes once the calls under way have ended. */
  retire(): void {
    if (this.#state !== 'open') return
    this.#state = 'retired'
    if (this.#calls === 0) this.close()
  }

  /** Ends every call under way with `cancelled`. */
  close(): void {
    if (this.#state === 'closed') return
    this.#state = 'closed'
    this.#channel.close()
  }

  async #authorised(deadlineMs: number = this.#options.deadlineMs): Promise<Metadata> {
    const { auth } = this.#options
    if (!auth) return ownMetadata
    const login = { name: auth.user, password: auth.password }
    this.#token ??= this.#send(rpc.authenticate, login, ownMetadata, deadlineMs)
    const asked = this.#token
    try {
      return { ...ownMetadata, token: await asked }
    } catch (error) {
      if (this.#token === asked) this.#token = undefined
      const reason = error instanceof Error ? error.message : String(error)
      // Whatever happened to this call, the one that it was for has not been sent.
      const code = error instanceof CallError ? error.code : grpcStatus.unauthenticated
      throw new CallError(code, `no token: ${reason}`, this.endpoint, { cause: error, unsent: true })
    }
  }

  async #send<Request, Response>(
    { path, encode, decode }: UnaryMethod<Request, Response>,
    request: Request,
    metadata: Metadata,
    deadlineMs: number,
    signal?: AbortSignal,
  ): Promise<Response> {
    const message = encode(request)
    return decode(await this.#channel.call({ path, metadata, message }, deadlineMs, signal))
  }
}
