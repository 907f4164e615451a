import { Backoff } from '../backoff.ts'
import { type Clock, sleep, systemClock } from '../clock.ts'
import { decodeError } from './decode.ts'
import type {
  Transport,
  TransportRequest,
  TransportResponse,
  WatchConnection,
  WatchRequestOptions,
} from './transport.ts'

/** Defaults of `RetryingTransport`. */
export const retryDefaults = Object.freeze({
  /** Attempts in total. */
  attempts: 5,
  /** Upper bound of the first pause on top of Retry-After, in ms: spreads clients that were refused together. */
  baseMs: 500,
  /** Longest pause, in ms. If the server asks for more, the refusal is returned. */
  maxMs: 30_000,
})

/** Attempts and pauses of a `RetryingTransport`. */
export interface RetryingTransportOptions {
  /** Default `retryDefaults.attempts`, and so on for the next two. */
  readonly attempts?: number
  readonly baseMs?: number
  readonly maxMs?: number
  readonly clock?: Clock
  /** Returns a number in [0, 1). Default `Math.random`. */
  readonly random?: () => number
}

/** Methods that are safe to repeat (RFC 9110, 9.2.2). */
const idempotent: ReadonlySet<string> = new Set(['GET', 'PUT', 'DELETE'])

/**
 * Retries GET, PUT and DELETE on 429, and on 503 with Retry-After: both say that the request was not executed. It never
 * retries after a lost response or a 504, since the request may have been executed. Watches pass through; a Watcher
 * reconnects by itself.
 */
export class RetryingTransport implements Transport {
  readonly #inner: Transport
  readonly #options: RetryingTransportOptions

  constructor(inner: Transport, options: RetryingTransportOptions = {}) {
    this.#inner = inner
    this.#options = options
  }

  async request(request: TransportRequest): Promise<TransportResponse> {
    const { clock = systemClock, random = Math.random, ...rest } = this.#options
    const { attempts, baseMs, maxMs } = { ...retryDefaults, ...rest }
    const backoff = new Backoff({ baseMs, maxMs, random })
    for (let attempt = 1; ; attempt++) {
      const response = await this.#inner.request(request)
      if (attempt >= attempts || !idempotent.has(request.method)) return response
      const afterMs = refusedFor(response)
      if (afterMs === undefined) return response
      // Never sooner than the server asks.
      const delayMs = afterMs + backoff.next()
      if (delayMs > maxMs) return response
      await sleep(clock, delayMs, request.signal)
    }
  }

  watch(path: string, options: WatchRequestOptions): Promise<WatchConnection> {
    return this.#inner.watch(path, options)
  }
}

/** Returns the least delay in ms, or undefined if the response is not a temporary refusal. */
function refusedFor(response: TransportResponse): number | undefined {
  if (response.status !== 429 && response.status !== 503) return undefined
  const seconds = decodeError(response).details?.retryAfterSeconds
  if (seconds === undefined) return response.status === 429 ? 0 : undefined
  return seconds * 1000
}
