/**
 * A proxy between one client and its server that injects faults. It distinguishes watches, lists and other requests, so
 * a test can, for example, cut the watches of a client but not its lists. Without a fault, bytes pass unchanged, with
 * back-pressure and bounded memory.
 */
export type { EventTamper } from './event-decoder.ts'
export type { FaultInjection, WatchFaultInjection } from './fault-injector.ts'
export { type FaultProxy, faultProxyDefaults, startFaultProxy } from './fault-proxy.ts'
