/**
 * The conformance suite for reconcilers: guarantees that hold for every good one, as tests that an author runs on his
 * own. A life is what an object goes through, from its creation to its end; each case lives many of them, each on a
 * stage of its own (server, outside, process), each disturbed at another point, and compares what they come to.
 */
export type { ConformanceCase } from './conformance-case.ts'
export { ConformanceError } from './conformance-error.ts'
export {
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
