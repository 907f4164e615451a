import { type Client, connectivityState, type Metadata, status } from '@grpc/grpc-js'
import { CallError } from './call-error.ts'
import type { Method } from './client.ts'

/** When a call ends at the latest. */
export interface CallLimits {
  /** The deadline of the call and all its steps, in the milliseconds of `performance.now()`. */
  readonly until: number
  /**
   * The longest wait for the connection and the response, in milliseconds: without that for a login. Default up to
   * `until`.
   */
  readonly patienceMs?: number
  readonly signal?: AbortSignal
}

/**
 * One unary call: waits for the connection, then for the response, both within one deadline.
 *
 *     waiting --connected, or failing to connect--> sent --status--> done
 *        +--deadline, abort, cancel: unsent           +--deadline, abort, cancel: may have happened
 */
export class UnaryCall {
  readonly #client: Client
  readonly #endpoint: string
  readonly #limits: CallLimits
  #sent: { cancel(): void } | undefined
  #fail: (error: CallError) => void = () => {}
  #done = false

  constructor(client: Client, endpoint: string, limits: CallLimits) {
    this.#client = client
    this.#endpoint = endpoint
    this.#limits = limits
  }

  /** @throws CallError */
  send<Request, Response>(
    method: Method<Request, Response>,
    request: Request,
    metadata: Metadata,
  ): Promise<Response> {
    const { until, signal } = this.#limits
    const onAbort = () => this.#end(status.CANCELLED, 'the call was aborted')
    const response = new Promise<Response>((resolve, reject) => {
      this.#fail = reject
      if (signal?.aborted) onAbort()
      else
        this.#whenConnected(() => {
          this.#sent = this.#client.makeUnaryRequest(
            method.path,
            method.requestSerialize,
            method.responseDeserialize,
            request,
            metadata,
            (error, message) => {
              if (message !== undefined) resolve(message)
              else reject(CallError.from(error, this.#endpoint))
            },
          )
        })
    })
    signal?.addEventListener('abort', onAbort, { once: true })
    // The immediate lets a response that arrived in time win, even if this process was too busy to read it.
    const timer = setTimeout(() => setImmediate(() => this.#expire()), Math.max(0, until - performance.now()))
    return response.finally(() => {
      this.#done = true
      clearTimeout(timer)
      signal?.removeEventListener('abort', onAbort)
    })
  }

  cancel(): void {
    this.#end(status.CANCELLED, 'the connection is closed')
  }

  #expire(): void {
    const missing = this.#sent === undefined ? 'connection' : 'response'
    this.#end(status.DEADLINE_EXCEEDED, `no ${missing} before the deadline`)
  }

  #end(code: number, details: string): void {
    if (this.#done) return
    this.#done = true
    this.#fail(new CallError(code, details, this.#endpoint, { unsent: this.#sent === undefined }))
    this.#sent?.cancel()
  }

  /** While gRPC fails to connect, calls are sent: it fails them at once, and gives the reason. */
  #whenConnected(send: () => void): void {
    const channel = this.#client.getChannel()
    const state = channel.getConnectivityState(true)
    if (state === connectivityState.SHUTDOWN) {
      this.cancel()
    } else if (state === connectivityState.IDLE || state === connectivityState.CONNECTING) {
      const { until } = this.#limits
      channel.watchConnectivityState(state, Date.now() + Math.max(0, until - performance.now()), error => {
        if (error === undefined && !this.#done) this.#whenConnected(send)
      })
    } else {
      send()
    }
  }
}
