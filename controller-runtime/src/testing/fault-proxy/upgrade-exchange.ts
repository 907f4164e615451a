import { type IncomingMessage, STATUS_CODES } from 'node:http'
import { connect, type Socket } from 'node:net'
import type { Clock } from '../../clock.ts'
import { passThrough, UpgradeDecoder, webSocketDecoder } from './event-decoder.ts'
import type { FaultInjector } from './fault-injector.ts'
import { Flow, type FlowEnd } from './flow.ts'
import { headersFor, statusBody } from './headers.ts'
import { HeldExchange } from './held-exchange.ts'

interface UpgradeExchangeOptions {
  readonly request: IncomingMessage
  readonly client: Socket
  /** Bytes that the client has sent after its request. */
  readonly head: Buffer
  readonly injector: FaultInjector
  readonly target: URL
  readonly clock: Clock
}

/** An upgraded connection, from its request to its end. */
export class UpgradeExchange extends HeldExchange {
  readonly #options: UpgradeExchangeOptions
  #upstream: Socket | undefined

  constructor(options: UpgradeExchangeOptions) {
    super(options.injector)
    this.#options = options
    const { client } = options
    client.on('error', () => {})
    client.on('close', () => this.clientClosed())
    this.begin()
  }

  cut(): void {
    this.#options.client.resetAndDestroy()
    this.#upstream?.resetAndDestroy()
    this.end()
  }

  protected forward(): Socket {
    const { request, client, head, injector, target, clock } = this.#options
    const upstream = connect(Number(target.port || 80), target.hostname.replace(/^\[|\]$/g, ''))
    this.#upstream = upstream
    upstream.setNoDelay(true)
    upstream.write(requestHead(request, headersFor(request, target, false)))
    if (head.length > 0) upstream.write(head)
    const { change } = injector
    const upgraded = () => (change === undefined ? passThrough : webSocketDecoder(change))
    const common = { clock, held: this.isHeld }
    this.addFlow(
      new Flow({
        ...common,
        source: client,
        sink: upstream,
        decoder: passThrough,
        faults: { delayMs: 0, truncation: undefined },
        onEnd: end => (end === 'whole' ? upstream.end() : upstream.destroy()),
      }),
    )
    this.addFlow(
      new Flow({
        ...common,
        source: upstream,
        sink: client,
        decoder: new UpgradeDecoder(upgraded),
        faults: injector,
        onEnd: end => this.#onResponseEnd(end),
      }),
    )
    return upstream
  }

  #onResponseEnd(end: FlowEnd): void {
    if (end === 'broken') this.cut()
    else {
      this.#options.client.end()
      if (end === 'truncated') this.end()
    }
  }
}

/** Responds to an upgrade in place of the server. */
export function refuseUpgrade(client: Socket, injector: FaultInjector, how: number | 'connection'): void {
  injector.total += 1
  client.on('error', () => {})
  if (how === 'connection') {
    client.resetAndDestroy()
    return
  }
  const body = statusBody(how)
  client.end(
    `HTTP/1.1 ${how} ${STATUS_CODES[how] ?? 'Refused'}\r\nContent-Type: application/json\r\nRetry-After: 1\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  )
}

function requestHead({ method, url }: IncomingMessage, headers: readonly string[]): string {
  let text = `${method} ${url} HTTP/1.1\r\n`
  for (let at = 0; at + 1 < headers.length; at += 2) text += `${headers[at]}: ${headers[at + 1]}\r\n`
  return `${text}\r\n`
}
