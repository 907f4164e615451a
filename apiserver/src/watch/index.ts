/**
 * What clients are told of changes. A subscription is one client's watch of one model; those that are interested in the
 * same are an audience, for which each change is judged once and encoded once; the hub opens and ends them. WebSockets,
 * HTTP streams and in-process clients are thin sinks of the same thing. Within a subscription versions only rise,
 * nothing is left out and nothing comes twice.
 */
export * from './codec.ts'
export type { WatchTally } from './model-watches.ts'
export * from './subscription.ts'
export * from './watch-hub.ts'
export * from './watch-limits.ts'
export * from './wire-event.ts'
