import type { Logger } from '@setpoint/controller-runtime'
import { CallError, grpcStatus } from './call-error.ts'
import { type CallableMethod, Connection, type ConnectionOptions } from './connection.ts'
import type { UnaryMethods } from './rpc.ts'

/**
 * The members of the cluster. All calls go to one of them until it fails, then to the next: spreading them over all
 * would make every call depend on the slowest, and a linearizable read is as fresh on any.
 */
export class Endpoints {
  readonly #addresses: readonly string[]
  readonly #options: ConnectionOptions
  readonly #log: Logger | undefined
  readonly #connections = new Set<Connection>()
  #index: number
  #current: Connection
  #closed = false

  /** @throws RangeError when there is no address, or one has a path, user or unknown scheme. */
  constructor(addresses: readonly string[], options: ConnectionOptions, log: Logger | undefined) {
    if (addresses.length === 0) throw new RangeError('at least one etcd endpoint is needed')
    this.#addresses = addresses.map(address => parseEndpoint(address, options.tls !== undefined))
    if (new Set(this.#addresses.map(address => address.startsWith('https:'))).size > 1)
      throw new RangeError('etcd endpoints must be all http or all https')
    this.#options = options
    this.#log = log
    // Not always the first, so that several servers do not all lean on one member.
    this.#index = Math.floor(Math.random() * this.#addresses.length)
    this.#current = this.dial()
  }

  /**
   * One unary call. It is repeated, on the other members, only if it was never sent.
   * @throws CallError
   */
  async call<M extends CallableMethod>(
    method: M,
    request: UnaryMethods[M]['request'],
    signal?: AbortSignal,
  ): Promise<UnaryMethods[M]['response']> {
    for (let left = this.#addresses.length; ; ) {
      const connection = this.#current
      try {
        return await connection.call(method, request, signal)
      } catch (error) {
        if (!(error instanceof CallError)) throw error
        if (error.lost && connection === this.#current) this.failed(connection.endpoint, error)
        left -= 1
        if (left === 0 || this.#closed || !error.unsent || error.code !== grpcStatus.unavailable) throw error
      }
    }
  }

  /** A connection of one's own to the member in use. Whoever asks for it closes it with `hangUp`. */
  dial(): Connection {
    const address = this.#addresses[this.#index]
    if (address === undefined || this.#closed)
      throw new CallError(grpcStatus.unavailable, 'the storage is closed', address ?? '', { unsent: true })
    for (const old of this.#connections) if (old.closed) this.#connections.delete(old)
    const connection = new Connection(address, this.#options)
    this.#connections.add(connection)
    return connection
  }

  hangUp(connection: Connection): void {
    connection.close()
    this.#connections.delete(connection)
  }

  /** Takes the next member, if the one that failed is still in use. */
  failed(endpoint: string, error: CallError): void {
    if (this.#closed || this.#current.endpoint !== endpoint) return
    const alone = this.#addresses.length === 1
    // gRPC reconnects by itself. Only a connection that does not answer is given up, as it may be half open.
    if (alone && error.code !== grpcStatus.deadlineExceeded) return
    const old = this.#current
    this.#index = (this.#index + 1) % this.#addresses.length
    this.#current = this.dial()
    old.retire()
    this.#log?.warn(
      { endpoint, next: this.#current.endpoint, reason: error.message },
      alone ? 'etcd does not answer, connecting anew' : 'etcd member fails, using the next',
    )
  }

  close(): void {
    this.#closed = true
    for (const connection of this.#connections) connection.close()
    this.#connections.clear()
  }
}

function parseEndpoint(address: string, tls: boolean): string {
  const scheme = /^(?:(https?):\/\/)?/.exec(address)?.[1] ?? (tls ? 'https' : 'http')
  // Any other scheme: with https the parser would drop an explicit port 443.
  const text = `etcd://${address.replace(/^https?:\/\//, '')}`
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (!url?.hostname || url.username || url.password || url.search || url.hash || url.pathname.length > 1)
    throw new RangeError(
      `not an etcd endpoint (http://host:port or https://host:port): ${JSON.stringify(address)}`,
    )
  if (tls && scheme === 'http')
    throw new RangeError(`TLS is configured, but this etcd endpoint is http: ${JSON.stringify(address)}`)
  return `${scheme}://${url.hostname}:${url.port || '2379'}`
}
