import type { EventTamper } from './event-decoder.ts'

/**
 * The faults of one kind of traffic: watches, lists, other requests, or all of them. An *exchange* is one request with
 * its answer, or one upgraded connection from its request to its end; a connection that is kept alive carries many.
 */
export interface FaultLane {
  /** Exchanges that have begun and not ended. One that is held stays open even when its client has gone. */
  readonly open: number
  /** Exchanges since the start, refused ones included. */
  readonly total: number
  /** Resets the connections of all open exchanges (RST, so both ends know at once). New ones pass. */
  cut(): void
  /** What the server sends from now on arrives this many milliseconds later, in order. 0 ends it. */
  delay(ms: number): void
  /**
   * Ends an exchange after this many bytes of its answer's body, or of what follows the upgrade: they arrive, then the
   * connection ends (FIN) wherever that is. Open exchanges are counted from now on.
   *
   * @param bytes from 0; undefined lets exchanges live
   * @param times `each` does it to every exchange, `once` to the first that gets so far
   */
  truncateAfter(bytes: number | undefined, times?: 'once' | 'each'): void
  /**
   * Half-open: connections stay and can be made, and nothing passes in either direction, not even their end.
   *
   * @param which `all`, the default, holds new exchanges too, before their requests reach the server; `open` holds
   *   those that are under way and lets new ones pass
   */
  hold(which?: 'all' | 'open'): void
  /** Lets pass what was held, with what both ends have sent meanwhile. */
  release(): void
  /**
   * New exchanges do not reach the server. Open ones go on.
   *
   * @param how an HTTP status, answered with a Status body; or `connection`, which resets the connection on the
   *   request. Nobody can refuse a kind of traffic earlier than on its request.
   */
  refuse(how: number | 'connection'): void
  /** Ends `refuse`. */
  accept(): void
}

/** Watches, whose events can be changed too. */
export interface WatchLane extends FaultLane {
  /**
   * Puts a function between the server's events and the client, on watches that open from now on: to drop, double,
   * swap or falsify events, so that a test can see its checks fail. Undefined ends it for those that open later.
   */
  tamper(change: EventTamper | undefined): void
}

/** An exchange as its lane handles it. */
export interface Exchange {
  cut(): void
  hold(): void
  release(): void
}

/** Where an answer is to end. A new object for each call, so that flows notice the change. */
export interface Truncation {
  readonly bytes: number
  readonly times: 'once' | 'each'
}

/** The faults that are asked for, and the exchanges that they are for. */
export class Lane implements WatchLane {
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

/** Several lanes as one. */
export class Lanes implements FaultLane {
  readonly #lanes: readonly FaultLane[]

  constructor(lanes: readonly FaultLane[]) {
    this.#lanes = lanes
  }

  get open(): number {
    return this.#lanes.reduce((sum, { open }) => sum + open, 0)
  }

  get total(): number {
    return this.#lanes.reduce((sum, { total }) => sum + total, 0)
  }

  cut(): void {
    for (const lane of this.#lanes) lane.cut()
  }

  delay(ms: number): void {
    for (const lane of this.#lanes) lane.delay(ms)
  }

  truncateAfter(bytes: number | undefined, times?: 'once' | 'each'): void {
    for (const lane of this.#lanes) lane.truncateAfter(bytes, times)
  }

  hold(which?: 'all' | 'open'): void {
    for (const lane of this.#lanes) lane.hold(which)
  }

  release(): void {
    for (const lane of this.#lanes) lane.release()
  }

  refuse(how: number | 'connection'): void {
    for (const lane of this.#lanes) lane.refuse(how)
  }

  accept(): void {
    for (const lane of this.#lanes) lane.accept()
  }
}
