import { connectivityState, type Metadata, status } from '@grpc/grpc-js'
import { errorMessage } from '@setpoint/controller-runtime/api'
import type { IWatchCreateRequest, IWatchResponse } from 'etcd3'
import { CallError } from './call-error.ts'
import { type EtcdChannel, EtcdClient, type Method, type TlsOptions } from './client.ts'
import type { ClusterMember } from './cluster.ts'
import type { Login } from './login.ts'
import { checkedHeader } from './messages.ts'
import { type CallLimits, UnaryCall } from './unary-call.ts'

export interface ConnectionOptions {
  /** Read for each new connection, so renewed certificates apply from then on. */
  readonly tls?: TlsOptions
  /** Gives the token that calls carry. */
  readonly login?: Pick<Login, 'token'>
  /** Asked before the first call over each TCP connection. */
  readonly membership?: Membership
}

/** Decides whether a member is one of the cluster in use. */
export interface Membership {
  /** A key that the user may read. */
  readonly probe: Buffer
  /** @throws CallError if the member must not be used */
  admit(member: ClusterMember): Promise<void>
}

export interface WatchStream extends AsyncIterable<IWatchResponse> {
  cancel(): void
}

/**
 * One TCP connection to one etcd member; gRPC reconnects it when a call needs it. A call is sent once. The exception is
 * a call that etcd rejects for its token, which changes nothing: it is sent again with a new token.
 */
export class Connection {
  readonly endpoint: string
  readonly #options: ConnectionOptions
  readonly #tls: TlsOptions | undefined
  readonly #client: EtcdClient
  readonly #calls = new Set<{ cancel(): void }>()
  /** Unary calls under way. */
  #users = 0
  #opening: Promise<EtcdChannel> | undefined
  #channel: EtcdChannel | undefined
  /** The metadata with the latest token. */
  #signed: { readonly token: string; readonly metadata: Metadata } | undefined
  /** True while calls need not ask whether the member belongs to the cluster. */
  #isAdmitted: boolean
  #state: 'open' | 'retired' | 'closed' = 'open'

  /** @throws CallError if the certificates are invalid. */
  constructor(endpoint: string, options: ConnectionOptions) {
    this.endpoint = endpoint
    this.#options = options
    this.#isAdmitted = options.membership === undefined
    this.#tls = options.tls && { ...options.tls }
    try {
      this.#client = new EtcdClient(endpoint, this.#tls)
    } catch (error) {
      throw this.#unsent(status.UNAVAILABLE, error)
    }
  }

  /**
   * Makes one unary call.
   * @throws CallError; with the status `cancelled` if the signal or `close` ended the call.
   */
  async call<Request, Response>(
    method: (channel: EtcdChannel) => Method<Request, Response>,
    request: Request,
    limits: CallLimits,
  ): Promise<Response> {
    this.#users += 1
    try {
      const channel = this.#channel ?? (await this.#open())
      if (!this.#isAdmitted) await this.#admit(channel, limits)
      return await this.#sendSigned(channel, method(channel), request, limits)
    } finally {
      this.#users -= 1
      if (this.#state === 'retired' && this.#users === 0) this.close()
    }
  }

  async #sendSigned<Request, Response>(
    channel: EtcdChannel,
    method: Method<Request, Response>,
    request: Request,
    limits: CallLimits,
  ): Promise<Response> {
    const { login } = this.#options
    if (login === undefined) return this.#send(channel, method, request, channel.metadata, limits)
    const token = await this.#token(login, limits)
    try {
      return await this.#send(channel, method, request, this.#sign(channel, token), limits)
    } catch (error) {
      if (!(error instanceof CallError) || !error.staleToken) throw error
      const renewed = await this.#token(login, limits, token)
      return this.#send(channel, method, request, this.#sign(channel, renewed), limits)
    }
  }

  /** Lets calls pass until the TCP connection ends: the next one may lead to another cluster. */
  async #admit(channel: EtcdChannel, limits: CallLimits): Promise<void> {
    const { membership } = this.#options
    if (membership === undefined) return
    try {
      await membership.admit(await this.#identify(channel, membership.probe, limits))
    } catch (error) {
      const { code, wrongStore } = CallError.from(error, this.endpoint)
      throw this.#unsent(code, error, wrongStore)
    }
    const grpc = channel.client.getChannel()
    if (grpc.getConnectivityState(false) !== connectivityState.READY) return
    this.#isAdmitted = true
    grpc.watchConnectivityState(connectivityState.READY, Number.POSITIVE_INFINITY, () => {
      this.#isAdmitted = false
    })
  }

  /** Makes a read that the member responds to by itself. */
  async #identify(channel: EtcdChannel, key: Buffer, limits: CallLimits): Promise<ClusterMember> {
    const { header } = await this.#sendSigned(channel, channel.range, { key, serializable: true }, limits)
    return { endpoint: this.endpoint, cluster: checkedHeader(header).cluster_id }
  }

  /** Returns the member that this connection leads to. @throws CallError */
  async member(key: Buffer, limits: CallLimits): Promise<ClusterMember> {
    return this.#identify(this.#channel ?? (await this.#open()), key, limits)
  }

