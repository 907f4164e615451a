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
  /** Those of the expected audiences that the token is for. */
  readonly audiences: readonly string[]
}

interface Parts {
  readonly issuers: readonly TokenIssuer[]
  readonly file: TokenFile | undefined
  /** The name of this API as an audience. Tokens that were not issued for service accounts are for it. */
  readonly audience: string
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
  readonly #audiences: readonly string[]
  readonly #counts: AuthenticationCounts

  constructor({ issuers, file, audience, counts, clock }: Parts) {
    this.#issuers = new Map(issuers.map(each => [each.issuer, each]))
    this.#file = file
    this.#audiences = Object.freeze([audience])
    this.#counts = counts
    this.verified = new VerifiedTokens(clock)
  }

  /**
   * Throws or rejects with ApiError 401 or 503. Returns a promise only if it must wait.
   * @param expected the token must be for one of these audiences. Default: this API
   */
  authenticate(token: string, expected = this.#audiences): AuthenticatedToken | Promise<AuthenticatedToken> {
    const issuer = this.#issuers.get(issuerOf(token) ?? '')
    const method = issuer?.method ?? 'token-file'
    try {
      const found = issuer === undefined ? this.#find(token, expected) : this.#verify(issuer, token, expected)
      if (!(found instanceof Promise)) {
        this.#counts.count(method, 'success')
        return found
      }
      return found.then(
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

  #find(token: string, expected: readonly string[]): AuthenticatedToken {
    const identity = this.#file?.find(token)
    if (identity === undefined) throw new ApiError('Unauthorized', 'the token is invalid')
    return { identity, audiences: this.#expectedOf(undefined, expected) }
  }

  #verify(
    issuer: TokenIssuer,
    token: string,
    expected: readonly string[],
  ): AuthenticatedToken | Promise<AuthenticatedToken> {
    const confirm = (verified: VerifiedToken): AuthenticatedToken | Promise<AuthenticatedToken> => {
      const { identity } = verified
      const authenticated = { identity, audiences: this.#expectedOf(verified.audiences, expected) }
      const confirming = verified.confirm?.()
      return confirming === undefined ? authenticated : confirming.then(() => authenticated)
    }
    const found = this.verified.get(token, () => issuer.verify(token))
    return found instanceof Promise ? found.then(confirm) : confirm(found)
  }

  /** @throws ApiError 401 */
  #expectedOf(
    audiences: readonly string[] = this.#audiences,
    expected: readonly string[],
  ): readonly string[] {
    const common = audiences.filter(audience => expected.includes(audience))
    if (common.length === 0) throw new ApiError('Unauthorized', 'the token is for another audience')
    return common
  }

  #fail(method: AuthenticationMethod, error: unknown): never {
    this.#counts.count(method, isApiError(error, 'Unauthorized') ? 'failure' : 'error')
    throw error
  }
}

/** Returns the unverified issuer of a JSON Web Token, or undefined for another token. */
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
