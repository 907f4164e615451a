/** Who a caller is and what that caller may do. For the time being: callers of this machine, who may do everything. */
export * from './local-access.ts'
