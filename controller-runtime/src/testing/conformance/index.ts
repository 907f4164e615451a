/**
 * A conformance suite for reconcilers: guarantees that every good reconciler keeps, as tests. Each case takes an object
 * through its lifecycle many times, from creation to deletion, each time in a new scenario (server, outside, process)
 * with a disturbance at another point, and compares the results.
 */
export { ConformanceError } from './conformance-error.ts'
export {
  type ConformanceCase,
  type ReconcilerConformance,
  type RegisterTest,
  reconcilerConformance,
} from './reconciler-conformance.ts'
export {
  conformanceDefaults,
  type ObjectView,
  type ProcessStart,
  type ReconcilerUnderTest,
  type WorldView,
} from './reconciler-under-test.ts'
