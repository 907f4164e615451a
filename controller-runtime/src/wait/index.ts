/**
 * `waitFor` waits until an object satisfies a condition, using a watch; `until` has composable conditions. For tests,
 * scripts and tools. A reconciler should not wait but return; it is called again on the next change.
 */
export { until, type WaitCondition } from './until.ts'
export { type WaitOptions, WaitTimeoutError, waitFor } from './wait-for.ts'
