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

/** A request that a process has made. */
export interface Call {
  /** From 1, over the life of the process. */
  readonly number: number
  readonly method: TransportRequest['method']
  /** Path without the query. */
  readonly path: string
  readonly signal: AbortSignal | undefined
}

/**
 * What becomes of a call: it may be carried out, answered in another way, fail, or never be answered. `kill` ends the
 * process that makes it.
 */
export type Disturb = (
  call: Call,
  carryOut: () => Promise<TransportResponse>,
  kill: () => void,
) => Promise<TransportResponse>

export function describeCall({ number, method, path }: Pick<Call, 'number' | 'method' | 'path'>): string {
  return `call ${number} (${method} ${path})`
}

/** Whoever waits for it waits for ever, and nothing keeps him in memory. */
function never<T>(): Promise<T> {
  return new Promise(() => {})
}

const cut: WatchEnd = Object.freeze({ code: 1006, reason: 'the connection is cut' })

/** What a process is shown in place of the present. */
export interface PastState {
  readonly version: string
  /** The objects of the collection at a path; undefined where that is not known, and the present is shown. */
  stateAt(path: string): readonly object[] | undefined
}

interface OpenWatch {
  end(end: WatchEnd): void
}

/**
 * One process's way to the server. It counts the calls and lets a scenario disturb them; it holds watches back, so that
 * the process's caches grow old; it disconnects; it dies.
 */
export class ProcessTransport implements Transport {
  readonly calls: Call[] = []
  readonly #inner: Transport
  readonly #disturb: Disturb | undefined
  readonly #kill: () => void
  readonly #watches = new Set<OpenWatch>()
  readonly #waiting: (() => void)[] = []
  #inFlight = 0
  #unanswered = 0
  #held = false
  #connected = true
  #dead = false
  #past: PastState | undefined
  #presentComes: Promise<void> = Promise.resolve()
  #letPresentCome: () => void = () => {}

  constructor(inner: Transport, disturb: Disturb | undefined, kill: () => void) {
    this.#inner = inner
    this.#disturb = disturb
    this.#kill = kill
  }

  /** Calls that have not been answered. */
  get inFlight(): number {
    return this.#inFlight
  }

  /** Calls that are never answered, as the process has died. */
  get unanswered(): number {
    return this.#unanswered
  }

  /** Events that wait for `releaseOne`. */
  get heldEvents(): number {
    return this.#waiting.length
  }

  get isDead(): boolean {
    return this.#dead
  }

  /** From now on nothing is answered and no event arrives: what a process sees that is no more. */
  kill(): void {
    this.#dead = true
    for (const watch of [...this.#watches]) watch.end(cut)
  }

  /** Holds the events of watches back: the caches show what was. */
  hold(): void {
    this.#held = true
  }

  /** Lets the event through that has waited longest. */
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

  /** Answers new watches of collections with a past state, and goes on from there after `showPresent`. */
  showPast(past: PastState): void {
    this.#past = past
    this.#presentComes = new Promise(resolve => {
      this.#letPresentCome = resolve
    })
  }

  showPresent(): void {
    this.#past = undefined
    this.#letPresentCome()
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
    const { method, path, signal } = request
    const call = { number: this.calls.length + 1, method, path: path.split('?')[0] ?? path, signal }
    this.calls.push(call)
    this.#inFlight++
    try {
      const carryOut = () => this.#inner.request(request)
      return await (this.#disturb?.(call, carryOut, this.#kill) ?? carryOut())
    } finally {
      this.#inFlight--
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
    return {
      end,
      close: () => inner.close(),
      async *[Symbol.asyncIterator]() {
        for await (const text of inner) {
          await gate()
          if (isDead()) await never()
          if (ended === cut) return
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
    const presentComes = this.#presentComes
    const closing = new AbortController()
    const both = AbortSignal.any([signal, closing.signal])
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
        await Promise.race([presentComes, end])
        if (both.aborted) return
        const now = new URLSearchParams(url.searchParams)
        now.set('version', version)
        const live = await inner.watch(`${url.pathname}?${now}`, {
          signal: both,
          ...(headers && { headers }),
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
