import type {
  Transport,
  TransportRequest,
  TransportResponse,
  WatchConnection,
  WatchRequestOptions,
} from '../client/transport.ts'

/**
 * A transport that calls `fence` before each write; reads and watches pass. It wraps the transport, so that helpers that
 * send several requests cannot bypass it.
 */
export class FencedTransport implements Transport {
  readonly #inner: Transport
  readonly #fence: () => void

  constructor(inner: Transport, fence: () => void) {
    this.#inner = inner
    this.#fence = fence
  }

  /** @throws the error of `fence`. */
  async request(request: TransportRequest): Promise<TransportResponse> {
    if (request.method !== 'GET') this.#fence()
    return this.#inner.request(request)
  }

  watch(path: string, options: WatchRequestOptions): Promise<WatchConnection> {
    return this.#inner.watch(path, options)
  }
}
