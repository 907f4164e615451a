import type {
  Transport,
  TransportRequest,
  TransportResponse,
  WatchConnection,
  WatchRequestOptions,
} from '../client/transport.ts'

/**
 * A way to the server that is asked `fence` before each write, and lets reads and watches pass. It stands where the
 * requests leave, so that no helper that makes several of them can slip one past it.
 */
export class FencedTransport implements Transport {
  readonly #inner: Transport
  readonly #fence: () => void

  constructor(inner: Transport, fence: () => void) {
    this.#inner = inner
    this.#fence = fence
  }

  /** @throws whatever `fence` throws. */
  async request(request: TransportRequest): Promise<TransportResponse> {
    if (request.method !== 'GET') this.#fence()
    return this.#inner.request(request)
  }

  watch(path: string, options: WatchRequestOptions): Promise<WatchConnection> {
    return this.#inner.watch(path, options)
  }
}
