import {
  Etcd3,
  type ICallable,
  type ICompactionRequest,
  type ICompactionResponse,
  type IRangeRequest,
  type IRangeResponse,
  type ITxnRequest,
  type ITxnResponse,
  type IWatchRequest,
  type IWatchResponse,
} from 'etcd3'

/**
 * The one place that looks inside the `etcd3` package. It gives us the protocol's messages, channels and TLS. Its
 * call path is passed by, because it retries writes, hides gRPC's status, cannot cancel, cannot send metadata, and
 * closes the channel under other calls after any failure.
 */

/** The unary methods in use, with what etcd takes and answers. Keys and values are Buffers, integers strings. */
export interface UnaryMethods {
  range: { service: 'KV'; request: IRangeRequest; response: IRangeResponse }
  txn: { service: 'KV'; request: ITxnRequest; response: ITxnResponse }
  compact: { service: 'KV'; request: ICompactionRequest; response: ICompactionResponse }
  authenticate: {
    service: 'Auth'
    request: { name: string; password: string }
    response: { token: string }
  }
}

type Grpc = Parameters<Parameters<ICallable<unknown>['withConnection']>[1]>[0]
/** gRPC's metadata: headers of a call. */
export type Metadata = Grpc['metadata']

/** What gRPC calls back with, or emits on a stream. */
export interface GrpcFailure extends Error {
  readonly code: number
  readonly details: string
}

export interface Cancellable {
  cancel(): void
}

/** A gRPC client with the methods that the protocol's definition puts on it, which gRPC's own type does not know. */
export type UnaryService = {
  readonly [M in keyof UnaryMethods]: (
    request: UnaryMethods[M]['request'],
    metadata: Metadata,
    options: { deadline: number },
    callback: (error: GrpcFailure | null, response: UnaryMethods[M]['response']) => void,
  ) => Cancellable
}

/** The raw watch stream: reads with back-pressure, writes requests. */
export interface WatchStream extends AsyncIterable<IWatchResponse>, Cancellable {
  write(request: IWatchRequest): void
  on(event: 'error', listener: (error: GrpcFailure) => void): this
}

interface WatchService {
  watch(metadata: Metadata): WatchStream
}

export interface Services {
  readonly kv: Pick<UnaryService, 'range' | 'txn' | 'compact'>
  readonly auth: Pick<UnaryService, 'authenticate'>
  readonly watch: WatchService
  readonly metadata: Metadata
}

export class EtcdClient extends Etcd3 {
  /** The gRPC clients of this client's only host. They last until `close`. */
  async services(): Promise<Services> {
    const [kv, auth, watch] = await Promise.all([
      this.pool.withConnection('KV', lease => lease),
      this.pool.withConnection('Auth', lease => lease),
      this.pool.withConnection('Watch', lease => lease),
    ])
    const metadata = kv.metadata.clone()
    // A member that has no leader says so at once: it would keep a proposal or a linearizable read for 7 s, and a watch
    // open and silent.
    metadata.set('hasleader', 'true')
    return {
      kv: kv.client as unknown as Services['kv'],
      auth: auth.client as unknown as Services['auth'],
      watch: watch.client as unknown as WatchService,
      metadata,
    }
  }
}
