import type { Readable, Writable } from 'node:stream'
import type { CancelTimer, Clock } from '../../clock.ts'
import type { Decoder } from './event-decoder.ts'
import type { Truncation } from './fault-injector.ts'

/** Limits of the proxy's buffers. */
export const flowDefaults = Object.freeze({
  /** Bytes buffered per direction of an exchange while delayed, or while the receiver is slow. */
  bufferBytes: 256 * 1024,
})

/** The faults of a flow; read for each chunk. */
interface FlowFaults {
  readonly delayMs: number
  truncation: Truncation | undefined
}

interface FlowOptions {
  readonly source: Readable
  readonly sink: Writable
  readonly clock: Clock
  readonly decoder: Decoder
  readonly faults: FlowFaults
  readonly held: boolean
  /** Called before the first byte is written. */
  readonly begin?: () => void
  /** Called once, after the last byte was written, with how the source ended. */
  readonly onEnd: (end: FlowEnd) => void
}

/** `whole`: a normal end. `broken`: the connection was lost. `truncated`: by a fault. */
export type FlowEnd = 'whole' | 'broken' | 'truncated'

/**
 * One direction of an exchange: bytes in order, each with a due time, as fast as the sink accepts them.
 *
 *     source ──decoder──▶ queue (bounded: the source is paused) ──due, not held, sink has room──▶ sink
 */
export class Flow {
  readonly #options: FlowOptions
  readonly #queue: { readonly bytes: Buffer; readonly counts: boolean; readonly due: number }[] = []
  #queuedBytes = 0
  #begun = false
  readonly #beginDue: number
  #held: boolean
  #sinkIsFull = false
  #cancelTimer: CancelTimer | undefined
  /** The end of the source, once it has ended. */
  #end: { readonly how: 'whole' | 'broken'; readonly due: number } | undefined
  #over = false
  #truncation: Truncation | undefined
  #left = 0

  constructor(options: FlowOptions) {
    this.#options = options
    this.#held = options.held
    this.#beginDue = this.#due()
    const { source, sink } = options
    source.on('data', (chunk: Buffer) => this.#take(chunk))
    source.on('end', () => this.#sourceEnded('whole'))
    source.on('close', () => this.#sourceEnded('broken'))
    // An error is followed by `close`.
    source.on('error', () => {})
    sink.on('error', () => {})
    sink.on('drain', () => {
      this.#sinkIsFull = false
      this.#run()
    })
    if (this.#held) source.pause()
    this.#run()
  }

  hold(): void {
    this.#held = true
    this.#options.source.pause()
  }

  release(): void {
    this.#held = false
    this.#run()
  }

  /** Stops writing. */
  stop(): void {
    this.#over = true
    this.#cancelTimer?.()
    this.#queue.length = 0
    // Drains the source, so that its end is noticed.
    this.#options.source.resume()
  }

  #take(chunk: Buffer): void {
    if (this.#over) return
    const { source, decoder } = this.#options
    for (const { bytes, counts } of decoder.take(chunk)) this.#push(bytes, counts)
    if (this.#queuedBytes >= flowDefaults.bufferBytes) source.pause()
    this.#run()
  }

  #push(bytes: Buffer, counts: boolean): void {
    this.#queue.push({ bytes, counts, due: this.#due() })
    this.#queuedBytes += bytes.length
  }

  #due(): number {
    const { clock, faults } = this.#options
    return faults.delayMs > 0 ? clock.monotonic() + faults.delayMs : 0
  }

  #sourceEnded(how: 'whole' | 'broken'): void {
    if (this.#end !== undefined || this.#over) return
    for (const { bytes, counts } of this.#options.decoder.end()) this.#push(bytes, counts)
    this.#end = { how, due: this.#due() }
    this.#run()
  }

  #run(): void {
    if (!this.#begun && !this.#held && !this.#over) {
      if (this.#wait(this.#beginDue)) return
      this.#begun = true
      this.#options.begin?.()
    }
    while (!this.#over && !this.#held && !this.#sinkIsFull) {
      const [next] = this.#queue
      if (next === undefined) break
      if (this.#wait(next.due)) return
      this.#queue.shift()
      this.#queuedBytes -= next.bytes.length
      this.#write(next.bytes, next.counts)
    }
    if (this.#over || this.#held || this.#sinkIsFull) return
    if (this.#end === undefined) this.#options.source.resume()
    else if (!this.#wait(this.#end.due)) this.#finish(this.#end.how)
  }

  /** Returns true if the time is in the future; a timer then continues. */
  #wait(due: number): boolean {
    const { clock } = this.#options
    if (due <= clock.monotonic()) return false
    this.#cancelTimer?.()
    this.#cancelTimer = clock.setTimeout(() => this.#run(), due - clock.monotonic(), { unref: true })
    return true
  }

  #write(bytes: Buffer, counts: boolean): void {
    const { sink, faults } = this.#options
    const { truncation } = faults
    if (truncation !== this.#truncation) {
      this.#truncation = truncation
      this.#left = truncation?.bytes ?? 0
    }
    if (truncation === undefined || !counts || bytes.length < this.#left) {
      if (counts) this.#left -= bytes.length
      this.#sinkIsFull = !sink.write(bytes)
      return
    }
    if (this.#left > 0) sink.write(bytes.subarray(0, this.#left))
    if (truncation.times === 'once') faults.truncation = undefined
    this.#finish('truncated')
  }

  #finish(end: FlowEnd): void {
    this.stop()
    this.#options.onEnd(end)
  }
}
