import type { WatchEnd } from '@setpoint/controller-runtime/internal'
import { type FrameCodec, type WatchSink, webSocketFrames } from '../watch/index.ts'
import type { WatchConnection } from './watch-connection.ts'

/** Writes the events of one watch to a WebSocket, which closes with the watch. */
export class SocketSink implements WatchSink {
  readonly codec: FrameCodec = webSocketFrames
  readonly #connection: WatchConnection

  constructor(connection: WatchConnection) {
    this.#connection = connection
  }

  get backlog(): number {
    return this.#connection.backlog
  }

  write(frames: Buffer): void {
    this.#connection.write(frames)
  }

  end(end: WatchEnd): void {
    this.#connection.close(end)
  }
}
