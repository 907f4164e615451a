import { createHmac, timingSafeEqual } from 'node:crypto'

/**
 * The keys of the setting `signingKeys` and the signatures of Standard Webhooks (standardwebhooks.com): HMAC-SHA256
 * over `<id>.<timestamp>.<body>`.
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
   * Returns codes which show that a holder of the key has written a text: one for each key of the name, so that a key
   * can be replaced.
   * @throws Error if there is no such key
   */
  seal(name: string, text: string): string {
    return this.#keysOf(name)
      .map(key => sealBy(key, text).toString('base64'))
      .join(' ')
  }

  /** Returns true if one of the keys has sealed the text. */
  isSealed(text: string, seal: string): boolean {
    const codes = seal.split(' ').map(code => Buffer.from(code, 'base64'))
    return [...this.#keys.values()].flat().some(key => {
      const expected = sealBy(key, text)
      return codes.some(code => code.length === expected.length && timingSafeEqual(code, expected))
    })
  }

  /**
   * Returns the headers of one attempt.
   * @param seconds since the epoch
   * @throws Error if there is no such key
   */
  sign(name: string, id: string, seconds: number, body: string): Record<string, string> {
    const signatures = this.#keysOf(name).map(key => {
      const mac = createHmac('sha256', key).update(`${id}.${seconds}.${body}`)
      return `v1,${mac.digest('base64')}`
    })
    return {
      'webhook-id': id,
      'webhook-timestamp': String(seconds),
      'webhook-signature': signatures.join(' '),
    }
  }

  #keysOf(name: string): readonly Buffer[] {
    const keys = this.#keys.get(name)
    if (keys === undefined) throw new Error(`the setting signingKeys has no key ${JSON.stringify(name)}`)
    return keys
  }
}

/** No signature is for such a text, because it would begin with the id of a message. */
function sealBy(key: Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(`seal\n${text}`).digest()
}

function decode(text: string): Buffer {
  return Buffer.from(text.replace(/^whsec_/, ''), 'base64')
}
