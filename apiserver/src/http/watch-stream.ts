import type { ServerResponse } from 'node:http'
import type { WatchEnd } from '@setpoint/controller-runtime/internal'
import { type FrameCodec, lines, serverSentEvents, type WatchSink } from '../watch/index.ts'

/** The two forms of a watch over plain HTTP: one JSON document a line, or Server-Sent Events. */
export type StreamForm = 'lines' | 'events'

export const streamDefaults = Object.freeze({
  /** Milliseconds between comments on an event stream: below the idle time-outs of ordinary proxies. */
  commentMs: 25_000,
  /** Milliseconds that a client has to take what was sent before the end; WebSocket gives it as long. */
  closeMs: 30_000,
})

const comment = ': still here\n\n'

/** The HTTP end of a watch. A client that goes away is noticed by the connection's close. */
export class StreamSink implements WatchSink {
  readonly codec: FrameCodec
  readonly #response: ServerResponse
  readonly #comments: NodeJS.Timeout | undefined

  constructor(response: ServerResponse, form: StreamForm) {
    this.codec = form === 'events' ? serverSentEvents : lines
    this.#response = response
    response.writeHead(200, {
      'content-type': form === 'events' ? 'text/event-stream' : 'application/json',
      'cache-control': 'no-cache, private',
      // Proxies that collect answers would hold events back.
      'x-accel-buffering': 'no',
    })
    response.flushHeaders()
    if (form === 'events') {
      this.#comments = setInterval(() => response.write(comment), streamDefaults.commentMs)
      this.#comments.unref()
      response.on('close', () => clearInterval(this.#comments))
    }
  }

  get backlog(): number {
    return this.#response.writableLength
  }

  write(bytes: Buffer): void {
    this.#response.write(bytes)
  }

  /** HTTP has no close codes: why it ended is in the last event, or the client resumes and is told. */
  end(_end: WatchEnd): void {
    clearInterval(this.#comments)
    const response = this.#response
    response.end()
    // One that takes nothing would keep its whole backlog, and its connection, for ever.
    const timer = setTimeout(() => response.destroy(), streamDefaults.closeMs)
    timer.unref()
    response.once('close', () => clearTimeout(timer))
  }
}
