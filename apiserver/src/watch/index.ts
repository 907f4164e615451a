/**
 * What clients are told of changes. A subscription is one client's watch of one model; the hub opens and ends them and
 * hands each change, encoded once, to those that it concerns. WebSockets, HTTP streams and in-process
 * clients are thin sinks of the same thing. Within a subscription versions only rise, nothing is left out and nothing comes twice.
 */
export * from './frames.ts'
export * from './subscription.ts'
export * from './watch-hub.ts'
