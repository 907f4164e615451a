import type { FrameCodec, WatchSink, WireEvent } from '../watch/index.ts'
import type { ObjectView } from './object-view.ts'

/** Sends the events of a watch in a view. Errors stay as they are. */
export class ViewSink implements WatchSink {
  readonly #sink: WatchSink
  readonly #first: FrameCodec
  readonly #later: FrameCodec
  #hasWritten = false

  constructor(sink: WatchSink, view: ObjectView) {
    this.#sink = sink
    this.#later = codecOf(sink.codec, view.key, object => view.event(object))
    // Never encodes again after the first write. Sinks that begin with the same event may share its bytes.
    let isFirst = true
    this.#first = codecOf(sink.codec, `first ${view.key}`, object => {
      const form = isFirst ? view.object(object) : view.event(object)
      isFirst = false
      return form
    })
  }

  get codec(): FrameCodec {
    return this.#hasWritten ? this.#later : this.#first
  }

  get backlog(): number {
    return this.#sink.backlog
  }

  write(bytes: Buffer): void {
    this.#hasWritten = true
    this.#sink.write(bytes)
  }

  end(end: Parameters<WatchSink['end']>[0]): void {
    this.#sink.end(end)
  }
}

function codecOf(codec: FrameCodec, key: string, formOf: (object: Buffer) => Buffer): FrameCodec {
  return {
    key: `${codec.key} ${key}`,
    encode(event: WireEvent, pieces: Buffer[]) {
      codec.encode(event.type === 'ERROR' ? event : { ...event, object: formOf(event.object) }, pieces)
    },
  }
}
