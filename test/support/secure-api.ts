import https from 'node:https'
import { text } from 'node:stream/consumers'
import { Api, type Received, type Sent } from './api.ts'

/** A client of a server with a CA of its own, which `fetch` would not accept. Sends a token if there is one. */
export class SecureApi extends Api {
  readonly #agent: https.Agent
  readonly #headers: Readonly<Record<string, string>>

  /** @param ca in PEM format */
  constructor(url: string, ca: string, token?: string) {
    super(url)
    this.#agent = new https.Agent({ ca })
    this.#headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
  }

  protected override send(url: string, sent: Sent): Promise<Received> {
    return send(url, { ...sent, headers: { ...this.#headers, ...sent.headers } }, this.#agent)
  }
}

interface SecureRequest {
  readonly ca: string
  /** The client's own certificate. */
  readonly certificate?: { readonly cert: string; readonly key: string }
  readonly token?: string
  readonly body?: object
}

/** Sends one HTTPS request that trusts only the given CA. */
export function ask(url: string, { ca, certificate, token, body }: SecureRequest): Promise<Received> {
  return send(
    url,
    {
      method: body === undefined ? 'GET' : 'POST',
      headers: {
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(60_000),
    },
    new https.Agent({ ca, ...certificate }),
  )
}

function send(url: string, { body, ...sent }: Sent, agent: https.Agent): Promise<Received> {
  return new Promise((resolve, reject) => {
    const request = https.request(url, { ...sent, agent }, response => {
      const headers = new Headers()
      for (const [name, value = ''] of Object.entries(response.headers)) headers.set(name, String(value))
      text(response).then(body => resolve({ status: response.statusCode ?? 0, headers, text: body }), reject)
    })
    request.on('error', reject).end(body)
  })
}
