/**
 * Authenticates and authorizes callers. Without a token file, local callers may do everything. With one, callers need a
 * token from it, and the groups of its entry decide what they may do.
 */
export * from './access.ts'
export * from './authorize.ts'
export * from './bearer-token.ts'
export * from './file-watch.ts'
export * from './forbidden.ts'
export * from './impersonation.ts'
export * from './local-access.ts'
export * from './origins.ts'
export * from './policy-rule.ts'
export * from './rbac/index.ts'
export * from './secret-file.ts'
export * from './token-access.ts'
export * from './token-list.ts'
