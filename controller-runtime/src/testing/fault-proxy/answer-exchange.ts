import http, { type ClientRequest, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Clock } from '../../clock.ts'
import { type Decoder, eventStreamDecoder, lineDecoder, passThrough } from './event-decoder.ts'
import { Flow, type FlowEnd } from './flow.ts'
import { headersFor, statusBody } from './headers.ts'
import type { Exchange, Lane } from './lane.ts'

export interface AnswerExchangeOptions {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly lane: Lane
  readonly target: URL
  readonly clock: Clock
}

/** A request and its answer. */
export class AnswerExchange implements Exchange {
  readonly #options: AnswerExchangeOptions
  readonly #flows: Flow[] = []
  #upstream: ClientRequest | undefined
  #held: boolean
  /** The client, or the server, has gone while this was held. */
  #isBroken = false
  #over = false

  constructor(options: AnswerExchangeOptions) {
    this.#options = options
    const { response, lane } = options
    this.#held = lane.holdsNew
    lane.enter(this)
    response.on('close', () => {
      this.#isBroken = true
      if (!this.#held) this.#end()
    })
    if (!this.#held) this.#forward()
  }

  cut(): void {
    this.#options.request.socket.resetAndDestroy()
    this.#end()
  }

  hold(): void {
    this.#held = true
    for (const flow of this.#flows) flow.hold()
  }

  release(): void {
    if (!this.#held) return
    this.#held = false
    if (this.#isBroken) this.cut()
    else if (this.#upstream === undefined) this.#forward()
    else for (const flow of this.#flows) flow.release()
  }

  #forward(): void {
    const { request, lane, target, clock } = this.#options
    const upstream = http.request({
      host: target.hostname.replace(/^\[|\]$/g, ''),
      port: target.port || 80,
      method: request.method ?? 'GET',
      path: request.url ?? '/',
      headers: headersFor(request, target, lane.change !== undefined),
      agent: false,
    })
    this.#upstream = upstream
    upstream.on('error', () => {
      if (!this.#over) this.#broken()
    })
    upstream.on('response', answer => this.#answer(answer))
    this.#flows.push(
      new Flow({
        source: request,
        sink: upstream,
        clock,
        decoder: passThrough,
        faults: noFaults,
        held: this.#held,
        onEnd: end => (end === 'whole' ? upstream.end() : upstream.destroy()),
      }),
    )
  }

  #answer(answer: IncomingMessage): void {
    const { response, lane, clock } = this.#options
    const { statusCode = 502, statusMessage = '' } = answer
    this.#flows.push(
      new Flow({
        source: answer,
        sink: response,
        clock,
        decoder: decoderOf(lane, answer),
        faults: lane,
        held: this.#held,
        begin: () => {
          response.writeHead(statusCode, statusMessage, answerHeaders(answer))
          response.flushHeaders()
        },
        onEnd: end => this.#answered(end),
      }),
    )
  }

  #answered(end: FlowEnd): void {
    const { request, response } = this.#options
    if (end === 'whole') response.end()
    else if (end === 'truncated') {
      request.socket.end()
      this.#end()
    } else this.#broken()
  }

  /** The server, or what is between, broke the connection: while held, nobody is told. */
  #broken(): void {
    if (this.#held) this.#isBroken = true
    else this.cut()
  }

  #end(): void {
    if (this.#over) return
    this.#over = true
    this.#options.lane.leave(this)
    for (const flow of this.#flows) flow.stop()
    this.#upstream?.destroy()
  }
}

/** Answers a request in the server's place. */
export function refuseAnswer(
  request: IncomingMessage,
  response: ServerResponse,
  lane: Lane,
  how: number | 'connection',
): void {
  lane.total += 1
  if (how === 'connection') {
    request.socket.resetAndDestroy()
    return
  }
  request.resume()
  response.writeHead(how, { 'content-type': 'application/json', 'retry-after': '1' })
  response.end(statusBody(how))
}

const noFaults = { delayMs: 0, truncation: undefined }

function decoderOf({ change }: Lane, { headers, statusCode }: IncomingMessage): Decoder {
  if (change === undefined || statusCode !== 200) return passThrough
  return headers['content-type']?.startsWith('text/event-stream')
    ? eventStreamDecoder(change)
    : lineDecoder(change)
}

/** As the server sent them, but for those that speak of its own connection. */
function answerHeaders({ rawHeaders }: IncomingMessage): string[] {
  const result: string[] = []
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? ''
    if (['connection', 'keep-alive', 'transfer-encoding'].includes(name.toLowerCase())) continue
    result.push(name, rawHeaders[at + 1] ?? '')
  }
  return result
}
