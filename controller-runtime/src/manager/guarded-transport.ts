import type {
  Transport,
  TransportRequest,
  TransportResponse,
  WatchConnection,
  WatchRequestOptions,
} from '../client/transport.ts'

/**
 * A transport that calls `leadershipGuard` before each write; reads and watches pass. It wraps the transport, so that
 * helpers that send several requests cannot bypass it.
 */
export class GuardedTransport implements Transport {
  readonly #inner: Transport
  readonly #leadershipGuard: () => void

  constructor(inner: Transport, leadershipGuard: () => void) {
    this.#inner = inner
    this.#leadershipGuard = leadershipGuard
  }

  /** @throws the error of `leadershipGuard`. */
  async request(request: TransportRequest): Promise<TransportResponse> {
    if (request.method !== 'GET') this.#leadershipGuard()
    return this.#inner.request(request)
  }

  watch(path: string, options: WatchRequestOptions): Promise<WatchConnection> {
    return this.#inner.watch(path, options)
  }
}
