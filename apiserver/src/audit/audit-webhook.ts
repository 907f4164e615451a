import {
  type Clock,
  HttpTransport,
  type Logger,
  systemClock,
  unlessAborted,
} from '@setpoint/controller-runtime'
import type { CancelTimer } from '@setpoint/controller-runtime/internal'
import type { AuditSink } from './audit-log.ts'
import { Losses } from './losses.ts'

export const webhookDefaults = Object.freeze({
  /** Events that wait to be sent (Kubernetes' `--audit-webhook-batch-buffer-size`). */
  bufferEvents: 10_000,
  /** Bytes of them. */
  bufferBytes: 32 * 1024 * 1024,
  /** Events of one request (Kubernetes' `--audit-webhook-batch-max-size`). */
  batchEvents: 400,
  /** Bytes of one request. A single event can be larger than that by its objects. */
  batchBytes: 1024 * 1024,
  /** Milliseconds that an event waits for others. */
  batchMs: 1_000,
  /** Milliseconds before the first retry. The pause doubles up to `maxRetryMs`. */
  retryMs: 1_000,
  maxRetryMs: 60_000,
  /** Milliseconds for a response. */
  requestMs: 30_000,
  /** Milliseconds for the last attempt when the server stops. */
  closeMs: 5_000,
})

interface AuditWebhookOptions {
  readonly url: string
  /** Returns the current bearer token. */
  readonly token?: () => Promise<string>
  /** CA certificates (PEM). */
  readonly ca?: string
  readonly log: Logger
  readonly clock?: Clock
}

/**
 * Sends events to a URL in batches: POST of an `audit.k8s.io/v1` EventList, one request at a time and in order.
 *
 *     idle ──first event──▶ collecting ──full, or batchMs──▶ sending ──2xx──▶ idle or collecting
 *                                                       retry ◀──error, 408, 429, 5xx──┘
 *
 * Guarantees: never blocks a request. A batch is sent again until it is accepted, so the receiver can get an event
 * twice; `auditID` and `stage` identify it. Events that do not fit into the buffer are dropped and counted, as is a
 * batch that the receiver refuses with another 4xx.
 */
export class AuditWebhook implements AuditSink {
  readonly name = 'webhook'
  readonly #clock: Clock
  readonly #losses: Losses
  readonly #transport: HttpTransport
  readonly #waiting: string[] = []
  #waitingBytes = 0
  #state: 'idle' | 'collecting' | 'sending' | 'waiting to retry' | 'closed' = 'idle'
  #retryMs: number = webhookDefaults.retryMs
  #cancel: CancelTimer = () => {}
  #sending: Promise<void> = Promise.resolve()

  constructor(options: AuditWebhookOptions) {
    const { url, token, ca } = options
    this.#clock = options.clock ?? systemClock
    this.#losses = new Losses(options.log, this.#clock, { url }, 'failed to send audit events')
    this.#transport = new HttpTransport({
      server: url,
      requestTimeoutMs: webhookDefaults.requestMs,
      token,
      tls: { ca },
    })
  }

  get dropped(): number {
    return this.#losses.dropped
  }

  write(event: string): void {
    const { bufferEvents, bufferBytes, batchEvents, batchBytes, batchMs } = webhookDefaults
    const isFull = this.#waiting.length >= bufferEvents || this.#waitingBytes + event.length > bufferBytes
    if (this.#state === 'closed' || isFull) {
      this.#losses.drop(1, 'the buffer is full')
      return
    }
    this.#waiting.push(event)
    this.#waitingBytes += event.length
    if (this.#state === 'idle') {
      this.#state = 'collecting'
      this.#cancel = this.#clock.setTimeout(() => this.#send(), batchMs, { unref: true })
    }
    const isBatchFull = this.#waiting.length >= batchEvents || this.#waitingBytes >= batchBytes
    if (this.#state === 'collecting' && isBatchFull) this.#send()
  }

  /** Makes one attempt to send what waits. */
  async close(): Promise<void> {
    const wasSending = this.#state === 'sending'
    this.#cancel()
    this.#state = 'closed'
    const giveUp = AbortSignal.timeout(webhookDefaults.closeMs)
    if (wasSending) await unlessAborted(this.#sending, giveUp).catch(() => {})
    while (this.#waiting.length > 0 && !giveUp.aborted) {
      const { length } = this.#waiting
      await this.#attempt(giveUp)
      if (this.#waiting.length === length) break
    }
    if (this.#waiting.length > 0) this.#losses.drop(this.#waiting.length, 'the server stops')
    await this.#transport.close()
  }

  #send(): void {
    this.#cancel()
    this.#state = 'sending'
    this.#sending = this.#attempt().then(isSettled => {
      if (this.#state === 'closed') return
      if (!isSettled) {
        this.#state = 'waiting to retry'
        this.#cancel = this.#clock.setTimeout(() => this.#send(), this.#retryMs, { unref: true })
        this.#retryMs = Math.min(2 * this.#retryMs, webhookDefaults.maxRetryMs)
        return
      }
      this.#retryMs = webhookDefaults.retryMs
      if (this.#waiting.length > 0) this.#send()
      else this.#state = 'idle'
    })
  }

  /** Sends one batch. Resolves with false if it is to be sent again. Never rejects. */
  async #attempt(signal?: AbortSignal): Promise<boolean> {
    const batch = this.#batch()
    const body = `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[${batch.join(',')}]}`
    let problem: unknown
    let isRefused = false
    try {
      const { status } = await this.#transport.request({
        method: 'POST',
        path: '',
        headers: { 'content-type': 'application/json' },
        body,
        signal,
      })
      if (status >= 200 && status < 300) {
        this.#remove(batch)
        return true
      }
      problem = `the receiver responded with ${status}`
      isRefused = status >= 400 && status < 500 && status !== 408 && status !== 429
    } catch (error) {
      problem = error
    }
    if (isRefused) {
      this.#remove(batch)
      this.#losses.drop(batch.length, problem)
    } else this.#losses.report(problem)
    return isRefused
  }

  /** Returns the events of the next request: at least one. */
  #batch(): string[] {
    const { batchEvents, batchBytes } = webhookDefaults
    let bytes = 0
    const first = this.#waiting.slice(0, batchEvents)
    const end = first.findIndex(event => {
      bytes += event.length
      return bytes > batchBytes
    })
    return end < 0 ? first : first.slice(0, Math.max(end, 1))
  }

  #remove(batch: readonly string[]): void {
    this.#waiting.splice(0, batch.length)
    this.#waitingBytes -= batch.reduce((sum, event) => sum + event.length, 0)
  }
}
