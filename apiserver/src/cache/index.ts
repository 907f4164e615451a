/**
 * This server's copy of the store. One follower reads the log and updates one cache for each model: the objects as wire
 * bytes, their index values, and the recent changes, all at the same revision. The read gate delays reads until the
 * caches are fresh enough.
 */
export * from './consistency-check.ts'
export * from './entry.ts'
export type { IndexProblem } from './entry-codec.ts'
export * from './history.ts'
export * from './history-replay.ts'
export * from './log-follower.ts'
export * from './model-cache.ts'
export * from './model-snapshot.ts'
export * from './model-store.ts'
export type { NamespaceUsage } from './namespace-usage.ts'
export { type PreparedViews, prepareViews, shownIn } from './prepared-views.ts'
export * from './read-gate.ts'
export * from './snapshot-cache.ts'
export { convertAgain, UnconvertedObjects } from './unconverted-objects.ts'
export * from './unreadable-objects.ts'
