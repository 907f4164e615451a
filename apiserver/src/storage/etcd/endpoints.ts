import { status } from '@grpc/grpc-js'
import type { Logger } from '@setpoint/controller-runtime'
import { resendPauseMs } from './backoff.ts'
import { CallError } from './call-error.ts'
import type { EtcdChannel, Method } from './client.ts'
import { Cluster, type ClusterMember } from './cluster.ts'
import { Connection, type ConnectionOptions, type Membership } from './connection.ts'
import { etcdDefaults } from './defaults.ts'
import { type Credentials, Login } from './login.ts'
import type { CallLimits } from './unary-call.ts'

export interface EndpointsOptions extends Pick<ConnectionOptions, 'tls'> {
  readonly auth?: Credentials
  /** A key that the user may read. */
  readonly probe: Buffer
  /** Called with the member that takes the calls, at the start and after each change. */
  readonly onMember?: (address: string) => void
}

/** Picks a method from `methods`. */
type Choose<Request, Response> = (channel: EtcdChannel) => Method<Request, Response>

/**
 * The members of the cluster. All calls go to one member until it fails, then to the next. Spreading them over all
 * members would make every call depend on the slowest, and a linearizable read is equally fresh on any.
 */
export class Endpoints {
  readonly #addresses: readonly string[]
  readonly #tls: ConnectionOptions['tls']
  readonly #options: ConnectionOptions
  readonly #auth: Credentials | undefined
  readonly #login: Login | undefined
  readonly #cluster: Cluster
  readonly #membership: Membership
  /** Asks all members for their cluster. Its failure is kept for `meetPauseMs`. */
  #meeting: Promise<void> | undefined
  readonly #log: Logger | undefined
  readonly #onMember: (address: string) => void
  readonly #connections = new Set<Connection>()
  /** The connections that calls share, by the index of their member. */
  readonly #shared: (Connection | undefined)[] = []
  #index: number
  #closed = false

