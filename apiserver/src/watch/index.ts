/**
 * Watches. A subscription is one client's watch of one model. Subscriptions with equal interests form an audience, so
 * each change is tested and encoded once for all of them. The hub opens and ends them. WebSockets, HTTP streams and
 * in-process clients are sinks. Within a subscription versions only rise, without gaps or duplicates.
 */
export * from './codec.ts'
export type { WatchTally } from './model-watches.ts'
export * from './subscription.ts'
export * from './watch-hub.ts'
export * from './watch-limits.ts'
export * from './wire-event.ts'
