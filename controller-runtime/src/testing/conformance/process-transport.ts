import { errorMessage } from '../../api/error-message.ts'
import { initialEventsEndAnnotation } from '../../api/object.ts'
import {
  type Transport,
  TransportError,
  type TransportRequest,
  type TransportResponse,
  type WatchConnection,
  type WatchEnd,
  type WatchRequestOptions,
} from '../../client/transport.ts'

import { linkedSignal } from '../../linked-signal.ts'

/** A request made by a process. */
export interface Call {
  /** From 1, counted per process. */
  readonly number: number
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

export function describeCall({ number, method, path }: Pick<Call, 'number' | 'method' | 'path'>): string {
  return `call ${number} (${method} ${path})`
}

/** Returns a promise that never settles, and that does not keep its awaiter in memory. */
function never<T>(): Promise<T> {
  return new Promise(() => {})
}

const cut: WatchEnd = Object.freeze({ code: 1006, reason: 'the connection is cut' })

/** A past state to show to a process instead of the current one. */
export interface PastState {
  readonly version: string
  /** The objects of the collection at a path; undefined if unknown, then the current state is shown. */
  stateAt(path: string): readonly object[] | undefined
}

interface OpenWatch {
  end(end: WatchEnd): void
}

/**
 * The transport of one process. It counts calls and lets a scenario disturb them, holds back watch events, so that caches
 * become stale, disconnects, and dies with the process.
 */
export class ProcessTransport implements Transport {
  readonly calls: Call[] = []
  readonly #inner: Transport
  readonly #disturb: Disturb | undefined
  readonly #kill: () => void
  readonly #onCall: (call: Call) => void
  readonly #watches = new Set<OpenWatch>()
  readonly #waiting: (() => void)[] = []
  #inFlight = 0
  #activity = 0
  #unanswered = 0
  #held = false
  #connected = true
  #dead = false
  #past: PastState | undefined
  #presentShown: Promise<void> = Promise.resolve()
  #resolvePresent: () => void = () => {}

  constructor(
    inner: Transport,
    options: { disturb: Disturb | undefined; kill: () => void; onCall: (call: Call) => void },
  ) {
    this.#inner = inner
    this.#disturb = options.disturb
    this.#kill = options.kill
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
    for (const watch of [...this.#watches]) watch.end(cut)
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

  /** Cuts every connection and refuses new ones. */
  disconnect(): void {
    this.#connected = false
    for (const watch of [...this.#watches]) watch.end(cut)
  }

  reconnect(): void {
    this.#connected = true
  }

  /** Shows a past state to new watches of collections, which continue from there after `showPresent`. */
  showPast(past: PastState): void {
    this.#past = past
    this.#presentShown = new Promise(resolve => {
      this.#resolvePresent = resolve
    })
  }

  showPresent(): void {
    this.#past = undefined
    this.#resolvePresent()
  }

  async request(request: TransportRequest): Promise<TransportResponse> {
    if (!this.#dead && !this.#connected) throw new TransportError('the server cannot be reached')
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
        const response = await this.#inner.request(request)
        call.executed = response.status
        return response
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
    if (!this.#connected) throw new TransportError('the server cannot be reached')
    const url = new URL(path, 'http://process')
    const objects = url.searchParams.has('version') ? undefined : this.#past?.stateAt(url.pathname)
    const past = this.#past && objects && { version: this.#past.version, objects }
    return this.#guard(past ? this.#watchPast(url, past, options) : await this.#inner.watch(path, options))
  }

  #guard(inner: WatchConnection): WatchConnection {
    let ended: WatchEnd | undefined
    let resolveEnd: (end: WatchEnd) => void = () => {}
    const end = new Promise<WatchEnd>(resolve => {
      resolveEnd = resolve
    })
    const watch = {
      end: (how: WatchEnd) => {
        this.#watches.delete(watch)
        ended ??= how
        inner.close()
        if (!this.#dead) resolveEnd(ended)
      },
    }
    this.#watches.add(watch)
    void inner.end.then(how => watch.end(how))
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
          if (ended === cut) return
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

  #watchPast(
    url: URL,
    { version, objects }: { version: string; objects: readonly object[] },
    { signal, headers }: WatchRequestOptions,
  ): WatchConnection {
    const inner = this.#inner
    const presentShown = this.#presentShown
    const closing = linkedSignal(signal)
    const both = closing.signal
    let resolveEnd: (end: WatchEnd) => void = () => {}
    const end = new Promise<WatchEnd>(resolve => {
      resolveEnd = resolve
    })
    both.addEventListener('abort', () => resolveEnd({ code: 1000, reason: 'closed' }), { once: true })
    return {
      end,
      close: () => closing.abort(),
      async *[Symbol.asyncIterator]() {
        for (const object of objects) yield JSON.stringify({ type: 'ADDED', object })
        yield JSON.stringify(endOfInitialEvents(version))
        await Promise.race([presentShown, end])
        if (both.aborted) return
        const now = new URLSearchParams(url.searchParams)
        now.set('version', version)
        const live = await inner.watch(`${url.pathname}?${now}`, {
          signal: both,
          headers,
        })
        void live.end.then(resolveEnd)
        yield* live
      },
    }
  }
}

function endOfInitialEvents(version: string): object {
  const annotations = { [initialEventsEndAnnotation]: 'true' }
  return { type: 'BOOKMARK', object: { metadata: { version, resourceVersion: version, annotations } } }
}
