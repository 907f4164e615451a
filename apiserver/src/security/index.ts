/**
 * Who a caller is and what that caller may do. Without authentication: callers of this machine, who may do everything.
 * With a file of tokens: whoever has one of them, and what the groups beside it may do.
 */
export * from './access.ts'
export * from './authorize.ts'
export * from './bearer-token.ts'
export * from './file-watch.ts'
export * from './local-access.ts'
export * from './token-access.ts'
export * from './token-list.ts'