  /** Logs in over this connection. @throws CallError */
  async authenticate(
    request: { readonly name: string; readonly password: string },
    limits: CallLimits,
  ): Promise<{ readonly token: string; readonly member: ClusterMember }> {
    const channel = this.#channel ?? (await this.#open())
    const { authenticate, metadata } = channel
    const { token, header } = await this.#send(channel, authenticate, request, metadata, limits)
    return { token, member: { endpoint: this.endpoint, cluster: checkedHeader(header).cluster_id } }
  }

  /**
   * Opens a watch stream with one watcher. Failures of the stream are thrown from its iteration, as CallError.
   * @throws CallError if the login fails.
   */
  async watch(request: IWatchCreateRequest, limits: CallLimits): Promise<WatchStream> {
    const channel = this.#channel ?? (await this.#open())
    const { client, watch } = channel
    if (!this.#isAdmitted) await this.#admit(channel, limits)
    const { login } = this.#options
    const metadata = login ? this.#sign(channel, await this.#token(login, limits)) : channel.metadata
    if (this.closed) throw this.#unsent(status.UNAVAILABLE, 'the connection is closed')
    const { path, requestSerialize, responseDeserialize } = watch
    const stream = client.makeBidiStreamRequest(path, requestSerialize, responseDeserialize, metadata)
    this.#calls.add(stream)
    // gRPC also emits the end of a cancelled stream, when the reader has gone.
    stream.on('error', () => {})
    stream.once('close', () => this.#calls.delete(stream))
    stream.write({ create_request: request })
    const { endpoint } = this
    return {
      cancel: () => stream.cancel(),
      async *[Symbol.asyncIterator]() {
        try {
          yield* stream
        } catch (error) {
          throw CallError.from(error, endpoint)
        }
      },
    }
  }

  get closed(): boolean {
    return this.#state === 'closed'
  }

  /** Returns true if the certificates have been renewed since the connection was made. */
  get outdated(): boolean {
    const { tls } = this.#options
    return tls?.ca !== this.#tls?.ca || tls?.cert !== this.#tls?.cert || tls?.key !== this.#tls?.key
  }

  /** Closes the connection once its calls have ended. */
  retire(): void {
    if (this.#state !== 'open') return
    this.#state = 'retired'
    if (this.#users === 0) this.close()
  }

  /** Cancels all calls and closes the connection. Idempotent. */
  close(): void {
    if (this.closed) return
    this.#state = 'closed'
    for (const call of this.#calls) call.cancel()
    this.#client.close()
  }

  async #open(): Promise<EtcdChannel> {
    if (this.closed) throw this.#unsent(status.UNAVAILABLE, 'the connection is closed')
    this.#opening ??= this.#client.open()
    this.#channel = await this.#opening
    return this.#channel
  }

  /** @param stale see `Login.token` */
  async #token(login: Pick<Login, 'token'>, limits: CallLimits, stale?: string): Promise<string> {
    const token = login.token(stale)
    if (typeof token === 'string') return token
    try {
      return await withinLimits(token, limits, this.endpoint)
    } catch (error) {
      // The calls that wait for the token have not been sent.
      throw this.#unsent(error instanceof CallError ? error.code : status.UNAUTHENTICATED, error)
    }
  }

  #sign(channel: EtcdChannel, token: string): Metadata {
    if (this.#signed?.token !== token) {
      const metadata = channel.metadata.clone()
      metadata.set('token', token)
      this.#signed = { token, metadata }
    }
    return this.#signed.metadata
  }

  #send<Request, Response>(
    channel: EtcdChannel,
    method: Method<Request, Response>,
    request: Request,
    metadata: Metadata,
    limits: CallLimits,
  ): Promise<Response> {
    if (this.closed) return Promise.reject(this.#unsent(status.UNAVAILABLE, 'the connection is closed'))
    const { until, patienceMs = Number.POSITIVE_INFINITY, signal } = limits
    const soonest = Math.min(until, performance.now() + patienceMs)
    const call = new UnaryCall(channel.client, this.endpoint, { until: soonest, signal })
    this.#calls.add(call)
    return call.send(method, request, metadata).finally(() => this.#calls.delete(call))
  }

  #unsent(code: number, reason: unknown, wrongStore = false): CallError {
    const options = { cause: reason, unsent: true, wrongStore }
    return new CallError(code, errorMessage(reason), this.endpoint, options)
  }
}

/** Waits for a login that other callers share. Reaching the limits ends the wait, and does not blame the member. */
function withinLimits<T>(shared: Promise<T>, { until, signal }: CallLimits, endpoint: string): Promise<T> {
  return new Promise((resolve, reject) => {
    const give = (code: number, details: string) =>
      reject(new CallError(code, details, endpoint, { unsent: true }))
    const onAbort = () => give(status.CANCELLED, 'the call was aborted')
    const timer = setTimeout(
      () => setImmediate(() => give(status.UNAUTHENTICATED, 'the login has not finished')),
      Math.max(0, until - performance.now()),
    )
    if (signal?.aborted) onAbort()
    signal?.addEventListener('abort', onAbort, { once: true })
    shared.then(resolve, reject).finally(() => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', onAbort)
    })
  })
}
