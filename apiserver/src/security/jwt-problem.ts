import { ApiError } from '@setpoint/controller-runtime/api'

/** By the codes of jose's errors. */
const problems: Readonly<Record<string, string>> = Object.freeze({
  ERR_JWT_EXPIRED: 'the token has expired',
  ERR_JWS_SIGNATURE_VERIFICATION_FAILED: 'the signature of the token is invalid',
  ERR_JOSE_ALG_NOT_ALLOWED: 'the token is signed with an algorithm that is not accepted',
  ERR_JOSE_NOT_SUPPORTED: 'the token is signed with an algorithm that is not accepted',
  ERR_JWKS_NO_MATCHING_KEY: 'the token is signed with a key that its issuer does not have',
  ERR_JWKS_MULTIPLE_MATCHING_KEYS: 'the token does not name the key (kid) that it is signed with',
})

const claimProblems: Readonly<Record<string, string>> = Object.freeze({
  aud: 'the token is for another audience',
  nbf: 'the token is not valid yet',
})

/** Returns the 401 for a JSON Web Token that jose rejects. It repeats nothing of the token. ApiErrors pass through. */
export function tokenProblem(error: unknown): ApiError {
  if (error instanceof ApiError) return error
  const { code, claim } = fieldsOf(error)
  if (claim !== undefined && code === 'ERR_JWT_CLAIM_VALIDATION_FAILED')
    return unauthorized(claimProblems[claim] ?? `the claim ${claim} of the token is missing or invalid`)
  return unauthorized(problems[code] ?? 'the token is malformed, or its key cannot be used')
}

export function tokenExpired(): ApiError {
  return unauthorized('the token has expired')
}

function fieldsOf(error: unknown): { readonly code: string; readonly claim: string | undefined } {
  if (!(error instanceof Error)) return { code: '', claim: undefined }
  const code = 'code' in error ? String(error.code) : ''
  return { code, claim: 'claim' in error ? String(error.claim) : undefined }
}

function unauthorized(message: string): ApiError {
  return new ApiError('Unauthorized', message)
}
