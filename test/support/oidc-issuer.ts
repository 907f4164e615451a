import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer, request, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair, type JWK, type JWTPayload, SignJWT } from 'jose'
import { Provider } from 'oidc-provider'
import { type Certificates, makeCertificates } from './certificates.ts'
import { fieldsOf, textOf } from './json.ts'
import { freePort } from './ports.ts'

const secret = 'client-secret-of-the-tests'
const audience = 'setpoint'

/** An OpenID Connect issuer on HTTPS. Its users get tokens from its token endpoint. */
export class OidcIssuer {
  readonly url: string
  readonly certificates: Certificates
  readonly #server: Server
  readonly #users: Readonly<Record<string, object>>
  readonly #sockets = new Set<{ destroy(): void }>()
  #keys: JWK[] = []
  #provider: Provider | undefined
  /** Requests for its keys. */
  keyRequests = 0

  private constructor(server: Server, certificates: Certificates, users: Readonly<Record<string, object>>) {
    this.#server = server
    this.certificates = certificates
    this.#users = users
    this.url = `https://127.0.0.1:${portOf(server)}`
    server.on('connection', socket => {
      this.#sockets.add(socket)
      socket.on('close', () => this.#sockets.delete(socket))
    })
    server.on('request', (message, response) => {
      if (message.url === '/jwks') this.keyRequests++
      void this.#provider?.callback()(message, response)
    })
  }

  /** @param users the claims of each user's tokens */
  static async start(users: Readonly<Record<string, object>>): Promise<OidcIssuer> {
    const certificates = await makeCertificates()
    const [cert, key] = await Promise.all([readFile(certificates.cert), readFile(certificates.key)])
    const server = createServer({ cert, key })
    await once(server.listen(await freePort(), '127.0.0.1'), 'listening')
    const issuer = new OidcIssuer(server, certificates, users)
    await issuer.rotate()
    return issuer
  }

  /** Signs with a new key from now on. */
  async rotate({ keepOld = true }: { readonly keepOld?: boolean } = {}): Promise<void> {
    const { privateKey } = await generateKeyPair('RS256', { extractable: true })
    const key = { ...(await exportJWK(privateKey)), kid: `key-${Math.random()}`, alg: 'RS256', use: 'sig' }
    this.#keys = [key, ...(keepOld ? this.#keys : [])]
    this.#provider = new Provider(this.url, {
      jwks: { keys: this.#keys },
      clients: Object.keys(this.#users).map(name => ({
        client_id: name,
        client_secret: secret,
        redirect_uris: [],
        response_types: [],
        grant_types: ['client_credentials'],
      })),
      features: {
        clientCredentials: { enabled: true },
        devInteractions: { enabled: false },
        resourceIndicators: {
          enabled: true,
          getResourceServerInfo: () => ({ scope: '', audience, accessTokenFormat: 'jwt' }),
        },
      },
      extraTokenClaims: (_ctx, token) => ({ ...this.#users[token.clientId ?? ''] }),
      ttl: { ClientCredentials: 600 },
    })
  }

  /** Returns a token of the token endpoint. */
  async token(user: string): Promise<string> {
    const ca = await readFile(this.certificates.ca)
    const sent = request(`${this.url}/token`, {
      method: 'POST',
      ca,
      agent: false,
      auth: `${user}:${secret}`,
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
    })
    sent.end('grant_type=client_credentials&resource=https%3A%2F%2Fsetpoint.example.com')
    const [response] = await once(sent, 'response')
    let text = ''
    for await (const part of response.setEncoding('utf8')) text += part
    return textOf(fieldsOf(JSON.parse(text)).access_token)
  }

  /** Signs any claims with the present key. */
  async sign(claims: JWTPayload, header: { alg?: string; kid?: string } = {}): Promise<string> {
    const [key] = this.#keys
    if (key === undefined) throw new Error('the issuer has no key')
    return new SignJWT({ iss: this.url, sub: 'ann', aud: audience, ...claims })
      .setProtectedHeader({ alg: 'RS256', ...(key.kid !== undefined && { kid: key.kid }), ...header })
      .sign(key)
  }

  /** The public part of the present key. */
  get publicKey(): JWK {
    const { kty, n, e, kid } = this.#keys[0] ?? {}
    return JSON.parse(JSON.stringify({ kty, n, e, kid }))
  }

  /** Closes its port. */
  async stop(): Promise<void> {
    const closed = once(this.#server, 'close')
    this.#server.close()
    for (const socket of this.#sockets) socket.destroy()
    await closed
  }

  /** Opens its port again. */
  async resume(): Promise<void> {
    await once(this.#server.listen(Number(new URL(this.url).port), '127.0.0.1'), 'listening')
  }
}

function portOf(server: Server): number {
  return (server.address() as AddressInfo).port
}
