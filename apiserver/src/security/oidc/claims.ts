import type { UserInfo } from '@setpoint/controller-runtime'
import { ApiError } from '@setpoint/controller-runtime/api'
import { credentialIdKey, systemGroups } from '../access.ts'

/** How the claims of a token become a user, as in Kubernetes. */
export interface ClaimMapping {
  readonly usernameClaim: string
  /** Precedes the user's name. */
  readonly usernamePrefix: string
  readonly groupsClaim: string
  /** Precedes the name of each group. */
  readonly groupsPrefix: string
}

/**
 * Returns the user that the claims of a verified token name.
 * @throws ApiError 401 if the claims have no usable name or groups, or an e-mail address that is not verified
 */
export function userOf(claims: Readonly<Record<string, unknown>>, mapping: ClaimMapping): UserInfo {
  const { usernameClaim, groupsClaim } = mapping
  const name = claims[usernameClaim]
  if (typeof name !== 'string' || name === '')
    throw unauthorized(`the token has no text in the claim ${JSON.stringify(usernameClaim)} for the user`)
  // As in Kubernetes, an issuer that does not send email_verified is trusted to verify addresses.
  if (usernameClaim === 'email' && claims.email_verified !== undefined && claims.email_verified !== true)
    throw unauthorized('the e-mail address in the token is not verified')
  const given = claims[groupsClaim] ?? []
  const groups: readonly unknown[] = Array.isArray(given) ? given : [given]
  if (!groups.every(group => typeof group === 'string'))
    throw unauthorized(
      `the claim ${JSON.stringify(groupsClaim)} of the token is neither a text nor a list of texts`,
    )
  return Object.freeze({
    name: mapping.usernamePrefix + name,
    groups: Object.freeze([
      ...new Set(groups.map(group => mapping.groupsPrefix + group)).add(systemGroups.authenticated),
    ]),
    ...(typeof claims.jti === 'string' && {
      extra: Object.freeze({ [credentialIdKey]: Object.freeze([`JTI=${claims.jti}`]) }),
    }),
  })
}

function unauthorized(message: string): ApiError {
  return new ApiError('Unauthorized', message)
}
