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

/** Numbers that `RetryingTransport` works with. */
export const retryDefaults = Object.freeze({
  /** Attempts in all. */
  attempts: 5,
  /** Ceiling of the first pause beyond what Retry-After says: spreads clients that were refused together. */
  baseMs: 500,
  /** A server that asks for a longer pause is not waited for: whoever asked gets its refusal. */
  maxMs: 30_000,
})

/** What is tried again, how often and after which pauses. */
export interface RetryingTransportOptions {
  readonly attempts?: number
  readonly baseMs?: number
  readonly maxMs?: number
  readonly clock?: Clock
  /** From 0 up to, but not including, 1. Default `Math.random`. */
  readonly random?: () => number
}

/** Methods whose repetition leaves the state that the first one left. */
const idempotent: ReadonlySet<string> = new Set(['GET', 'PUT', 'DELETE'])

/**
 * Waits and asks again where the server refuses for the moment: 429, or 503 with Retry-After, in answer to a GET, PUT or
 * DELETE. Both say that nothing happened. What got no answer, or 504, is never repeated: it may have happened. Watches
 * are passed on as they are; a Watcher does its own waiting.
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
      // Nothing said: our own pace. Otherwise never sooner than the server wants.
      const delayMs = afterMs + backoff.next()
      if (delayMs > maxMs) return response
      await sleep(clock, delayMs, request.signal)
    }
  }

  watch(path: string, options: WatchRequestOptions): Promise<WatchConnection> {
    return this.#inner.watch(path, options)
  }
}

/** Ms to wait at least, or undefined where the answer is no refusal for the moment. */
function refusedFor(response: TransportResponse): number | undefined {
  if (response.status !== 429 && response.status !== 503) return undefined
  const seconds = decodeError(response).details?.retryAfterSeconds
  if (seconds === undefined) return response.status === 429 ? 0 : undefined
  return seconds * 1000
}
