/**
 * Authenticates and authorizes callers. Without any way to authenticate configured, local callers may do everything.
 * Otherwise callers need a client certificate or a token, and their groups decide what they may do.
 */
export * from './access.ts'
export * from './authentication.ts'
export * from './authentication-counts.ts'
export * from './authorize.ts'
export * from './bearer-token.ts'
export * from './bearer-tokens.ts'
export * from './client-certificates.ts'
export * from './file-watch.ts'
export * from './forbidden.ts'
export * from './impersonation.ts'
export * from './local-access.ts'
export * from './origins.ts'
export * from './oidc/index.ts'
export * from './policy-rule.ts'
export * from './rbac/index.ts'
export * from './secret-file.ts'
export * from './token-file.ts'
export * from './token-list.ts'
export * from './verified-tokens.ts'
