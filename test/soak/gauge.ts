/** The cost of one disturbance for clients. Times are in milliseconds. */
export interface Reading {
  /** Longest time without an acknowledged write. */
  readonly writeGapMs: number
  /** Longest time without a successful read. */
  readonly readGapMs: number
  /** Longest time without a controller's write. */
  readonly controllerGapMs: number
  /** Longest time that a request took, whatever its outcome. */
  readonly requestMs: number
  /** Number of successful requests. */
  readonly succeeded: number
  /** Number of requests without effect: refused, or sent while the server was down. */
  readonly refused: number
  /** Number of writes with an unknown outcome. */
  readonly unknown: number
}

type Lane = 'write' | 'read' | 'controller'

/** Measures the longest time without a success. */
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

  /** Records the end of a request. */
  request(outcome: 'succeeded' | 'refused' | 'unknown', tookMs: number): void {
    this.#counts[outcome] += 1
    this.#requestMs = Math.max(this.#requestMs, tookMs)
  }

  /** Returns the measurements since the last reading and resets them. */
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
