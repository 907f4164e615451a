import type { EventTamper } from './event-decoder.ts'

/**
 * Faults for one kind of traffic: watches, lists, other requests, or all of them. An *exchange* is one request with its
 * response, or one upgraded connection. A kept-alive connection carries many exchanges.
 */
export interface FaultInjection {
  /** Exchanges in progress. A held one stays open even if its client disconnects. */
  readonly open: number
  /** Exchanges since the start, including refused ones. */
  readonly total: number
  /** Resets the connections of all open exchanges (TCP RST). New ones pass. */
  cut(): void
  /** Delays everything that the server sends by this many milliseconds, in order. 0 ends it. */
  delay(ms: number): void
  /**
   * Closes the connection (FIN) of an exchange after this many bytes of the response body, or of the data after the
   * upgrade. In open exchanges, counting starts now.
   *
   * @param bytes from 0; undefined ends it
   * @param times `each` truncates every exchange, `once` only the first that gets that far
   */
  truncateAfter(bytes: number | undefined, times?: 'once' | 'each'): void
  /**
   * Makes connections half-open: they stay open and can be established, but nothing passes in either direction, not
   * even a close.
   *
   * @param which `all`, the default, also holds new exchanges before their requests reach the server; `open` holds only
   *   exchanges in progress
   */
  hold(which?: 'all' | 'open'): void
  /** Releases held exchanges, with all bytes sent meanwhile. */
  release(): void
  /**
   * Refuses new exchanges without asking the server. Open ones continue.
   *
   * @param how an HTTP status, sent with a Status body; or `connection`, which resets the connection once the request
   *   arrives
   */
  refuse(how: number | 'connection'): void
  /** Ends `refuse`. */
  accept(): void
}

/** Faults for watches, whose events can also be changed. */
export interface WatchFaultInjection extends FaultInjection {
  /**
   * Passes the server's events through a function, on watches that open from now on: to drop, duplicate, reorder or
   * falsify events, so that a test can verify its checks. Undefined ends it for later watches.
   */
  tamper(change: EventTamper | undefined): void
}

/** An exchange as faults act on it. */
export interface Exchange {
  cut(): void
  hold(): void
  release(): void
}

/** Where to truncate. A new object for each call, so that flows notice the change. */
export interface Truncation {
  readonly bytes: number
  readonly times: 'once' | 'each'
}

/** The active faults, and the exchanges that they act on. */
export class FaultInjector implements WatchFaultInjection {
  total = 0
  delayMs = 0
  truncation: Truncation | undefined
  refusal: number | 'connection' | undefined
  change: EventTamper | undefined
  /** Whether new exchanges are held. */
  holdsNew = false
  readonly #exchanges = new Set<Exchange>()

  get open(): number {
    return this.#exchanges.size
  }

  enter(exchange: Exchange): void {
    this.total += 1
    this.#exchanges.add(exchange)
  }

  leave(exchange: Exchange): void {
    this.#exchanges.delete(exchange)
  }

  cut(): void {
    for (const exchange of [...this.#exchanges]) exchange.cut()
  }

  delay(ms: number): void {
    this.delayMs = ms
  }

  truncateAfter(bytes: number | undefined, times: 'once' | 'each' = 'each'): void {
    this.truncation = bytes === undefined ? undefined : { bytes, times }
  }

  hold(which: 'all' | 'open' = 'all'): void {
    this.holdsNew = which === 'all'
    for (const exchange of this.#exchanges) exchange.hold()
  }

  release(): void {
    this.holdsNew = false
    for (const exchange of [...this.#exchanges]) exchange.release()
  }

  refuse(how: number | 'connection'): void {
    this.refusal = how
  }

  accept(): void {
    this.refusal = undefined
  }

  tamper(change: EventTamper | undefined): void {
    this.change = change
  }
}

/** Applies faults to several kinds of traffic. */
export class FaultInjectors implements FaultInjection {
  readonly #injectors: readonly FaultInjection[]

  constructor(injectors: readonly FaultInjection[]) {
    this.#injectors = injectors
  }

  get open(): number {
    return this.#injectors.reduce((sum, { open }) => sum + open, 0)
  }

  get total(): number {
    return this.#injectors.reduce((sum, { total }) => sum + total, 0)
  }

  cut(): void {
    for (const injector of this.#injectors) injector.cut()
  }

  delay(ms: number): void {
    for (const injector of this.#injectors) injector.delay(ms)
  }

  truncateAfter(bytes: number | undefined, times?: 'once' | 'each'): void {
    for (const injector of this.#injectors) injector.truncateAfter(bytes, times)
  }

  hold(which?: 'all' | 'open'): void {
    for (const injector of this.#injectors) injector.hold(which)
  }

  release(): void {
    for (const injector of this.#injectors) injector.release()
  }

  refuse(how: number | 'connection'): void {
    for (const injector of this.#injectors) injector.refuse(how)
  }

  accept(): void {
    for (const injector of this.#injectors) injector.accept()
  }
}
