import { type Clock, systemClock } from '@setpoint/controller-runtime'

export const outputDefaults = Object.freeze({
  /** Bytes that wait for a reader of standard error: some thousand lines. */
  bufferBytes: 1024 * 1024,
  /** Milliseconds that an exit waits until the last lines are read. */
  flushMs: 1_000,
})

/** Where lines are written, such as `process.stderr`. The callback reports when a write has finished or failed. */
export interface LogStream {
  write(chunk: Uint8Array, callback: (error?: Error | null) => void): unknown
}

/**
 * Writes lines to a stream and drops them when too many bytes are waiting.
 *
 * `process.stderr` suits: pipes and sockets do not block it. Writes through `fs.write`, as pino's own destination
 * makes, occupy a thread of libuv's pool while no one reads, and the exit of the process waits for that thread.
 */
export class LogOutput {
  readonly #stream: LogStream
  readonly #clock: Clock
  readonly #recovered: (dropped: number) => void
  #waitingBytes = 0
  #dropped = 0
  #unreported = 0
  readonly #flushes = new Set<() => void>()

  /** `recovered` is called when the buffer is empty again, with the number of lines dropped since the last call. */
  constructor(options: { stream: LogStream; recovered: (dropped: number) => void; clock?: Clock }) {
    this.#stream = options.stream
    this.#recovered = options.recovered
    this.#clock = options.clock ?? systemClock
  }

  /** Lines dropped since the start. */
  get dropped(): number {
    return this.#dropped
  }

  write(line: string): void {
    const bytes = Buffer.from(line)
    if (this.#waitingBytes + bytes.length > outputDefaults.bufferBytes) {
      this.#dropped++
      this.#unreported++
      return
    }
    this.#waitingBytes += bytes.length
    this.#stream.write(bytes, error => {
      this.#waitingBytes -= bytes.length
      // Not reported: the report would be lost too, and reported again.
      if (error) this.#dropped++
      if (this.#waitingBytes === 0) this.#emptied()
    })
  }

  /** Resolves when every line is written, at the latest after `flushMs`. */
  flush(): Promise<void> {
    if (this.#waitingBytes === 0) return Promise.resolve()
    return new Promise(resolve => {
      const done = () => {
        cancel()
        this.#flushes.delete(done)
        resolve()
      }
      const cancel = this.#clock.setTimeout(done, outputDefaults.flushMs)
      this.#flushes.add(done)
    })
  }

  #emptied(): void {
    const dropped = this.#unreported
    this.#unreported = 0
    if (dropped > 0) this.#recovered(dropped)
    if (this.#waitingBytes === 0) for (const done of [...this.#flushes]) done()
  }
}
