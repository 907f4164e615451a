/**
 * Tokens of service accounts: JSON Web Tokens that are signed with keys in the store, so that every server verifies
 * them. A token is valid until it expires, and only while its account, and the Secret that it is bound to, exist.
 */
export { BoundObjects } from './bound-objects.ts'
export {
  ServiceAccountTokens,
  serviceAccountIssuer,
  serviceAccountTokenDefaults,
} from './service-account-tokens.ts'
export { SigningKeys, signingKeyDefaults } from './signing-keys.ts'
export { tokenRequest } from './token-request.ts'
