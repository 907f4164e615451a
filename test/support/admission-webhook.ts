import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer, type Server } from 'node:https'
import { text } from 'node:stream/consumers'
import type { Certificates } from './certificates.ts'
import { type Fields, fieldsOf, textOf } from './json.ts'

/** An AdmissionReview that a webhook has got. */
export interface Review {
  readonly apiVersion: string
  readonly request: Fields
  /** The path and query of the request. */
  readonly url: string
  readonly headers: IncomingMessage['headers']
}

/** What a webhook responds with, besides its uid. */
export type Respond = (review: Review) => Fields | Promise<Fields>

/** Responds to a request in any way. */
export type Raw = (response: ServerResponse, review: Review) => void

/** A webhook for admission over HTTPS on 127.0.0.1, with a certificate of the test's own authority. */
export class AdmissionWebhook implements AsyncDisposable {
  readonly caBundle: string
  readonly reviews: Review[] = []
  /** The response to each review. Default: all are allowed. */
  respond: Respond = () => ({ allowed: true })
  /** If set, it responds instead. */
  raw: Raw | undefined
  readonly #server: Server

  private constructor(server: Server, ca: Buffer) {
    this.#server = server
    this.caBundle = ca.toString('base64')
  }

  static async start({
    ca,
    cert,
    key,
  }: Pick<Certificates, 'ca' | 'cert' | 'key'>): Promise<AdmissionWebhook> {
    const [authority, certificate, secret] = await Promise.all([readFile(ca), readFile(cert), readFile(key)])
    const server = createServer({ cert: certificate, key: secret })
    const webhook = new AdmissionWebhook(server, authority)
    server.on('request', (request, response) => {
      webhook.#handle(request, response).catch(() => response.destroy())
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return webhook
  }

  get port(): number {
    const address = this.#server.address()
    if (typeof address !== 'object' || address === null) throw new Error('the webhook does not listen')
    return address.port
  }

  /** The `clientConfig` of its configuration. */
  get client(): Fields {
    return { url: `https://127.0.0.1:${this.port}/review`, caBundle: this.caBundle }
  }

  /** What it was asked about: `CREATE a`. */
  get asked(): string[] {
    return this.reviews.map(({ request }) => `${textOf(request.operation)} ${request.name ?? ''}`.trim())
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = fieldsOf(JSON.parse(await text(request)))
    const { url = '', headers } = request
    const review = { apiVersion: textOf(body.apiVersion), request: fieldsOf(body.request), url, headers }
    this.reviews.push(review)
    if (this.raw !== undefined) {
      this.raw(response, review)
      return
    }
    sendReview(response, review, await this.respond(review))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, 'close')
    this.#server.close()
    this.#server.closeAllConnections()
    await closed
  }
}

/** Sends the AdmissionReview of a response. */
export function sendReview(response: ServerResponse, { apiVersion, request }: Review, fields: Fields): void {
  response.setHeader('content-type', 'application/json')
  const { uid } = request
  response.end(JSON.stringify({ apiVersion, kind: 'AdmissionReview', response: { uid, ...fields } }))
}

/** Returns the patch of a response. */
export function patchOf(...operations: readonly object[]): Fields {
  const patch = Buffer.from(JSON.stringify(operations)).toString('base64')
  return { allowed: true, patchType: 'JSONPatch', patch }
}
