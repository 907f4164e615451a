import { createHmac } from 'node:crypto'

/**
 * The keys of the setting `signingKeys` and the signatures of Standard Webhooks (standardwebhooks.com): HMAC-SHA256 over
 * `<id>.<timestamp>.<body>`.
 */
export class SigningKeys {
  readonly #keys: ReadonlyMap<string, readonly Buffer[]>

  constructor(setting: Readonly<Record<string, string>>) {
    this.#keys = new Map(Object.entries(setting).map(([name, text]) => [name, text.split(' ').map(decode)]))
  }

  has(name: string): boolean {
    return this.#keys.has(name)
  }

  /**
   * Returns the headers of one attempt.
   * @param seconds since the epoch
   * @throws Error if there is no such key
   */
  sign(name: string, id: string, seconds: number, body: string): Record<string, string> {
    const keys = this.#keys.get(name)
    if (keys === undefined) throw new Error(`the setting signingKeys has no key ${JSON.stringify(name)}`)
    const signatures = keys.map(key => {
      const mac = createHmac('sha256', key).update(`${id}.${seconds}.${body}`)
      return `v1,${mac.digest('base64')}`
    })
    return {
      'webhook-id': id,
      'webhook-timestamp': String(seconds),
      'webhook-signature': signatures.join(' '),
    }
  }
}

function decode(text: string): Buffer {
  return Buffer.from(text.replace(/^whsec_/, ''), 'base64')
}
