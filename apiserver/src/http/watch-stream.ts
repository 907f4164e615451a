import type { ServerResponse } from 'node:http'
import type { WatchEnd } from '@setpoint/controller-runtime/internal'
import { loadProtobufResponses, protobufType } from '../kubernetes/index.ts'
import { type FrameCodec, lines, serverSentEvents, type WatchSink } from '../watch/index.ts'

/** The forms of a watch over plain HTTP: one JSON document per line, Server-Sent Events, or Kubernetes' protobuf. */
export type StreamForm = 'lines' | 'events' | 'protobuf'

const contentTypes: Readonly<Record<StreamForm, string>> = Object.freeze({
  lines: 'application/json',
  events: 'text/event-stream',
  protobuf: `${protobufType};stream=watch`,
})

/** Returns the codec of a form. Loads that of protobuf when it is first needed. */
export async function codecOf(form: StreamForm): Promise<FrameCodec> {
  if (form === 'protobuf') return (await loadProtobufResponses()).protobufFrames
  return form === 'events' ? serverSentEvents : lines
}

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

  constructor(response: ServerResponse, form: StreamForm, codec: FrameCodec) {
    this.codec = codec
    this.#response = response
    response.writeHead(200, {
      'content-type': contentTypes[form],
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
