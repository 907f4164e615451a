import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import type { WatchEnd } from '@setpoint/controller-runtime'
import { type WebSocket, WebSocketServer } from 'ws'
import type { ModelCache } from '../cache/index.ts'
import type { WatchHub, WatchRequest, WatchSink } from '../watch/index.ts'

export const socketDefaults = Object.freeze({
  /** Milliseconds between pings: below the idle time-outs of ordinary load balancers (50 to 60 s). */
  pingMs: 25_000,
  /** Bytes of one message from a client: nothing but control frames is expected on a watch. */
  maxMessageBytes: 64 * 1024,
  /** Characters of the reason in a close frame (RFC 6455: 123 bytes). */
  maxReason: 120,
})

/**
 * The WebSocket end of watches: one socket, one watch, one text frame an event. A socket that has not answered the
 * last ping when the next is due is dead and is dropped, unless it has taken some of what the ping waits behind.
 */
export class WatchSockets {
  readonly #hub: WatchHub
  readonly #server = new WebSocketServer({
    noServer: true,
    perMessageDeflate: false,
    maxPayload: socketDefaults.maxMessageBytes,
    // One event is one frame already; there is no protocol to choose on a single watch.
    handleProtocols: () => false,
  })
  readonly #pings: NodeJS.Timeout
  readonly #answered = new WeakSet<WebSocket>()
  /** Those to which more was on its way at the last ping than the kernel took: what they take now, they acknowledge. */
  readonly #backedUp = new WeakSet<WebSocket>()

  /** `refuse` answers a handshake that is malformed. */
  constructor(hub: WatchHub, refuse: (socket: Duplex, why: string) => void) {
    this.#hub = hub
    this.#server.on('wsClientError', (error, socket) => refuse(socket, error.message))
    this.#pings = setInterval(() => this.#ping(), socketDefaults.pingMs)
    this.#pings.unref()
  }

  /**
   * Completes the upgrade and serves the watch until either side ends it.
   * @returns false where the handshake was malformed and has been refused.
   */
  accept(
    message: IncomingMessage,
    socket: Duplex,
    head: Buffer,
    cache: ModelCache,
    request: WatchRequest,
    present: Parameters<WatchHub['open']>[3],
  ): boolean {
    let upgraded = false
    this.#server.handleUpgrade(message, socket, head, client => {
      upgraded = true
      this.#answered.add(client)
      client.on('pong', () => this.#answered.add(client))
      const sink = new SocketSink(client)
      const watch = this.#hub.open(cache, request, sink, present)
      sink.onDrained = () => {
        if (this.#backedUp.has(client)) this.#answered.add(client)
        watch.drained()
      }
      client.on('close', () => watch.close())
      // A broken frame or connection: ws closes the socket itself and 'close' follows.
      client.on('error', () => {})
    })
    return upgraded
  }

  /** Drops what has not closed by itself. */
  close(): void {
    clearInterval(this.#pings)
    for (const client of this.#server.clients) client.terminate()
  }

  #ping(): void {
    for (const client of this.#server.clients) {
      if (!this.#answered.delete(client)) client.terminate()
      else {
        if (client.bufferedAmount > 0) this.#backedUp.add(client)
        else this.#backedUp.delete(client)
        if (client.readyState === client.OPEN) client.ping()
      }
    }
  }
}

class SocketSink implements WatchSink {
  onDrained: (() => void) | undefined
  readonly #client: WebSocket
  readonly #sent = () => this.onDrained?.()

  constructor(client: WebSocket) {
    this.#client = client
  }

  get backlog(): number {
    return this.#client.bufferedAmount
  }

  send(frame: Buffer): void {
    this.#client.send(frame, { binary: false }, this.#sent)
  }

  end({ code, reason }: WatchEnd): void {
    this.#client.close(code, reason.slice(0, socketDefaults.maxReason))
  }
}
