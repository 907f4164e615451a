/**
 * Identifies callers and decides what they may do. Without authentication: callers of this machine, who may do everything.
 * With a token file: callers with one of its tokens, who may do what the groups of its entry allow.
 */
export * from './access.ts'
export * from './authorize.ts'
export * from './bearer-token.ts'
export * from './file-watch.ts'
export * from './local-access.ts'
export * from './secret-file.ts'
export * from './token-access.ts'
export * from './token-list.ts'
