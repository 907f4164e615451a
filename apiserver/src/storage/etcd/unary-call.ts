import { CallError, grpcStatus } from './call-error.ts'
import type { GrpcClient, Metadata, Method } from './client.ts'
import type { CallLimits } from './connection.ts'

/** grpc-js's connectivity states that matter here. */
const states = Object.freeze({ idle: 0, connecting: 1, shutdown: 4 })

/**
 * One unary call: waits for the connection, then for the response, both within one deadline.
 *
 *     waiting --connected, or failing to connect--> sent --status--> done
 *        +--deadline, abort, cancel: unsent           +--deadline, abort, cancel: may have happened
 */
export class UnaryCall {
  readonly #client: GrpcClient
  readonly #endpoint: string
  readonly #limits: CallLimits
  #sent: { cancel(): void } | undefined
  /** Ends the call. Only the first call of it counts. */
  #fail: (error: CallError) => void = () => {}

  constructor(client: GrpcClient, endpoint: string, limits: CallLimits) {
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
    const response = new Promise<Response>((resolve, reject) => {
      this.#fail = reject
      if (signal?.aborted) return this.#end(grpcStatus.cancelled, 'the call was aborted')
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
    const onAbort = () => this.#end(grpcStatus.cancelled, 'the call was aborted')
    signal?.addEventListener('abort', onAbort, { once: true })
    // The immediate lets a response that arrived in time win, even if this process was too busy to read it.
    const timer = setTimeout(() => setImmediate(() => this.#expire()), Math.max(0, until - performance.now()))
    return response.finally(() => {
      this.#fail = () => {}
      clearTimeout(timer)
      signal?.removeEventListener('abort', onAbort)
    })
  }

  cancel(): void {
    this.#end(grpcStatus.cancelled, 'the connection is closed')
  }

  #expire(): void {
    const missing = this.#sent === undefined ? 'connection' : 'response'
    this.#end(grpcStatus.deadlineExceeded, `no ${missing} before the deadline`)
  }

  #end(code: number, details: string): void {
    this.#fail(new CallError(code, details, this.#endpoint, { unsent: this.#sent === undefined }))
    this.#sent?.cancel()
  }

  /** While gRPC fails to connect, calls are sent: it fails them at once, and gives the reason. */
  #whenConnected(send: () => void): void {
    const channel = this.#client.getChannel()
    const state = channel.getConnectivityState(true)
    if (state === states.shutdown) return this.cancel()
    if (state !== states.idle && state !== states.connecting) return send()
    const { until, signal } = this.#limits
    channel.watchConnectivityState(state, Date.now() + Math.max(0, until - performance.now()), error => {
      // A deadline that has passed ends the call by its own timer.
      if (error === undefined && !signal?.aborted) this.#whenConnected(send)
    })
  }
}
