/**
 * What an operator does with a store as a whole. It knows keys and the stored form of objects, but neither the models of plugins
 * nor requests, so it works without a server.
 *
 * - `purgeGroup` removes what an uninstalled plugin has left. It removes nothing that a server has stored since it began.
 */
export * from './purge.ts'
export * from './purge-plugins.ts'
export * from './purge-survey.ts'
