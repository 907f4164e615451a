/** Defaults of the stream of results. */
export const resultsDefaults = Object.freeze({
  /** Reports buffered per reader; about a second of a busy controller. */
  buffer: 1_000,
})

/** The result of one run. */
export interface ReconcileReport {
  /** The object's name. */
  readonly object: string
  /**
   * `stale`: requeued because a cache did not show the controller's own last write in time. `notLeader`: requeued
   * because this process may no longer act as the leader.
   */
  readonly outcome: 'success' | 'error' | 'terminalError' | 'stale' | 'notLeader'
  /** 1, plus the number of consecutive failures before it. */
  readonly attempt: number
  readonly reconcileId: string
  readonly durationMs: number
  /** Ms until the object is requeued if it does not change before; undefined: it is not requeued. */
  readonly nextRunInMs: number | undefined
  /** The error of the run. */
  readonly error: unknown
}

/** A stream of reports, from the call of `results()` until the controller stops. */
export interface ReconcileResults extends AsyncIterableIterator<ReconcileReport> {
  /** Number of reports dropped because the buffer was full; the oldest are dropped first. */
  readonly dropped: number
}

/** Sends reports to any number of readers. Each has a buffer that drops its oldest, so readers block nothing. */
export class ResultFanOut {
  readonly #readers = new Set<ResultReader>()
  #ended = false

  /** True if there is a reader. */
  get hasReaders(): boolean {
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

  /** Ends all streams; buffered reports can still be read. */
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
