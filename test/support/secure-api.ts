import https from 'node:https'
import { text } from 'node:stream/consumers'
import { Api, type Received, type Sent } from './api.ts'

/** A client of a server with a CA of its own, which `fetch` would not accept. Sends a token. */
export class SecureApi extends Api {
  readonly #agent: https.Agent
  readonly #token: string

  /** @param ca in PEM format */
  constructor(url: string, ca: string, token: string) {
    super(url)
    this.#agent = new https.Agent({ ca })
    this.#token = token
  }

  protected override send(url: string, { method, headers, body, signal }: Sent): Promise<Received> {
    const options = {
      ...{ method, agent: this.#agent },
      headers: { authorization: `Bearer ${this.#token}`, ...headers },
      ...(signal && { signal }),
    }
    return new Promise((resolve, reject) => {
      const request = https.request(url, options, response => {
        const received = new Headers()
        for (const [name, value = ''] of Object.entries(response.headers)) received.set(name, String(value))
        text(response).then(
          body => resolve({ status: response.statusCode ?? 0, headers: received, text: body }),
          reject,
        )
      })
      request.on('error', reject).end(body)
    })
  }
}
