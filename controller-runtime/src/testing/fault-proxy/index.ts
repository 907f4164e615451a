/**
 * A proxy between one client under test and its server that fails in the ways in which networks and servers do, and
 * that tells watches, lists and other requests apart: a test can cut the watch of a client and leave its lists alone,
 * or the other way about. What no fault is asked for passes byte by byte, with back-pressure and bounded memory.
 */
export type { EventTamper } from './event-decoder.ts'
export { type FaultProxy, faultProxyDefaults, startFaultProxy } from './fault-proxy.ts'
export type { FaultLane, WatchLane } from './lane.ts'
