/**
 * What an operator does with a store, or with running servers, as a whole. It knows keys and the stored form of objects, but not
 * the models of plugins.
 *
 * - `purgeGroup` removes what an uninstalled plugin has left. It removes nothing that a server has stored since it began.
 * - `checkStore` finds what is damaged or left over. What it reports was so at one revision, also while servers write.
 * - `statusOf` asks running servers how they stand, by routes that every client can use.
 */

export * from './check.ts'
export * from './check-report.ts'
export * from './purge.ts'
export * from './purge-plugins.ts'
export * from './purge-survey.ts'
export * from './status.ts'
export * from './status-report.ts'
