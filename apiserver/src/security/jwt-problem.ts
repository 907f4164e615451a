import { ApiError, isRecord } from '@setpoint/controller-runtime/api'

/** By the codes of jose's errors. */
const problems: Readonly<Record<string, string>> = Object.freeze({
  ERR_JWT_EXPIRED: 'the token has expired',
  ERR_JWS_SIGNATURE_VERIFICATION_FAILED: 'the signature of the token is invalid',
  ERR_JOSE_ALG_NOT_ALLOWED: 'the token is signed with an algorithm that is not accepted',
  ERR_JOSE_NOT_SUPPORTED: 'the token is signed with an algorithm that is not accepted',
  ERR_JWKS_NO_MATCHING_KEY: 'the token is signed with a key that its issuer does not have',
  ERR_JWKS_MULTIPLE_MATCHING_KEYS: 'the token does not name the key (kid) that it is signed with',
})

/**
 * Returns the 401 for a JSON Web Token that jose rejects. ApiErrors pass through. Of the token it tells only how far
 * ahead its time is, and only if the signature is valid: jose checks claims after that.
 * @param now milliseconds since the epoch, by the clock that jose was given
 */
export function tokenProblem(error: unknown, now: number): ApiError {
  if (error instanceof ApiError) return error
  const { code, claim, validFrom } = fieldsOf(error)
  if (claim !== undefined && code === 'ERR_JWT_CLAIM_VALIDATION_FAILED')
    return unauthorized(claimProblem(claim, validFrom - now / 1000))
  return unauthorized(problems[code] ?? 'the token is malformed, or its key cannot be used')
}

/** @param secondsAhead from now until the token is valid; NaN if it does not say */
function claimProblem(claim: string, secondsAhead: number): string {
  if (claim === 'aud') return 'the token is for another audience'
  if (claim === 'nbf' && secondsAhead > 0)
    return `the token is not valid yet: its time is ${Math.ceil(secondsAhead)} s ahead of the clock of this server; check the clocks of both`
  return `the claim ${claim} of the token is missing or invalid`
}

export function tokenExpired(): ApiError {
  return unauthorized('the token has expired')
}

interface JoseFields {
  readonly code: string
  readonly claim: string | undefined
  /** Seconds since the epoch; NaN if the token does not say. */
  readonly validFrom: number
}

function fieldsOf(error: unknown): JoseFields {
  if (!(error instanceof Error)) return { code: '', claim: undefined, validFrom: Number.NaN }
  return {
    code: 'code' in error ? String(error.code) : '',
    claim: 'claim' in error ? String(error.claim) : undefined,
    validFrom: 'payload' in error && isRecord(error.payload) ? Number(error.payload.nbf) : Number.NaN,
  }
}

function unauthorized(message: string): ApiError {
  return new ApiError('Unauthorized', message)
}
