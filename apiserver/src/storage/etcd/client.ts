import { rootCertificates } from 'node:tls'
import type { Client, Metadata } from '@grpc/grpc-js'
import { noop } from 'cockatiel'
import {
  Etcd3,
  type IAuthenticateRequest,
  type IAuthenticateResponse,
  type ICompactionRequest,
  type ICompactionResponse,
  type IRangeRequest,
  type IRangeResponse,
  type ITxnRequest,
  type ITxnResponse,
  type IWatchRequest,
  type IWatchResponse,
} from 'etcd3'
import { etcdDefaults } from './defaults.ts'

/** PEM. `ca` defaults to the roots that Node trusts; `cert` and `key` identify this client. */
export interface TlsOptions {
  readonly ca?: Buffer
  readonly cert?: Buffer
  readonly key?: Buffer
}

/** A method of etcd's API, as etcd3 loads it from the proto files. */
export interface Method<Request, Response> {
  readonly path: string
  readonly requestSerialize: (request: Request) => Buffer
  readonly responseDeserialize: (response: Buffer) => Response
}

/** One gRPC channel to one member, and the methods to call on it. */
export interface EtcdChannel {
  readonly client: Client
  readonly metadata: Metadata
  readonly range: Method<IRangeRequest, IRangeResponse>
  readonly txn: Method<ITxnRequest, ITxnResponse>
  readonly compact: Method<ICompactionRequest, ICompactionResponse>
  readonly authenticate: Method<IAuthenticateRequest, IAuthenticateResponse>
  readonly watch: Method<IWatchRequest, IWatchResponse>
}

/** Picks the method to call. */
export const methods = Object.freeze({
  range: ({ range }: EtcdChannel) => range,
  txn: ({ txn }: EtcdChannel) => txn,
  compact: ({ compact }: EtcdChannel) => compact,
})

/**
 * etcd3's client for one member: connection, TLS, keepalive and messages.
 *
 * Callers take the channel and call its methods themselves. etcd3's own `exec()` resets all calls on the channel after
 * one recoverable error, cannot be aborted, and retries writes. Its `auth` option opens a connection for each login and
 * never closes it, so `Connection` authenticates instead.
 */
export class EtcdClient extends Etcd3 {
  constructor(endpoint: string, tls?: TlsOptions) {
    super({
      hosts: endpoint,
      ...(tls && {
        credentials: {
          rootCertificate: tls.ca ?? Buffer.from(rootCertificates.join('\n')),
          certChain: tls.cert,
          privateKey: tls.key,
        },
      }),
      grpcOptions: {
        // One TCP connection for each client, so that a watch with a full window does not block calls.
        'grpc.use_local_subchannel_pool': 1,
        'grpc.max_receive_message_length': etcdDefaults.receiveBytes,
        'grpc.max_send_message_length': etcdDefaults.sendBytes,
        // grpc-js doubles the interval when etcd closes the connection with too_many_pings.
        'grpc.keepalive_time_ms': etcdDefaults.keepaliveMs,
        'grpc.keepalive_timeout_ms': etcdDefaults.keepaliveTimeoutMs,
        'grpc.initial_reconnect_backoff_ms': etcdDefaults.backoffMinMs,
        'grpc.max_reconnect_backoff_ms': etcdDefaults.backoffMaxMs,
        // A restarted pod has a new address.
        'grpc.dns_min_time_between_resolutions_ms': etcdDefaults.backoffMaxMs,
        'grpc-node.flow_control_window': etcdDefaults.flowControlBytes,
        'grpc.enable_retries': 0,
        'grpc.enable_channelz': 0,
        'grpc.enable_http_proxy': 0,
        'grpc.service_config_disable_resolution': 1,
      },
      faultHandling: { host: () => noop, global: noop },
    })
  }

  async open(): Promise<EtcdChannel> {
    const [kv, auth, watch] = await Promise.all([
      this.pool.withConnection('KV', lease => lease),
      this.pool.withConnection('Auth', ({ client }) => client),
      this.pool.withConnection('Watch', ({ client }) => client),
    ])
    const metadata = kv.metadata.clone()
    // A member without a leader then responds at once. Otherwise it holds proposals and linearizable reads for 7 s.
    metadata.set('hasleader', 'true')
    return {
      client: kv.client,
      metadata,
      range: methodOf(kv.client, 'Range'),
      txn: methodOf(kv.client, 'Txn'),
      compact: methodOf(kv.client, 'Compact'),
      authenticate: methodOf(auth, 'Authenticate'),
      watch: methodOf(watch, 'Watch'),
    }
  }
}

/** @throws Error if etcd3 does not know the method. */
function methodOf<Request, Response>(client: Client, name: string): Method<Request, Response> {
  const service: unknown = Reflect.get(client.constructor, 'service')
  const method: unknown = typeof service === 'object' && service !== null && Reflect.get(service, name)
  if (!isMethod<Request, Response>(method)) throw new Error(`etcd3 has no method ${name}`)
  return method
}

function isMethod<Request, Response>(method: unknown): method is Method<Request, Response> {
  return (
    typeof method === 'object' &&
    method !== null &&
    'path' in method &&
    'requestSerialize' in method &&
    'responseDeserialize' in method
  )
}
