import { errorMessage } from '../../api/error-message.ts'
import type {
  Transport,
  TransportRequest,
  TransportResponse,
  WatchConnection,
  WatchEnd,
  WatchRequestOptions,
} from '../../client/transport.ts'

/** The phases of a lifecycle: the object is created and converges, then it is deleted and removed. */
export type Phase = 'converging' | 'deleting'

/** A request made by a process. */
export interface Call {
  /** From 1, counted per process. */
  readonly number: number
  readonly phase: Phase
  readonly method: TransportRequest['method']
  /** Path without the query. */
  readonly path: string
  readonly body: string | undefined
  readonly signal: AbortSignal | undefined
  /** Whether the suite disturbs it. */
  isDisturbed: boolean
  /** The server's status code, if the call has reached it. */
  executed: number | undefined
  /** What the process received: a status code or an error. */
  outcome: string | number | undefined
}

/**
 * Handles a call: it may execute it, return another response, throw, or never settle. `kill` kills the calling process.
 */
export type Disturb = (
  call: Call,
  carryOut: () => Promise<TransportResponse>,
  kill: () => void,
) => Promise<TransportResponse>

/** Returns a promise that never settles, and that does not keep its awaiter in memory. */
function never<T>(): Promise<T> {
  return new Promise(() => {})
}

/**
 * The transport of one process. It counts calls and lets a scenario disturb them, holds back watch events, so that
 * caches become stale, and dies with the process.
 */
export class ProcessTransport implements Transport {
  readonly calls: Call[] = []
  readonly #inner: Transport
  readonly #disturb: Disturb | undefined
  readonly #kill: () => void
  readonly #phase: () => Phase
  readonly #onCall: (call: Call) => void
  readonly #watches = new Set<WatchConnection>()
  readonly #waiting: (() => void)[] = []
  #inFlight = 0
  #executing = 0
  #activity = 0
  #unanswered = 0
  #held = false
  #dead = false

  constructor(
    inner: Transport,
    options: {
      disturb: Disturb | undefined
      kill: () => void
      phase: () => Phase
      onCall: (call: Call) => void
    },
  ) {
    this.#inner = inner
    this.#disturb = options.disturb
    this.#kill = options.kill
    this.#phase = options.phase
    this.#onCall = options.onCall
  }

  /** Grows with every call, response and event. */
  get activity(): number {
    return this.#activity
  }

  /** Number of calls in progress. */
  get inFlight(): number {
    return this.#inFlight
  }

  /** True while the server works on a call. */
  get isServerBusy(): boolean {
    return this.#executing > 0
  }

  /** Number of calls that will never get a response, because the process is dead. */
  get unanswered(): number {
    return this.#unanswered
  }

  /** Number of events that wait for `releaseOne`. */
  get heldEvents(): number {
    return this.#waiting.length
  }

  get isDead(): boolean {
    return this.#dead
  }

  /** From now on no call gets a response and no event arrives. */
  kill(): void {
    this.#dead = true
    for (const watch of [...this.#watches]) watch.close()
  }

  /** Holds back watch events, so that caches become stale. */
  hold(): void {
    this.#held = true
  }

  /** Releases the oldest held event. */
  releaseOne(): void {
    this.#waiting.shift()?.()
  }

  release(): void {
    this.#held = false
    for (const go of this.#waiting.splice(0)) go()
  }

  async request(request: TransportRequest): Promise<TransportResponse> {
    try {
      const response = this.#dead ? undefined : await this.#carryOut(request)
      if (response !== undefined && !this.#dead) return response
    } catch (error) {
      if (!this.#dead) throw error
    }
    this.#unanswered++
    return never()
  }

  async #carryOut(request: TransportRequest): Promise<TransportResponse> {
    const { method, path, body, signal } = request
    const call: Call = {
      number: this.calls.length + 1,
      phase: this.#phase(),
      method,
      path: path.split('?')[0] ?? path,
      body,
      signal,
      isDisturbed: false,
      executed: undefined,
      outcome: undefined,
    }
    this.calls.push(call)
    this.#onCall(call)
    this.#inFlight++
    this.#activity++
    try {
      const carryOut = async () => {
        this.#executing++
        try {
          const response = await this.#inner.request(request)
          call.executed = response.status
          return response
        } finally {
          this.#executing--
        }
      }
      const response = await (this.#disturb?.(call, carryOut, this.#kill) ?? carryOut())
      if (!this.#dead) call.outcome = response.status
      return response
    } catch (error) {
      if (!this.#dead) call.outcome = errorMessage(error)
      throw error
    } finally {
      this.#inFlight--
      this.#activity++
    }
  }

  async watch(path: string, options: WatchRequestOptions): Promise<WatchConnection> {
    if (this.#dead) return never()
    return this.#guard(await this.#inner.watch(path, options))
  }

  #guard(inner: WatchConnection): WatchConnection {
    this.#watches.add(inner)
    const end = inner.end.then(how => {
      this.#watches.delete(inner)
      return this.#dead ? never<WatchEnd>() : how
    })
    const gate = () => this.#gate()
    const isDead = () => this.#dead
    const received = () => {
      this.#activity++
    }
    return {
      end,
      close: () => inner.close(),
      async *[Symbol.asyncIterator]() {
        for await (const text of inner) {
          await gate()
          if (isDead()) await never()
          received()
          yield text
        }
        if (isDead()) await never()
      },
    }
  }

  #gate(): Promise<void> | undefined {
    if (!this.#held) return undefined
    return new Promise(resolve => this.#waiting.push(resolve))
  }
}
