import type { Logger } from '@setpoint/controller-runtime'
import { CallError, grpcStatus } from './call-error.ts'
import { Connection, type ConnectionOptions } from './connection.ts'
import { etcdDefaults } from './defaults.ts'
import type { UnaryMethod } from './rpc.ts'

/**
 * The members of the cluster. All calls go to one of them until it fails, then to the next: spreading them over all
 * would make every call depend on the slowest, and a linearizable read is as fresh on any.
 */
export class Endpoints {
  readonly #addresses: readonly string[]
  readonly #options: ConnectionOptions
  readonly #log: Logger | undefined
  readonly #connections = new Set<Connection>()
  /** For calls, by the index of their member: dialled when first needed, and anew once they have failed. */
  readonly #shared: (Connection | undefined)[] = []
  #index: number
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
  }

  /**
   * One unary call. It is repeated, on the other members, only if it was never sent.
   * @throws CallError
   */
  async send<Request, Response>(
    method: UnaryMethod<Request, Response>,
    request: Request,
    signal?: AbortSignal,
    deadlineMs?: number,
  ): Promise<Response> {
    for (let left = this.#addresses.length; ; ) {
      const connection = this.#connectionTo(this.#index)
      try {
        return await connection.call(method, request, signal, deadlineMs)
      } catch (error) {
        if (!(error instanceof CallError)) throw error
        if (error.lost) this.failed(connection.endpoint, error)
        left -= 1
        if (left === 0 || this.#closed || !error.unsent || error.code !== grpcStatus.unavailable) throw error
      }
    }
  }

  /**
   * One unary call that may happen any number of times, as a read: asked of the next member too whenever there is no
   * answer for `hedgeMs`, and again as long as the members have no leader, until the deadline. The first answer counts.
   * @throws CallError
   */
  ask<Request, Response>(
    method: UnaryMethod<Request, Response>,
    request: Request,
    signal?: AbortSignal,
    hedgeMs: number = etcdDefaults.hedgeMs,
  ): Promise<Response> {
    const giveUpAt = performance.now() + this.#options.deadlineMs
    const ended = new AbortController()
    let onAbort = () => {}
    const first = this.#index
    let member = first
    let open = 0
    let lost = 0
    let timer: NodeJS.Timeout | undefined
    const answer = new Promise<Response>((resolve, reject) => {
      const next = () => {
        const at = member
        let connection: Connection
        try {
          connection = this.#connectionTo(at)
        } catch (error) {
          reject(error)
          return
        }
        member = (member + 1) % this.#addresses.length
        open += 1
        connection
          .call(method, request, ended.signal, Math.max(1, giveUpAt - performance.now()))
          .then(response => {
            if (open > 1 && !ended.signal.aborted) this.#prefer(at, first)
            resolve(response)
          })
          .catch((error: unknown) => {
            open -= 1
            if (error instanceof CallError && !ended.signal.aborted) {
              if (error.lost) this.failed(connection.endpoint, error)
              const isOver = this.#closed || performance.now() >= giveUpAt
              if (error.leaderless && !isOver) return later(etcdDefaults.leaderlessMs)
              if (error.lost && !isOver && ++lost < this.#addresses.length) return next()
              if (error.lost && open > 0) return
            }
            reject(error)
          })
        later(hedgeMs)
      }
      const later = (ms: number) => {
        clearTimeout(timer)
        // Of a member that is the only one a second question would only wait beside the first.
        if (this.#addresses.length > 1 || open === 0) timer = setTimeout(next, ms)
      }
      onAbort = () => reject(new CallError(grpcStatus.cancelled, 'no longer wanted', ''))
      if (signal?.aborted) return onAbort()
      signal?.addEventListener('abort', onAbort, { once: true })
      next()
    })
    return answer.finally(() => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', onAbort)
      ended.abort()
    })
  }

  /** A connection of one's own to the member in use. Whoever asks for it closes it with `hangUp`. */
  dial(): Connection {
    return this.#dial(this.#index)
  }

  hangUp(connection: Connection): void {
    connection.close()
    this.#connections.delete(connection)
  }

  /** Takes the next member, if the one that failed is still in use. */
  failed(endpoint: string, error: CallError): void {
    if (this.#closed || this.#addresses[this.#index] !== endpoint) return
    const alone = this.#addresses.length === 1
    // gRPC reconnects by itself. Only a connection that does not answer is given up, as it may be half open.
    if (alone && error.code !== grpcStatus.deadlineExceeded) return
    this.#use((this.#index + 1) % this.#addresses.length)
    this.#log?.warn(
      { endpoint, next: this.#addresses[this.#index], reason: error.message },
      alone ? 'etcd does not answer, connecting anew' : 'etcd member fails, using the next',
    )
  }

  /** Takes a member that has answered what a slow one has not, if that is still in use. */
  #prefer(index: number, slow: number): void {
    if (this.#closed || index === slow || slow !== this.#index) return
    const endpoint = this.#addresses[slow]
    this.#use(index)
    this.#log?.warn({ endpoint, next: this.#addresses[index] }, 'etcd member is slow, using another')
  }

  #use(index: number): void {
    const old = this.#shared[this.#index]
    this.#shared[this.#index] = undefined
    this.#index = index
    old?.retire()
  }

  #connectionTo(index: number): Connection {
    const known = this.#shared[index]
    if (known !== undefined && !known.closed) return known
    const connection = this.#dial(index)
    this.#shared[index] = connection
    return connection
  }

  #dial(index: number): Connection {
    const address = this.#addresses[index]
    if (address === undefined || this.#closed)
      throw new CallError(grpcStatus.unavailable, 'the storage is closed', address ?? '', { unsent: true })
    for (const old of this.#connections) if (old.closed) this.#connections.delete(old)
    const connection = new Connection(address, this.#options)
    this.#connections.add(connection)
    return connection
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
