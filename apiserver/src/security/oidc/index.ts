/**
 * Authenticates the ID tokens of OpenID Connect issuers, by the keys that the issuers publish. No request waits for an
 * issuer whose keys are known.
 */
export * from './claims.ts'
export * from './oidc-issuer.ts'
