import type { Clock } from '@setpoint/controller-runtime'
import { ApiError, isApiError, isRecord } from '@setpoint/controller-runtime/api'
import type { Identity } from './access.ts'
import type { AuthenticationCounts, AuthenticationMethod } from './authentication-counts.ts'
import type { TokenFile } from './token-file.ts'
import { type VerifiedToken, VerifiedTokens } from './verified-tokens.ts'

/** Verifies the JSON Web Tokens of one issuer. */
export interface TokenIssuer {
  /** The claim `iss` of its tokens. */
  readonly issuer: string
  readonly method: AuthenticationMethod
  /** Verifies signature, times, audience and user. Rejects with ApiError 401 or 503. */
  verify(token: string): Promise<VerifiedToken>
}

/** An authenticated token. */
export interface AuthenticatedToken {
  readonly identity: Identity
  /** The audiences of this server that it is for; undefined if it is for no audience in particular. */
  readonly audiences: readonly string[] | undefined
}

interface Parts {
  readonly issuers: readonly TokenIssuer[]
  readonly file: TokenFile | undefined
  readonly counts: AuthenticationCounts
  readonly clock?: Clock
}

/**
 * Authenticates bearer tokens. A JSON Web Token of a known issuer is verified by that issuer; the token file has all
 * others.
 */
export class BearerTokens {
  /** The JSON Web Tokens that were verified. */
  readonly verified: VerifiedTokens
  readonly #issuers: ReadonlyMap<string, TokenIssuer>
  readonly #file: TokenFile | undefined
  readonly #counts: AuthenticationCounts

  constructor({ issuers, file, counts, clock }: Parts) {
    this.#issuers = new Map(issuers.map(each => [each.issuer, each]))
    this.#file = file
    this.#counts = counts
    this.verified = new VerifiedTokens(clock)
  }

  /** Throws or rejects with ApiError 401 or 503. Returns a promise only if it must wait. */
  authenticate(token: string): AuthenticatedToken | Promise<AuthenticatedToken> {
    const issuer = this.#issuers.get(issuerOf(token) ?? '')
    if (issuer === undefined) return this.#find(token)
    const { method } = issuer
    try {
      const found = this.verified.get(token, () => issuer.verify(token))
      const confirmed = found instanceof Promise ? found.then(confirm) : confirm(found)
      if (!(confirmed instanceof Promise)) {
        this.#counts.count(method, 'success')
        return confirmed
      }
      return confirmed.then(
        verified => {
          this.#counts.count(method, 'success')
          return verified
        },
        error => this.#fail(method, error),
      )
    } catch (error) {
      return this.#fail(method, error)
    }
  }

  #find(token: string): AuthenticatedToken {
    try {
      const identity = this.#file?.find(token)
      if (identity === undefined) throw new ApiError('Unauthorized', 'the token is invalid')
      this.#counts.count('token-file', 'success')
      return { identity, audiences: undefined }
    } catch (error) {
      return this.#fail('token-file', error)
    }
  }

  #fail(method: AuthenticationMethod, error: unknown): never {
    this.#counts.count(method, isApiError(error, 'Unauthorized') ? 'failure' : 'error')
    throw error
  }
}

function confirm(verified: VerifiedToken): VerifiedToken | Promise<VerifiedToken> {
  const confirming = verified.confirm?.()
  return confirming === undefined ? verified : confirming.then(() => verified)
}

/** Returns the unverified issuer of a JSON Web Token, or undefined if the token is none. */
function issuerOf(token: string): string | undefined {
  const parts = token.split('.', 4)
  if (parts.length !== 3) return undefined
  try {
    const claims: unknown = JSON.parse(Buffer.from(parts[1] ?? '', 'base64url').toString())
    return isRecord(claims) && typeof claims.iss === 'string' ? claims.iss : undefined
  } catch {
    return undefined
  }
}
