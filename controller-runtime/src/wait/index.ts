/**
 * Waiting until an object is as wanted: `waitFor` follows it by a watch, without asking again and again, and `until` has
 * the conditions, which compose. For tests, scripts and tools; a reconcile should not wait but return and be called again.
 */
export { until, type WaitCondition } from './until.ts'
export { type WaitOptions, WaitTimeoutError, waitFor } from './wait-for.ts'
