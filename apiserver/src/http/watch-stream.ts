import type { ServerResponse } from 'node:http'
import type { WatchEnd } from '@setpoint/controller-runtime/internal'
import { type FrameCodec, lines, serverSentEvents, type WatchSink } from '../watch/index.ts'

/** The two forms of a watch over plain HTTP: one JSON document per line, or Server-Sent Events. */
export type StreamForm = 'lines' | 'events'

export const streamDefaults = Object.freeze({
  /** Milliseconds between comments on an event stream: below the usual idle time-outs of proxies. */
  commentMs: 25_000,
  /** Milliseconds for a client to read the rest of an ended stream: as long as `ws` waits for a close. */
  closeMs: 30_000,
})

const comment = ': still here\n\n'

/** Writes the events of a watch to an HTTP response. */
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
      // nginx would buffer events.
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

  /** HTTP has no close codes. The last event has the reason, or the client learns it when it resumes. */
  end(_end: WatchEnd): void {
    clearInterval(this.#comments)
    const response = this.#response
    response.end()
    // A client that reads nothing would keep the backlog and the connection open forever.
    const timer = setTimeout(() => response.destroy(), streamDefaults.closeMs)
    timer.unref()
    response.once('close', () => clearTimeout(timer))
  }
}
