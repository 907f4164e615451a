import { type Clock, systemClock } from '@setpoint/controller-runtime'
import type { Logger } from '../../log/index.ts'
import type { TokenIssuer } from '../bearer-tokens.ts'
import { tokenExpired, tokenProblem } from '../jwt-problem.ts'
import { Revocations } from '../revocations.ts'
import type { VerifiedToken } from '../verified-tokens.ts'
import { type ClaimMapping, userOf } from './claims.ts'
import { IssuerKeys } from './issuer-keys.ts'

export const oidcDefaults = Object.freeze({
  /** Signature algorithms, those of Kubernetes. None of them uses a shared secret. */
  algorithms: Object.freeze([
    'RS256',
    'RS384',
    'RS512',
    'ES256',
    'ES384',
    'ES512',
    'PS256',
    'PS384',
    'PS512',
  ]),
  /** Seconds that an issuer's clock may be ahead: for `nbf`, as in Kubernetes. `exp` has no tolerance. */
  clockToleranceSeconds: 300,
})

/** An issuer whose ID tokens are accepted. */
export interface OidcOptions extends ClaimMapping {
  /** URL, exactly as in the claim `iss`. */
  readonly issuer: string
  /** The tokens must be for this audience. */
  readonly audience: string
  /** File with CA certificates (PEM) for the issuer. Default: those of the system. */
  readonly caFile: string | undefined
}

/** Verifies the ID tokens of one issuer. */
export class OidcIssuer implements TokenIssuer {
  readonly method = 'oidc'
  readonly issuer: string
  readonly #options: OidcOptions
  readonly #keys: IssuerKeys
  readonly #clock: Clock
  readonly #revocations: Revocations

  constructor(options: OidcOptions, { log, clock = systemClock }: { log: Logger; clock?: Clock }) {
    const { issuer, caFile } = options
    this.issuer = issuer
    this.#options = options
    this.#keys = new IssuerKeys({ issuer, caFile, log, clock })
    this.#clock = clock
    this.#revocations = new Revocations(clock)
  }

  /** Seconds since the keys could not be fetched; 0 if the last fetch has succeeded. */
  get failingSeconds(): number {
    return this.#keys.failingSeconds
  }

  /** Fetches the keys in the background, so that the first caller does not wait. */
  start(): void {
    void this.#keys.refresh()
  }

  async verify(token: string): Promise<VerifiedToken> {
    const { jwtVerify } = await import('jose')
    const { issuer, audience } = this.#options
    const now = this.#clock.now()
    const { payload } = await jwtVerify(token, this.#keys.get, {
      issuer,
      audience,
      algorithms: [...oidcDefaults.algorithms],
      clockTolerance: oidcDefaults.clockToleranceSeconds,
      currentDate: new Date(now),
      requiredClaims: ['exp'],
    }).catch(error => {
      throw tokenProblem(error, now)
    })
    const expiresAt = (payload.exp ?? 0) * 1000
    if (expiresAt <= now) throw tokenExpired()
    const user = userOf(payload, this.#options)
    const credential = this.#revocations.credential({ expiresAt, isValid: () => true })
    return { identity: Object.freeze({ user, credential }), expiresAt }
  }
}
