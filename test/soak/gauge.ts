/** What one disturbance has cost those who asked for something meanwhile. All in milliseconds. */
export interface Reading {
  /** Longest time in which no write was acknowledged. */
  readonly writeGapMs: number
  /** Longest time in which no read was answered. */
  readonly readGapMs: number
  /** Longest time in which no controller wrote. */
  readonly controllerGapMs: number
  /** Longest time that a request has waited for its answer, whatever that was. */
  readonly requestMs: number
  /** Requests that were answered with success. */
  readonly succeeded: number
  /** Refused, or not answered because the server was gone: nothing happened. */
  readonly refused: number
  /** Writes of which nobody knows whether they happened. */
  readonly unknown: number
}

type Lane = 'write' | 'read' | 'controller'

/** Measures how long nothing succeeded. */
export class Gauge {
  #last: Record<Lane, number>
  #gaps: Record<Lane, number> = { write: 0, read: 0, controller: 0 }
  #requestMs = 0
  #counts = { succeeded: 0, refused: 0, unknown: 0 }

  constructor() {
    const now = performance.now()
    this.#last = { write: now, read: now, controller: now }
  }

  succeeded(lane: Lane): void {
    const now = performance.now()
    this.#gaps[lane] = Math.max(this.#gaps[lane], now - this.#last[lane])
    this.#last[lane] = now
  }

  /** A request has ended. */
  request(outcome: 'succeeded' | 'refused' | 'unknown', tookMs: number): void {
    this.#counts[outcome] += 1
    this.#requestMs = Math.max(this.#requestMs, tookMs)
  }

  /** What has been measured since the last reading; begins anew. */
  read(): Reading {
    const now = performance.now()
    const gap = (lane: Lane) => Math.max(this.#gaps[lane], now - this.#last[lane])
    const reading = {
      writeGapMs: gap('write'),
      readGapMs: gap('read'),
      controllerGapMs: gap('controller'),
      requestMs: this.#requestMs,
      ...this.#counts,
    }
    this.#last = { write: now, read: now, controller: now }
    this.#gaps = { write: 0, read: 0, controller: 0 }
    this.#requestMs = 0
    this.#counts = { succeeded: 0, refused: 0, unknown: 0 }
    return reading
  }
}
