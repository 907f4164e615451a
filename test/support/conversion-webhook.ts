import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import type { ServerResponse } from 'node:http'
import { createServer, type Server } from 'node:https'
import { text } from 'node:stream/consumers'
import type { Certificates } from './certificates.ts'
import { arrayOf, type Fields, fieldsOf, textOf } from './json.ts'

/** A ConversionReview that a webhook has got. */
export interface Conversion {
  readonly apiVersion: string
  readonly uid: string
  /** The version to convert to: `v1`. */
  readonly to: string
  readonly objects: readonly Fields[]
}

/** The conversion of one object; `to` is the name of a version. */
export type Convert = (object: Fields, to: string) => unknown

/** A webhook for conversions over HTTPS on 127.0.0.1, with a certificate of the test's own authority. */
export class ConversionWebhook implements AsyncDisposable {
  readonly caBundle: string
  /** What it was asked for, since the last `forget`. */
  readonly asked: Conversion[] = []
  convert: Convert
  /** If set, it responds instead. */
  raw: ((response: ServerResponse, conversion: Conversion) => void) | undefined
  readonly #server: Server

  private constructor(server: Server, ca: Buffer, convert: Convert) {
    this.#server = server
    this.caBundle = ca.toString('base64')
    this.convert = convert
  }

  static async start(
    { ca, cert, key }: Pick<Certificates, 'ca' | 'cert' | 'key'>,
    convert: Convert,
  ): Promise<ConversionWebhook> {
    const [authority, certificate, secret] = await Promise.all([readFile(ca), readFile(cert), readFile(key)])
    const server = createServer({ cert: certificate, key: secret })
    const webhook = new ConversionWebhook(server, authority, convert)
    server.on('request', async (request, response) => {
      try {
        webhook.#handle(JSON.parse(await text(request)), response)
      } catch {
        response.destroy()
      }
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return webhook
  }

  get port(): number {
    const address = this.#server.address()
    if (address === null || typeof address === 'string') throw new Error('the webhook does not listen')
    return address.port
  }

  /** The `spec.conversion` of a definition. */
  get conversion(): Fields {
    const clientConfig = { url: `https://127.0.0.1:${this.port}/convert`, caBundle: this.caBundle }
    return { strategy: 'Webhook', webhook: { clientConfig, conversionReviewVersions: ['v1'] } }
  }

  /** The number of requests and of objects in them, since the last `forget`. */
  get calls(): readonly number[] {
    return this.asked.map(({ objects }) => objects.length)
  }

  forget(): void {
    this.asked.length = 0
  }

  #handle(document: unknown, response: ServerResponse): void {
    const { apiVersion, request } = fieldsOf(document)
    const { uid, desiredAPIVersion, objects } = fieldsOf(request)
    const conversion = {
      apiVersion: textOf(apiVersion),
      uid: textOf(uid),
      to: textOf(desiredAPIVersion).replace(/^.*\//, ''),
      objects: arrayOf(objects).map(fieldsOf),
    }
    this.asked.push(conversion)
    if (this.raw !== undefined) this.raw(response, conversion)
    else sendConverted(response, conversion, this.convert)
  }

  /** Refuses connections from now on, and drops those that are open. */
  async stop(): Promise<void> {
    if (!this.#server.listening) return
    const closed = once(this.#server, 'close')
    this.#server.close()
    this.#server.closeAllConnections()
    await closed
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }
}

/** Responds with the converted objects. @param changes overwrites fields of the response */
export function sendConverted(
  response: ServerResponse,
  { apiVersion, uid, to, objects }: Conversion,
  convert: Convert,
  changes: Fields = {},
): void {
  const convertedObjects = objects.map(object => convert(object, to))
  const body = { uid, result: { status: 'Success' }, convertedObjects, ...changes }
  response.setHeader('content-type', 'application/json')
  response.end(JSON.stringify({ apiVersion, kind: 'ConversionReview', response: body }))
}