  /** @throws RangeError if there is no address, or one has a path, user or unknown scheme. */
  constructor(
    addresses: readonly string[],
    { tls, auth, probe, onMember = () => {} }: EndpointsOptions,
    log: Logger | undefined,
  ) {
    if (addresses.length === 0) throw new RangeError('at least one etcd endpoint is needed')
    this.#addresses = addresses.map(address => parseEndpoint(address, tls !== undefined))
    if (new Set(this.#addresses.map(address => address.startsWith('https:'))).size > 1)
      throw new RangeError('etcd endpoints must be all http or all https')
    this.#tls = tls
    this.#auth = auth
    this.#cluster = new Cluster(log)
    this.#membership = { probe, admit: member => this.#admit(member) }
    this.#login = auth && new Login(auth, request => this.#authenticate(request))
    this.#options = { tls, login: this.#login, membership: this.#membership }
    this.#log = log
    this.#onMember = onMember
    // Random, so that several servers do not all use the first member.
    this.#index = Math.floor(Math.random() * this.#addresses.length)
    this.#onMember(this.#addresses[this.#index] ?? '')
  }

  get addresses(): readonly string[] {
    return this.#addresses
  }

  /**
   * Makes one unary call. Only a call that was never sent is tried on the other members.
   * @throws CallError
   */
  async send<Request, Response>(
    method: Choose<Request, Response>,
    request: Request,
    limits: CallLimits,
  ): Promise<Response> {
    let wrong: CallError | undefined
    for (let left = this.#addresses.length; ; ) {
      const connection = this.#connectionTo(this.#index)
      try {
        return await connection.call(method, request, limits)
      } catch (error) {
        if (!(error instanceof CallError)) throw error
        if (error.lost) this.failed(connection.endpoint, error, connection)
        if (error.wrongStore) wrong = error
        left -= 1
        if (left === 0 || this.#closed || !error.unsent || error.code !== status.UNAVAILABLE)
          throw wrong ?? error
      }
    }
  }

  /**
   * Makes one unary call that may be repeated, such as a read. It is also sent to the next member if there is no
   * response for `hedgeMs`, and again while the members have no leader, until the deadline. The first response counts.
   * @throws CallError
   */
  ask<Request, Response>(
    method: Choose<Request, Response>,
    request: Request,
    { until, signal }: CallLimits,
    hedgeMs: number = etcdDefaults.hedgeMs,
  ): Promise<Response> {
    const ended = new AbortController()
    const first = this.#index
    let member = first
    let open = 0
    let lost = 0
    let leaderless = 0
    let wrong: CallError | undefined
    let timer: NodeJS.Timeout | undefined
    let onAbort = () => {}
    const response = new Promise<Response>((resolve, reject) => {
      const next = () => {
        const at = member
        member = (member + 1) % this.#addresses.length
        let connection: Connection
        try {
          connection = this.#connectionTo(at)
        } catch (error) {
          return reject(error)
        }
        open += 1
        connection
          .call(method, request, { until, signal: ended.signal })
          .then(response => {
            if (open > 1 && !ended.signal.aborted) this.#prefer(at, first)
            resolve(response)
          })
          .catch((error: unknown) => {
            open -= 1
            if (!(error instanceof CallError) || ended.signal.aborted) return reject(error)
            if (error.lost) this.failed(connection.endpoint, error, connection)
            // Says more than that the others cannot be reached.
            if (error.wrongStore) wrong = error
            const isOver = this.#closed || performance.now() >= until
            if (error.leaderless && !isOver) return later(resendPauseMs(leaderless++))
            if (error.lost && !isOver && ++lost < this.#addresses.length) return next()
            if (!error.lost || open === 0) reject(wrong ?? error)
          })
        later(hedgeMs)
      }
      const later = (ms: number) => {
        clearTimeout(timer)
        // A second request to the only member would just wait behind the first.
        if (this.#addresses.length > 1 || open === 0) timer = setTimeout(hedge, ms)
      }
      // A second request would wait for the same login.
      const hedge = () => (open > 0 && this.#login?.isUnderWay ? later(hedgeMs) : next())
      onAbort = () => reject(new CallError(status.CANCELLED, 'the call was aborted', ''))
      if (signal?.aborted) return onAbort()
      signal?.addEventListener('abort', onAbort, { once: true })
      next()
    })
    return response.finally(() => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', onAbort)
      // Without a reason, Node makes an error with a stack for each call.
      ended.abort('over')
    })
  }

  /** Opens a connection to the current member for the caller alone, who closes it with `hangUp`. */
  dial(): Connection {
    return this.#dial(this.#index)
  }

  hangUp(connection: Connection): void {
    connection.close()
    this.#connections.delete(connection)
  }

  /**
   * Moves on to the next member, if the failed one is still current. `shared` is the connection of a failed call: only
   * the first call that fails on it replaces it.
   */
  failed(endpoint: string, error: CallError, shared?: Connection): void {
    if (this.#closed || this.#addresses[this.#index] !== endpoint) return
    if (shared !== undefined && this.#shared[this.#index] !== shared) return
    const alone = this.#addresses.length === 1
    // gRPC reconnects by itself. Only a connection without responses is replaced, because it may be half open.
    if (alone && error.code !== status.DEADLINE_EXCEEDED) return
    this.#use((this.#index + 1) % this.#addresses.length)
    this.#log?.warn(
      { endpoint, next: this.#addresses[this.#index], reason: error.message },
      alone ? 'etcd does not respond, reconnecting' : 'etcd member failed, using the next',
    )
  }

  /** Moves on to a member that was faster than the current one. */
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
    this.#onMember(this.#addresses[index] ?? '')
    old?.retire()
  }

  #connectionTo(index: number): Connection {
    const known = this.#shared[index]
    if (known !== undefined && !known.closed && !known.outdated) return known
    const connection = this.#dial(index)
    this.#shared[index] = connection
    known?.retire()
    return connection
  }

  #dial(index: number, options: ConnectionOptions = this.#options): Connection {
    const address = this.#addresses[index]
    if (address === undefined || this.#closed)
      throw new CallError(status.UNAVAILABLE, 'the storage is closed', address ?? '', { unsent: true })
    for (const old of this.#connections) if (old.closed) this.#connections.delete(old)
    const connection = new Connection(address, options)
    this.#connections.add(connection)
    return connection
  }

  /** Logs in over a connection of its own, which no caller closes. */
  async #authenticate(request: { readonly name: string; readonly password: string }): Promise<string> {
    const connection = this.#dial(this.#index, { tls: this.#tls })
    try {
      const limits = { until: performance.now() + etcdDefaults.loginMs }
      const { token, member } = await connection.authenticate(request, limits)
      this.#cluster.admit(member)
      return token
    } finally {
      this.hangUp(connection)
    }
  }

  async #admit(member: ClusterMember): Promise<void> {
    this.#meeting ??= this.#meetOthers(member)
    await this.#meeting
    this.#cluster.admit(member)
  }

  async #meetOthers(first: ClusterMember): Promise<void> {
    const others = this.#addresses.flatMap((address, index) => (address === first.endpoint ? [] : [index]))
    try {
      const members = await Promise.all(others.map(index => this.#memberAt(index)))
      this.#cluster.meet(
        first,
        members.flatMap(member => member ?? []),
      )
    } catch (error) {
      const over = () => {
        this.#meeting = undefined
      }
      setTimeout(over, etcdDefaults.meetPauseMs).unref()
      throw error
    }
  }

  /** Returns undefined if the member does not tell. */
  async #memberAt(index: number): Promise<ClusterMember | undefined> {
    const token = await this.#login?.token()
    const login = token === undefined ? undefined : { token: () => token }
    const connection = this.#dial(index, { tls: this.#tls, login })
    try {
      return await connection.member(this.#membership.probe, meetLimits())
    } catch (error) {
      if (this.#auth === undefined || !(error instanceof CallError)) return undefined
      // Another cluster does not know the token, or waits for the log entry that it names.
      if (!error.staleToken && error.code !== status.DEADLINE_EXCEEDED) return undefined
      const { user: name, password } = this.#auth
      return await connection.authenticate({ name, password }, meetLimits()).then(
        ({ member }) => member,
        () => undefined,
      )
    } finally {
      this.hangUp(connection)
    }
  }

  close(): void {
    this.#closed = true
    for (const connection of this.#connections) connection.close()
    this.#connections.clear()
  }
}

function meetLimits(): CallLimits {
  return { until: performance.now() + etcdDefaults.meetMs }
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
