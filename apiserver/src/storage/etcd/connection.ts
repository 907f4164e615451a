import { rootCertificates } from 'node:tls'
import type { IWatchCreateRequest } from 'etcd3'
import { CallError, grpcStatus } from './call-error.ts'
import { etcdDefaults } from './defaults.ts'
import {
  type Cancellable,
  EtcdClient,
  type Metadata,
  type Services,
  type UnaryMethods,
  type UnaryService,
  type WatchStream,
} from './rpc.ts'

export interface ConnectionOptions {
  /** PEM. `ca` are the roots to trust (default: Node's), `cert` and `key` what this client shows. */
  readonly tls?: { readonly ca?: Buffer; readonly cert?: Buffer; readonly key?: Buffer }
  readonly auth?: { readonly user: string; readonly password: string }
  /** Of every unary call, in milliseconds. */
  readonly deadlineMs: number
}

/** A call that may be made here; the others belong to the connection itself. */
export type CallableMethod = Exclude<keyof UnaryMethods, 'authenticate'>

let connections = 0

/**
 * One TCP connection (gRPC channel) to one etcd member, which reconnects by itself. Every unary call has a deadline,
 * none is repeated, except when etcd refuses its token: then nothing was applied.
 */
export class Connection {
  readonly endpoint: string
  readonly #client: EtcdClient
  readonly #options: ConnectionOptions
  readonly #calls = new Set<Cancellable>()
  #services: Services | undefined
  #token: Promise<string> | undefined
  #state: 'open' | 'retired' | 'closed' = 'open'

  constructor(endpoint: string, options: ConnectionOptions) {
    this.endpoint = endpoint
    this.#options = options
    const { tls } = options
    this.#client = new EtcdClient({
      hosts: endpoint,
      ...(tls && {
        credentials: {
          rootCertificate: tls.ca ?? Buffer.from(rootCertificates.join('\n')),
          ...(tls.cert && tls.key && { certChain: tls.cert, privateKey: tls.key }),
        },
      }),
      grpcOptions: {
        // gRPC shares TCP connections among channels of equal options. The name keeps this one's to itself, so that a
        // new Connection is a new TCP connection, and a slow watch does not stand in the way of calls.
        'grpc.primary_user_agent': `setpoint-${++connections}`,
        'grpc.max_receive_message_length': -1,
        'grpc.max_send_message_length': -1,
        'grpc.keepalive_time_ms': etcdDefaults.keepaliveMs,
        'grpc.keepalive_timeout_ms': etcdDefaults.keepaliveTimeoutMs,
        'grpc.initial_reconnect_backoff_ms': etcdDefaults.backoffMinMs,
        'grpc.max_reconnect_backoff_ms': etcdDefaults.backoffMaxMs,
        'grpc-node.flow_control_window': etcdDefaults.flowControlBytes,
        'grpc.enable_retries': 0,
        'grpc.service_config_disable_resolution': 1,
        'grpc.enable_http_proxy': 0,
      },
    })
  }

  /**
   * One unary call.
   * @throws CallError; with the status `cancelled` when the signal or `close` ended it.
   */
  async call<M extends CallableMethod>(
    method: M,
    request: UnaryMethods[M]['request'],
    signal?: AbortSignal,
    deadlineMs: number = this.#options.deadlineMs,
  ): Promise<UnaryMethods[M]['response']> {
    const services = this.#services ?? (await this.#open())
    if (!this.#options.auth)
      return this.#send(services.kv, method, request, services.metadata, signal, deadlineMs)
    const metadata = await this.#authorised(services, deadlineMs)
    try {
      return await this.#send(services.kv, method, request, metadata, signal, deadlineMs)
    } catch (error) {
      if (!(error instanceof CallError) || !error.staleToken) throw error
      this.#token = undefined
      const renewed = await this.#authorised(services, deadlineMs)
      return this.#send(services.kv, method, request, renewed, signal, deadlineMs)
    }
  }

  /**
   * A raw watch stream with this watcher created on it. Its failures come out of its iteration.
   * @throws CallError when the token could not be had.
   */
  async watch(request: IWatchCreateRequest): Promise<WatchStream> {
    const services = this.#services ?? (await this.#open())
    const metadata = this.#options.auth ? await this.#authorised(services) : services.metadata
    const stream = services.watch.watch(metadata)
    // A stream that is cancelled after its reader has gone still emits its end as an error.
    stream.on('error', () => {})
    stream.write({ create_request: request })
    return stream
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
    if (this.#calls.size === 0) this.close()
  }

  /** Ends every call under way with `cancelled`. */
  close(): void {
    if (this.#state === 'closed') return
    this.#state = 'closed'
    for (const call of this.#calls) call.cancel()
    this.#client.close()
  }

  async #open(): Promise<Services> {
    if (this.#state === 'closed') throw this.#closedError()
    this.#services = await this.#client.services()
    return this.#services
  }

  async #authorised(services: Services, deadlineMs?: number): Promise<Metadata> {
    const { auth } = this.#options
    const metadata = services.metadata.clone()
    if (!auth) return metadata
    this.#token ??= this.#send(
      services.auth,
      'authenticate',
      { name: auth.user, password: auth.password },
      services.metadata,
      undefined,
      deadlineMs,
    ).then(response => response.token)
    const asked = this.#token
    try {
      metadata.set('token', await asked)
      return metadata
    } catch (error) {
      if (this.#token === asked) this.#token = undefined
      const reason = error instanceof Error ? error.message : String(error)
      // Whatever happened to this call, the one that it was for has not been sent.
      const code = error instanceof CallError ? error.code : grpcStatus.unauthenticated
      throw new CallError(code, `no token: ${reason}`, this.endpoint, { cause: error, unsent: true })
    }
  }

  #send<M extends keyof UnaryMethods>(
    service: Pick<UnaryService, M>,
    method: M,
    request: UnaryMethods[M]['request'],
    metadata: Metadata,
    signal?: AbortSignal,
    deadlineMs: number = this.#options.deadlineMs,
  ): Promise<UnaryMethods[M]['response']> {
    return new Promise((resolve, reject) => {
      if (this.#state === 'closed') {
        reject(this.#closedError())
        return
      }
      const onAbort = () => call.cancel()
      const call = service[method](
        request,
        metadata,
        { deadline: Date.now() + deadlineMs },
        (error, response) => {
          this.#calls.delete(call)
          signal?.removeEventListener('abort', onAbort)
          if (error) reject(new CallError(error.code, error.details, this.endpoint, { cause: error }))
          else resolve(response)
          if (this.#state === 'retired' && this.#calls.size === 0) this.close()
        },
      )
      this.#calls.add(call)
      signal?.addEventListener('abort', onAbort, { once: true })
    })
  }

  #closedError(): CallError {
    return new CallError(grpcStatus.unavailable, 'the connection is closed', this.endpoint, {
      unsent: true,
    })
  }
}
