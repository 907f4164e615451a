import type { IncomingMessage } from 'node:http'
import type { WebSocket } from 'ws'
import type { Clock } from '../clock.ts'
import { decodeError, flattenHeaders } from './decode.ts'
import { FrameQueue } from './frame-queue.ts'
import { httpTransportDefaults } from './http-transport-options.ts'
import { InactivityTimer } from './inactivity-timer.ts'
import { TransportError, type WatchConnection, type WatchEnd } from './transport.ts'

/** One watch over a WebSocket, which is paused while its reader is slow, and closed after a silence. */
export class WebSocketWatch implements WatchConnection {
  /** Rejects with the refusal, or if the server cannot be reached. */
  readonly opened: Promise<void>
  readonly end: Promise<WatchEnd>
  readonly #socket: WebSocket
  readonly #clock: Clock
  readonly #frames: FrameQueue
  #localEnd: WatchEnd | undefined

  constructor(socket: WebSocket, clock: Clock, idleTimeoutMs: number) {
    this.#socket = socket
    this.#clock = clock
    let guard: InactivityTimer | undefined
    const startGuard = () => {
      guard?.cancel()
      guard = new InactivityTimer(clock, idleTimeoutMs, () => {
        this.#terminate(`no ping or event for ${idleTimeoutMs} ms`)
      })
    }
    this.#frames = new FrameQueue(
      httpTransportDefaults.frameQueueLength,
      () => {
        // While the socket is paused, silence says nothing about the server.
        guard?.cancel()
        socket.pause()
      },
      () => {
        if (socket.readyState !== socket.OPEN) return
        startGuard()
        socket.resume()
      },
    )
    this.opened = new Promise((resolve, reject) => {
      socket.once('open', () => {
        startGuard()
        resolve()
      })
      socket.once('unexpected-response', (_request, response) => {
        void readRefusal(response).then(error => {
          reject(error)
          socket.terminate()
        })
      })
      // Stays for the life of the socket: an unhandled `error` event would end the process.
      socket.on('error', error => {
        reject(new TransportError(`watch ${socket.url}: ${error.message || error.name}`, { cause: error }))
      })
    })
    // The caller of `watch` handles the rejection; errors after `open` reject nothing.
    this.opened.catch(() => {})
    this.end = new Promise(resolve => {
      socket.once('close', (code, reason) => {
        guard?.cancel()
        this.#frames.end()
        resolve(this.#localEnd ?? { code, reason: reason.toString('utf8') })
      })
    })
    socket.on('ping', () => guard?.seen())
    socket.on('message', data => {
      guard?.seen()
      this.#frames.push(Array.isArray(data) ? Buffer.concat(data).toString('utf8') : textOf(data))
    })
  }

  close(): void {
    this.#localEnd ??= { code: 1000, reason: 'closed by the client' }
    this.#frames.end()
    if (this.#socket.readyState === this.#socket.OPEN && !this.#socket.isPaused) {
      this.#socket.close(1000)
      this.#clock.setTimeout(() => this.#socket.terminate(), httpTransportDefaults.closeTimeoutMs, {
        unref: true,
      })
    } else if (this.#socket.readyState !== this.#socket.CLOSING) {
      this.#socket.terminate()
    }
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<string, void> {
    try {
      for (;;) {
        const frame = await this.#frames.next()
        if (frame === undefined) return
        yield frame
      }
    } finally {
      this.close()
    }
  }

  #terminate(reason: string): void {
    this.#localEnd ??= { code: 1006, reason }
    this.#socket.terminate()
  }
}

function textOf(data: Buffer | ArrayBuffer): string {
  return (Buffer.isBuffer(data) ? data : Buffer.from(data)).toString('utf8')
}

async function readRefusal(response: IncomingMessage): Promise<Error> {
  const chunks: Buffer[] = []
  let bytes = 0
  try {
    for await (const chunk of response) {
      const part = Buffer.from(chunk)
      bytes += part.length
      if (bytes > httpTransportDefaults.maxRefusalBytes) break
      chunks.push(part)
    }
  } catch {
    // A partial body is enough: the status code identifies the error.
  }
  return decodeError({
    status: response.statusCode ?? 0,
    headers: flattenHeaders(response.headers),
    body: Buffer.concat(chunks).toString('utf8'),
  })
}
