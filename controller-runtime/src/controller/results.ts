/** Bounds of the stream of results. */
export const resultsDefaults = Object.freeze({
  /** Reports that wait for a reader; a second of a busy controller. */
  buffer: 1_000,
})

/** How a run of one object ended. */
export interface ReconcileReport {
  /** The object's name. */
  readonly object: string
  /**
   * `stale`: put off, because a cache did not show the controller's own last write in time. `fenced`: put off, because
   * this process may no longer act as the leader.
   */
  readonly outcome: 'success' | 'error' | 'terminalError' | 'stale' | 'fenced'
  /** 1, and one more for each failure in a row before it. */
  readonly attempt: number
  readonly reconcileId: string
  readonly durationMs: number
  /** In how long the object is due again, where nothing happens to it before; undefined: not of itself. */
  readonly nextRunInMs: number | undefined
  /** What the run threw. */
  readonly error: unknown
}

/** Reports of a controller's runs, from the call of `results()` on, until the controller stops. */
export interface ReconcileResults extends AsyncIterableIterator<ReconcileReport> {
  /** Reports that were dropped because nobody read them in time: the oldest of them first. */
  readonly dropped: number
}

/** Hands reports to any number of readers. Nobody waits for them: each has a buffer, which drops its oldest. */
export class ResultFanOut {
  readonly #readers = new Set<ResultReader>()
  #ended = false

  /** Whether anybody wants reports. */
  get isHeard(): boolean {
    return this.#readers.size > 0
  }

  open(buffer: number): ReconcileResults {
    const reader = new ResultReader(buffer, () => this.#readers.delete(reader))
    if (this.#ended) reader.end()
    else this.#readers.add(reader)
    return reader
  }

  push(report: ReconcileReport): void {
    for (const reader of this.#readers) reader.push(report)
  }

  /** No more come; what is in the buffers can still be read. */
  end(): void {
    this.#ended = true
    for (const reader of this.#readers) reader.end()
    this.#readers.clear()
  }
}

class ResultReader implements ReconcileResults {
  readonly #size: number
  readonly #close: () => void
  readonly #buffer: ReconcileReport[] = []
  readonly #waiting: ((result: IteratorResult<ReconcileReport>) => void)[] = []
  #dropped = 0
  #ended = false

  constructor(size: number, close: () => void) {
    this.#size = size
    this.#close = close
  }

  get dropped(): number {
    return this.#dropped
  }

  push(report: ReconcileReport): void {
    const waiting = this.#waiting.shift()
    if (waiting !== undefined) {
      waiting({ value: report, done: false })
      return
    }
    if (this.#buffer.length >= this.#size) {
      this.#buffer.shift()
      this.#dropped++
    }
    this.#buffer.push(report)
  }

  end(): void {
    this.#ended = true
    for (const waiting of this.#waiting.splice(0)) waiting({ value: undefined, done: true })
  }

  next(): Promise<IteratorResult<ReconcileReport>> {
    const value = this.#buffer.shift()
    if (value !== undefined) return Promise.resolve({ value, done: false })
    if (this.#ended) return Promise.resolve({ value: undefined, done: true })
    return new Promise(resolve => this.#waiting.push(resolve))
  }

  return(): Promise<IteratorResult<ReconcileReport>> {
    this.#close()
    this.#buffer.length = 0
    this.end()
    return Promise.resolve({ value: undefined, done: true })
  }

  [Symbol.asyncIterator](): this {
    return this
  }
}
