import http, { type ClientRequest, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Clock } from '../../clock.ts'
import { type Decoder, eventStreamDecoder, lineDecoder, passThrough } from './event-decoder.ts'
import type { FaultInjector } from './fault-injector.ts'
import { Flow, type FlowEnd } from './flow.ts'
import { headersFor, statusBody } from './headers.ts'
import { HeldExchange } from './held-exchange.ts'

interface HttpExchangeOptions {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly injector: FaultInjector
  readonly target: URL
  readonly clock: Clock
}

/** A request and its response. */
export class HttpExchange extends HeldExchange {
  readonly #options: HttpExchangeOptions

  constructor(options: HttpExchangeOptions) {
    super(options.injector)
    this.#options = options
    options.response.on('close', () => this.clientClosed())
    this.begin()
  }

  cut(): void {
    this.#options.request.socket.resetAndDestroy()
    this.end()
  }

  protected forward(): ClientRequest {
    const { request, injector, target, clock } = this.#options
    const upstream = http.request({
      host: target.hostname.replace(/^\[|\]$/g, ''),
      port: target.port || 80,
      method: request.method ?? 'GET',
      path: request.url ?? '/',
      headers: headersFor(request, target, injector.change !== undefined),
      agent: false,
    })
    upstream.on('error', () => {
      if (!this.isOver) this.serverBroke()
    })
    upstream.on('response', incoming => this.#onResponse(incoming))
    this.addFlow(
      new Flow({
        source: request,
        sink: upstream,
        clock,
        decoder: passThrough,
        faults: noFaults,
        held: this.isHeld,
        onEnd: end => (end === 'whole' ? upstream.end() : upstream.destroy()),
      }),
    )
    return upstream
  }

  #onResponse(incoming: IncomingMessage): void {
    const { response, injector, clock } = this.#options
    const { statusCode = 502, statusMessage = '' } = incoming
    this.addFlow(
      new Flow({
        source: incoming,
        sink: response,
        clock,
        decoder: decoderOf(injector, incoming),
        faults: injector,
        held: this.isHeld,
        begin: () => {
          response.writeHead(statusCode, statusMessage, responseHeaders(incoming))
          response.flushHeaders()
        },
        onEnd: end => this.#onResponseEnd(end),
      }),
    )
  }

  #onResponseEnd(end: FlowEnd): void {
    const { request, response } = this.#options
    if (end === 'whole') response.end()
    else if (end === 'truncated') {
      request.socket.end()
      this.end()
    } else this.serverBroke()
  }
}

/** Responds to a request in place of the server. */
export function refuseRequest(
  request: IncomingMessage,
  response: ServerResponse,
  injector: FaultInjector,
  how: number | 'connection',
): void {
  injector.total += 1
  if (how === 'connection') {
    request.socket.resetAndDestroy()
    return
  }
  request.resume()
  response.writeHead(how, { 'content-type': 'application/json', 'retry-after': '1' })
  response.end(statusBody(how))
}

const noFaults = { delayMs: 0, truncation: undefined }

function decoderOf({ change }: FaultInjector, { headers, statusCode }: IncomingMessage): Decoder {
  if (change === undefined || statusCode !== 200) return passThrough
  return headers['content-type']?.startsWith('text/event-stream')
    ? eventStreamDecoder(change)
    : lineDecoder(change)
}

/** Returns the server's headers without those of its own connection. */
function responseHeaders({ rawHeaders }: IncomingMessage): string[] {
  const result: string[] = []
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? ''
    if (['connection', 'keep-alive', 'transfer-encoding'].includes(name.toLowerCase())) continue
    result.push(name, rawHeaders[at + 1] ?? '')
  }
  return result
}
